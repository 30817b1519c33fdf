"""A process's own account of what it asked for and what was answered, written so that kill -9 cannot take it back."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Journal:
    """One line is one `write` to a file opened for appending: a killed writer leaves whole lines behind.

    `m` is CLOCK_MONOTONIC, which all processes of a machine share; `w` is the wall clock, which the ledger uses.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - whatever JSON takes
        line = json.dumps({"e": event, "m": time.monotonic(), "w": time.time(), **fields}, separators=(",", ":"))
        os.write(self._descriptor, f"{line}\n".encode())

    def close(self) -> None:
        os.close(self._descriptor)


def read(path: Path) -> list[Record]:
    """All records; a torn last line was never acknowledged to anybody and is left out."""
    *whole, _ = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in whole]
