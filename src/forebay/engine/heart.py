"""Keeps a worker's session alive from a thread of its own, as long as the worker's loop is alive too."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from forebay.clock import steady
from forebay.engine.lease import Lease
from forebay.errors import StoreError
from forebay.model.exchange import Hold, Progress, Renewal
from forebay.observe import emit
from forebay.stores.base import Ledger
from forebay.supervisor import SupervisedThread

_BEATS_PER_LEASE = 3
_LEAST_BETWEEN_S = 0.5
_THAW_S = 0.2


class Heart:
    """Beats three times a lease. A loop that has not ticked for a lease is wedged: its session is let go."""

    def __init__(
        self,
        ledger: Ledger,
        session_id: str,
        *,
        lease_s: float,
        lease: Lease,
        holds: Callable[[], Sequence[Hold]],
        progress: Callable[[], Sequence[Progress]],
        renewed: Callable[[Renewal], None],
    ) -> None:
        self._ledger = ledger
        self._session_id = session_id
        self._lease_s = lease_s
        self._lease = lease
        self._holds = holds
        self._progress = progress
        self._renewed = renewed
        self._ticked = time.monotonic()
        self._due = threading.Event()
        self._end = threading.Event()
        self._thread = SupervisedThread("forebay-heart", self._live)

    def start(self) -> None:
        self._thread.start()

    def tick(self) -> None:
        """Called by the loop, over and over."""
        self._ticked = time.monotonic()

    def hurry(self) -> None:
        """Beat soon: somebody may have asked for a cancel."""
        self._due.set()

    def stop(self) -> None:
        self._end.set()
        self._due.set()
        self._thread.stop()
        self._thread.join(self._lease_s)

    def _live(self) -> None:
        every_s = self._lease_s / _BEATS_PER_LEASE
        least_s = min(_LEAST_BETWEEN_S, every_s / 2)
        while not self._end.is_set():
            self._due.wait(every_s - least_s)
            if self._end.is_set():
                return
            self._due.clear()
            self._beat()
            self._end.wait(least_s)

    def _beat(self) -> None:
        if self._silent_s() > self._lease_s:
            # A process that was frozen as a whole needs a moment; a loop that is stuck does not use it.
            self._end.wait(_THAW_S)
            silent_s = self._silent_s()
            if silent_s > self._lease_s:
                emit("loop_wedged", silent_s=round(silent_s, 1))
                return
        asked_at = steady()
        try:
            renewal = self._ledger.renew(self._session_id, self._holds(), self._progress())
        except StoreError as error:
            emit(
                "store_failed",
                verb="renew",
                error_code=error.code,
                text=str(error),
                pause_s=self._lease_s / _BEATS_PER_LEASE,
            )
            return
        if renewal.alive:
            self._lease.renewed(asked_at)
        else:
            self._lease.lost()
        self._renewed(renewal)

    def _silent_s(self) -> float:
        return time.monotonic() - self._ticked
