"""Finds the command, reads its options with cyclopts, runs it, and turns every error into one line and an exit code."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from typing import Any

from cyclopts import App, CycloptsError

from forebay.cli import HELP_FLAGS, MISUSED
from forebay.cli.commands import COMMANDS, GROUPS, split
from forebay.cli.help import of_command, of_group
from forebay.errors import ForebayError
from forebay.ids import printable

_GLOBAL = {"--ledger", "--limits", "--config", "--output", "-o"}
_VERBOSE = "--verbose"
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def dispatch(given: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that cannot show a character shall get its number, not an end in the middle.
            stream.reconfigure(errors="backslashreplace")
    lead, words = _lead(given)
    name, rest = split(words)
    if name in COMMANDS:
        return _run(name, [*lead, *rest])
    if name in GROUPS and rest and rest[0] in HELP_FLAGS:
        sys.stdout.write(of_group(name))
        return 0
    return _misnamed(name, (words or lead)[:1] if not name else rest[:1])


def _run(name: str, words: list[str]) -> int:
    app = load(name)
    if HELP_FLAGS & set(words[: words.index("--")] if "--" in words else words):
        sys.stdout.write(of_command(name, app))
        return 0
    verbose = _VERBOSE in words
    try:
        code = app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        # What cyclopts says is about the words that were typed, which may hold anything.
        return _complain(f"{name}: {printable(str(error))} See forebay {name} --help.", MISUSED)
    except ForebayError as error:
        return _complain(printable(str(error)), error.exit_code)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None:
            raise
        # No traceback may reach a user who did not ask for it.
        text = printable(f"{type(error).__name__}: {error}")
        hint = "" if verbose else " Run it again with --verbose and report what it prints."
        return _complain(f"{text}. This is a bug.{hint}", 1, verbose=verbose)
    return code if isinstance(code, int) else 0


def load(name: str) -> App:
    """A command alone: nothing of the others is imported."""
    app = App(name=f"forebay {name}", help_flags=[], version_flags=[], suppress_keyboard_interrupt=False)
    app.default(function(name))
    return app


def function(name: str) -> Callable[..., Any]:
    module, _, attribute = COMMANDS[name].target.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"forebay.cli.{module}"), attribute)
    return found


def _lead(given: list[str]) -> tuple[list[str], list[str]]:
    """Options of every command may stand before its name too."""
    lead: list[str] = []
    words = list(given)
    while words and words[0].startswith("-"):
        takes_value = words[0] in _GLOBAL
        if not takes_value and words[0] != _VERBOSE and words[0].partition("=")[0] not in _GLOBAL:
            break
        count = 2 if takes_value else 1
        lead, words = [*lead, *words[:count]], words[count:]
    return lead, words


def _misnamed(group: str, word: list[str]) -> int:
    verbs = [name.removeprefix(f"{group} ") for name in COMMANDS if name.startswith(f"{group} ")]
    known = verbs if group else [*GROUPS, *COMMANDS]
    see = f"See forebay {group} --help." if group else "See forebay --help."
    if not word:
        return _complain(f"which command{f' of {group}' if group else ''}? {see}", MISUSED)
    near = get_close_matches(word[0], known, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    what = f"{group} {word[0]}" if group else word[0]
    return _complain(f"there is no command {printable(what)!r}.{hint} {see}", MISUSED)


def _complain(text: str, code: int, *, verbose: bool = False) -> int:
    if verbose:
        import traceback

        traceback.print_exc()
    sys.stderr.write(f"forebay: {text}\n")
    return code
