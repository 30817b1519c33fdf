"""Raises an exception at one line of a loop's code, on the internal threads that run it."""

from __future__ import annotations

import linecache
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import forebay

SOURCE = Path(forebay.__file__).parent
OURS = "forebay-"
# An exception between two statements of a clean-up is none that Python raises on an internal thread.
CANNOT_RAISE = re.compile(r"(?:try:|else:|finally:|pass|break|continue|[\w.]+\.release\(\))(?:\s*#.*)?")


class Injected(Exception):
    """Nothing of ours raises it, and nothing expects it."""


class Step(NamedTuple):
    """One line of one function."""

    file: str
    function: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}:{self.function}"


class Injector:
    """Notes each step that an internal thread takes in these files, and raises at one of them, once.

    Python ends the tracing of a thread in which its tracer raises: each fault needs threads of its own.
    """

    def __init__(self, files: list[str], at: Step | None = None) -> None:
        self._files = {str(SOURCE / file) for file in files}
        self._at = at
        self.steps: dict[Step, None] = {}
        self.fired = threading.Event()

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ANN401 - as Python calls it
        named = threading.current_thread().name
        if frame.f_code.co_filename not in self._files or not named.startswith(OURS):
            return None
        return self._local

    def _local(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ANN401 - same
        if event == "line":
            step = Step(frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno)
            if CANNOT_RAISE.fullmatch(linecache.getline(step.file, step.line).strip()):
                return self._local
            self.steps[step] = None
            if step == self._at and not self.fired.is_set():
                self.fired.set()
                raise Injected(str(step))
        return self._local

    def disarm(self) -> None:
        """Raise no more."""
        self._at = None

    @contextmanager
    def on(self) -> Iterator[None]:
        """For threads that are started meanwhile."""
        before = threading.gettrace()
        threading.settrace(self.trace)
        try:
            yield
        finally:
            threading.settrace(before)


def sample(steps: list[Step], count: int) -> list[Step]:
    """So many of them, evenly."""
    every = max(1, len(steps) // count)
    return steps[::every][:count]
