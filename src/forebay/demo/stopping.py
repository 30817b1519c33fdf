"""Ctrl-C and SIGTERM: they are noted, and obeyed where nothing is half begun, so that all that was started is ended."""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType
from typing import Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SLICE_S: Final = 0.05


class Stop:
    """In the main thread alone; more signals while the end is under way change nothing."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]  # as it was given

    def check(self) -> None:
        if self.asked:
            raise KeyboardInterrupt

    def pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            self.check()
            left_s = until - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(_SLICE_S, left_s))

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler's shape
        self.asked = True
