"""The command line: reads the arguments, answers on stdout, complains on stderr, returns the exit code."""

import sys
from collections.abc import Sequence
from importlib.metadata import version

USAGE = """\
usage: forebay [--help] [--version] COMMAND

commands:
  run    process documents (not available yet)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    match given[0] if given else None:
        case "--version":
            sys.stdout.write(f"forebay {version('forebay')}\n")
            return 0
        case "--help" | "-h":
            sys.stdout.write(USAGE)
            return 0
        case "run":
            return _misused("forebay run: not available yet: the document pipeline comes with a later version.")
        case None:
            return _misused("forebay: which command? See forebay --help.")
        case command:
            return _misused(f"forebay: there is no command {command!r}. See forebay --help.")


def _misused(complaint: str) -> int:
    sys.stderr.write(f"{complaint}\n")
    return 2
