"""Carries finished work to the ledger and new work back, one numbered exchange at a time, until it is answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from forebay import failpoint
from forebay.clock import steady
from forebay.engine.lease import Lease
from forebay.errors import StoreClosed, StoreError
from forebay.model.exchange import Release, Reply, Settle, Want
from forebay.model.task import Task
from forebay.observe import emit
from forebay.stores.base import Ledger

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0
_HURRY_S = 1.0


class Ended(NamedTuple):
    """What is to be written of an attempt, and what to call once it is written."""

    settle: Settle
    task: Task
    run_s: float


class Exchanger:
    """What is handed in waits here until the ledger has answered for it; an outage costs time, not results."""

    def __init__(self, ledger: Ledger, session_id: str, lease: Lease) -> None:
        self._ledger = ledger
        self._session_id = session_id
        self._lease = lease
        self._n = 0
        self._ended: list[Ended] = []
        self._releases: list[Release] = []
        self._thread = ThreadPoolExecutor(1, "forebay-exchange")

    def settle(self, ended: Ended) -> None:
        self._ended.append(ended)

    def release(self, release: Release) -> None:
        self._releases.append(release)

    @property
    def waiting_count(self) -> int:
        """How much has been handed in since the last exchange."""
        return len(self._ended) + len(self._releases)

    async def exchange(
        self, wants: Sequence[Want], *, patient: Callable[[], bool], idle: bool = False
    ) -> tuple[Reply, list[Ended]]:
        """The reply, and the endings it answers for, in the same order; asked for until it comes or patience ends.

        An idle loop may wait for it itself: to send another thread and be woken by it takes as long as a commit.
        """
        ended, self._ended = self._ended, []
        settles = [each.settle for each in ended]
        releases, self._releases = self._releases, []
        self._n += 1
        failed_at: float | None = None
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                if idle:
                    idle = False
                    reply = self._call(self._n, settles, releases, wants)
                else:
                    reply = await asyncio.get_running_loop().run_in_executor(
                        self._thread, self._call, self._n, settles, releases, wants
                    )
            except StoreError as error:
                failed_at = failed_at or time.monotonic()
                # One lost answer is not an outage: what is in hand is worth a second, also to those in a hurry.
                hurries = not patient() and time.monotonic() - failed_at > _HURRY_S
                if isinstance(error, StoreClosed) or hurries:
                    raise
                # Maybe done, maybe not: the same number again gets the same answer.
                emit("store_failed", verb="exchange", error_code=error.code, text=str(error), pause_s=pause_s)
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads workers, hides nothing
                pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
            else:
                if failed_at is not None:
                    emit("store_recovered", verb="exchange", after_s=round(time.monotonic() - failed_at, 3))
                return reply, ended

    def _call(self, n: int, settles: list[Settle], releases: list[Release], wants: Sequence[Want]) -> Reply:
        if settles:
            failpoint.reach("result_durable")
        if wants:
            failpoint.reach("before_claim")
        asked_at = steady()
        reply = self._ledger.exchange(self._session_id, n, settles=settles, releases=releases, wants=wants)
        if reply.alive and (settles or reply.claims):
            # An exchange that carries nothing may be answered from a read, which renews nothing.
            self._lease.renewed(asked_at)
        if settles:
            failpoint.reach("settled")
        if reply.claims:
            failpoint.reach("claimed")
        return reply

    def close(self) -> None:
        self._thread.shutdown(wait=False)
