"""The command line: reads the arguments, answers on stdout, complains on stderr, returns the exit code."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from forebay.cli.streams import discard_answer, open_missing

HELP_FLAGS = {"--help", "-h"}
_FULL = "Free some space, or send the answer elsewhere."
INTERRUPTED = 130
_DRAINING = {"worker", "serve"}
MISUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not _DRAINING & set(given):
        return _run(given)
    try:
        usual = signal.signal(signal.SIGTERM, _end_early)
    except ValueError:  # not in the main thread
        return _run(given)
    try:
        return _run(given)
    except _EndedEarly:
        return 0
    finally:
        if signal.getsignal(signal.SIGTERM) is _end_early:
            signal.signal(signal.SIGTERM, usual)


class _EndedEarly(BaseException):
    """Told to end before it has begun, a worker has nothing to hand back: it has drained."""


def _end_early(*_: object) -> None:
    raise _EndedEarly


def _run(given: list[str]) -> int:
    open_missing()
    try:
        code = _answer(given)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_answer()
        return 0
    except OSError as error:
        discard_answer()
        with suppress(OSError):  # stderr may be as full
            sys.stderr.write(f"forebay: {error.strerror}: not all could be written. {_FULL}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("forebay: interrupted\n")
        return INTERRUPTED
    return code


def _answer(given: list[str]) -> int:
    first = given[0] if given else ""
    if not first:
        sys.stderr.write("forebay: which command? See forebay --help.\n")
        return MISUSED
    if first == "--version":
        from importlib.metadata import version

        sys.stdout.write(f"forebay {version('forebay')}\n")
        return 0
    if first in HELP_FLAGS:
        from forebay.cli.help import overview

        sys.stdout.write(overview())
        return 0
    from forebay.cli.dispatch import dispatch

    return dispatch(given)
