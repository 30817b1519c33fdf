"""Mends the standard streams: those that are closed, and an answer that nobody can take."""

import os
import sys

_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}


def open_missing() -> None:
    """Python has None for a stream that was closed before it began."""
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            # In this order each gets the number that is missing, which no file of ours may take.
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - open until the end
            os.set_inheritable(stream.fileno(), True)  # noqa: FBT003 - of the standard library
            setattr(sys, name, stream)


def discard_answer() -> None:
    """Python would complain once more when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
