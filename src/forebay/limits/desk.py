"""One limit in this process: the line at its store, and what to do for those who wait when the store is gone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from forebay.clock import steady
from forebay.errors import MaybeApplied, StoreBusy, StoreClosed, StoreError, StoreUnreachable
from forebay.limits.line import Line, Progress
from forebay.limits.share import Share
from forebay.model.limit_record import Answer, Terms
from forebay.observe import emit
from forebay.stores.limit_base import LimitStore
from forebay.supervisor import Failures

_PATIENCE_S = 1.0  # a store that is restarted quickly causes no share
_GONE = (StoreUnreachable, MaybeApplied, StoreBusy)


class Desk:
    """`line` is where waiters go now: at the store, or in this process alone while that is gone and `share` allows.

    `known` returns the limit's terms as this process defined them, for the time before the store has ever answered.
    """

    def __init__(  # noqa: PLR0917 - of the limiter only
        self,
        limit: str,
        store: LimitStore,
        sid: str,
        label: str,
        poke: Callable[[Desk], None],
        known: Callable[[], Terms | None] = lambda: None,
        healed: Callable[[], None] = lambda: None,
        progress: Progress | None = None,
    ) -> None:
        self.limit = limit
        self.failures = Failures()
        # Of the limiter's thread: when it looks here next, and which answer it saw last.
        self.next_look_at = math.inf
        self.answer_seen: Answer | None = None
        self._poke = partial(poke, self)
        self._make: Callable[..., Line] = partial(Line, limit, sid=sid, label=label, poke=self._poke)
        self._known = known
        self._healed = healed
        self.main = self._make(store=store, progress=progress)
        self._spare: Line | None = None
        self._missed = False
        self._told = False
        self.vain_count = 0  # answers without a grant since this process got its last slot
        self.said: dict[str, tuple[float, int]] = {}  # by reason: when it was last told, and how often not since
        self.failed_in_row = 0  # calls of this process
        self.cut_off = 0  # calls that the limit counts though nobody waits for them, as its store said last
        self.refused_at = -1  # calls that were granted until then were under way when a provider refused one

    @property
    def line(self) -> Line:
        return self._spare or self.main

    @property
    def lines(self) -> tuple[Line, ...]:
        return (self.main,) if self._spare is None else (self.main, self._spare)

    @property
    def degraded(self) -> bool:
        """Whether the store does not answer, or the limiter's own thread fails here again and again."""
        return self.main.failed_at is not None or self.failures.count > 0

    @property
    def lacks_processes(self) -> bool:
        """Whether callers wait only because nobody said how many processes share the limit."""
        terms = self.main.terms or self._known()
        return (
            self.degraded and terms is not None and terms["when_store_down"] == "share" and not self._processes(terms)
        )

    def missed(self, error: StoreError, asked_at: float) -> None:
        """The store did not answer: settle the waiters that cannot wait for it with what went wrong."""
        now = steady()
        with self.main.lock:
            self.main.missed(error, now, asked_at)
            self._missed = True
            terms = self.main.terms or self._cold_terms(error)
            if terms is None or isinstance(error, StoreClosed):
                self.main.give_up(error)
                return
            if not self._told:
                self._told = True
                emit("limit_degraded", limit=self.limit, policy=terms["when_store_down"], error_code=error.code)
            if terms["when_store_down"] == "fail":
                if not isinstance(error, StoreUnreachable):
                    self.main.failure = StoreUnreachable(error.what, remedy=error.remedy)
                self.main.give_up(self.main.failure or error)
                return
            self.main.tried()
            if (
                terms["when_store_down"] == "share"
                and self._spare is None
                and now - self._silent_since(now) >= _PATIENCE_S
            ):
                self._begin_share(terms)

    def _cold_terms(self, error: StoreError) -> Terms | None:
        """Return the terms of a limit that continues although its store has never answered."""
        known = self._known() if isinstance(error, _GONE) else None
        return known if known is not None and known["when_store_down"] == "share" else None

    def _begin_share(self, terms: Terms) -> None:
        processes = self._processes(terms)
        if processes:
            share = Share(self.limit, terms, processes, lambda: self.main.open_count, self.main.open_units)
            self._spare = self._make(store=share)
            self._move(self.main, self._spare)
            emit("limit_shared", limit=self.limit, processes=processes, **share.bounds)
            self._poke()

    def _processes(self, terms: Terms) -> int:
        """How many processes share the limit: as many as its definition says, or as were seen, if those are more."""
        seen = max(1, self.main.answer["session_count"]) if self.main.answer else 0
        return max(seen, terms["share_processes"])

    def _silent_since(self, now: float) -> float:
        return now if self.main.failed_at is None else self.main.failed_at

    def refusal(self) -> StoreError | None:
        """What to tell newcomers while the store is gone, unless the limit waits or it is time to try."""
        terms = self.main.terms
        if terms is None or terms["when_store_down"] != "fail" or steady() >= self.main.retry_at:
            return None
        return self.main.failure

    def answered(self) -> None:
        """The store is there again: those who wait go back to its line."""
        if not self._missed or self.main.failed_at is not None:
            return
        with self.main.lock:
            self._missed = False
            spare, self._spare = self._spare, None
            healed, self._told = self._told, False
            if spare is not None:
                with spare.lock:
                    self._move(spare, self.main)
        if healed:
            emit("limit_healed", limit=self.limit)
        self._healed()

    def _move(self, source: Line, target: Line) -> None:
        for party in source.empty():
            for waiter in party.waiters:
                target.join(
                    waiter, party.units, key=party.key, label=party.label, front=party.front, anyhow=party.partial
                )
