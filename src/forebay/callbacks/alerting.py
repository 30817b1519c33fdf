"""Turns events of a worker that call for a person into callbacks to the operator."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from forebay.errors import ForebayError
from forebay.observe import emit, subscribe
from forebay.supervisor import SupervisedThread

ALERTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "task_failed": ("alert.dead_letter", ("kind", "error_class")),
    "limit_degraded": ("alert.limit_degraded", ("limit",)),
    "quota_exhausted": ("alert.quota_exhausted", ("limit",)),
    "callback_endpoint_disabled": ("alert.endpoint_disabled", ("endpoint_id",)),
}
"""The events, what their alerts are called, and which of their fields tell one alert from another."""

_EVERY_S = 60
_MOST_WAITING = 1000
_LEAVE_S = 5.0


class Alert(NamedTuple):
    """`key` is the same for alerts of one sort within a minute, in whatever process: of those one is sent."""

    name: str
    data: dict[str, object]
    key: str


Tell = Callable[[Alert], None]


class Alerts:
    """Listens to the events of this process; `tell` may block, since it is called on a thread of its own."""

    def __init__(self, tell: Tell, *, now: Callable[[], float] = time.time) -> None:
        self._tell = tell
        self._now = now
        self._last: dict[str, None] = {}
        self._waiting: queue.Queue[Alert | None] = queue.Queue(_MOST_WAITING)
        self._thread = SupervisedThread("forebay-alerts", self._run)
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> Alerts:
        self._thread.start()
        self._unsubscribe = subscribe(self.heard)
        return self

    def heard(self, name: str, fields: Mapping[str, object]) -> None:
        known = ALERTS.get(name)
        if known is None:
            return
        called, telling = known
        sort = " ".join(str(fields.get(each)) for each in telling)
        key = f"{called} {sort} {int(self._now() // _EVERY_S)}"[:200]
        if key in self._last:
            return
        self._last = dict.fromkeys([*self._last, key][-_MOST_WAITING:])
        data: dict[str, object] = {
            each: value for each, value in fields.items() if value is None or isinstance(value, (str, int, float))
        }
        try:
            self._waiting.put_nowait(Alert(called, data, key))
        except queue.Full:
            return  # as many wait already: the operator will hear of it

    def _run(self) -> None:
        while (alert := self._waiting.get()) is not None:
            try:
                self._tell(alert)
            except ForebayError as error:
                emit("store_failed", verb="alert", error_code=error.code, text=str(error), pause_s=0)

    def close(self) -> None:
        """Send what has been heard, if that does not take long."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        try:
            self._waiting.put(None, timeout=_LEAVE_S)
        except queue.Full:
            return
        self._thread.stop()
        self._thread.join(_LEAVE_S)
