"""Those in this process who want to hear when work may have arrived."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from forebay.supervisor import report_failure

if TYPE_CHECKING:
    import asyncio


class Listeners:
    """May be changed while they are told, also by one of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakes: list[Callable[[], None]] = []

    def add(self, wake: Callable[[], None], loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], None]:
        """Have it called, in its loop if it has one; returns how to stop it."""

        def own() -> None:
            if loop is None:
                wake()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        def stop() -> None:
            with self._lock:
                self._wakes = [each for each in self._wakes if each is not own]

        with self._lock:
            self._wakes = [*self._wakes, own]
        return stop

    def tell(self) -> None:
        for wake in self._wakes:
            notify(wake)


def notify(wake: Callable[[], None]) -> None:
    """Call a listener; what it raises is reported, and ends nobody else's work."""
    try:
        wake()
    except Exception as error:  # noqa: BLE001 - others have to be woken
        report_failure(threading.current_thread().name, error, restart_count=0, pause_s=0)
