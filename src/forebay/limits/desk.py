"""One limit in this process: the line at its store, and what to do for those who wait when the store is gone."""

from __future__ import annotations

from collections.abc import Callable

from forebay.clock import steady
from forebay.errors import StoreClosed, StoreError, StoreUnreachable
from forebay.limits.line import Line
from forebay.limits.waiting import Waiter
from forebay.model.limit_record import Terms
from forebay.observe import emit
from forebay.rules import limit_state
from forebay.stores.limit_base import LimitStore
from forebay.stores.memory.limits import MemoryLimits

_SPARE = "here"


class Desk:
    """`line` is where waiters go now: at the store, or in this process alone while that is gone and `share` allows."""

    def __init__(self, limit: str, store: LimitStore, sid: str, label: str, poke: Callable[[], None]) -> None:
        self.limit = limit
        self._make: Callable[[LimitStore], Line] = lambda each: Line(limit, each, sid, label, poke)
        self.main = self._make(store)
        self._spare: Line | None = None
        self._told = False
        self.refused_at = -1  # calls that were granted until then were under way when a provider refused one

    @property
    def line(self) -> Line:
        return self._spare or self.main

    @property
    def lines(self) -> tuple[Line, ...]:
        return (self.main,) if self._spare is None else (self.main, self._spare)

    @property
    def degraded(self) -> bool:
        return self.main.failed_at is not None

    def missed(self, error: StoreError) -> list[Waiter]:
        """The store did not answer. Whom to wake, with what went wrong."""
        now = steady()
        with self.main.lock:
            self.main.missed(error, now)
            terms = self.main.terms
            if terms is None or isinstance(error, StoreClosed):
                return self.main.give_up(error)
            if not self._told:
                self._told = True
                emit("limit_degraded", limit=self.limit, policy=terms["down"], error_code=error.code)
            if terms["down"] == "fail":
                if not isinstance(error, StoreUnreachable):
                    self.main.failure = StoreUnreachable(error.what, remedy=error.remedy)
                return self.main.give_up(self.main.failure or error)
            tried = self.main.tried()
            if terms["down"] == "share" and self._spare is None and self._silent_for(now) * 1000 > _silence(terms):
                self._spare = self._make(_share(self.limit, terms, self._sessions()))
                self._move(self.main, self._spare)
        return tried

    def refusal(self) -> StoreError | None:
        """What to tell newcomers while the store is gone, unless the limit waits or it is time to try."""
        terms = self.main.terms
        if terms is None or terms["down"] != "fail" or steady() >= self.main.retry_at:
            return None
        return self.main.failure

    def _silent_for(self, now: float) -> float:
        return now - self.main.answered_at

    def _sessions(self) -> int:
        return max(1, self.main.answer["sessions"]) if self.main.answer else 1

    def answered(self) -> None:
        """The store is there again: those who wait go back to its line."""
        if not self._told or self.main.failed_at is not None:
            return
        with self.main.lock:
            spare, self._spare = self._spare, None
            healed, self._told = self._told, False
            if spare is not None:
                with spare.lock:
                    self._move(spare, self.main)
        if healed:
            emit("limit_healed", limit=self.limit)

    def _move(self, source: Line, target: Line) -> None:
        for party in source.empty():
            for waiter in party.waiters:
                target.join(waiter, party.units, key=party.key, label=party.label, front=party.front)


def _silence(terms: Terms) -> int:
    """After so long whatever the store had granted to others is over, or known to their own share."""
    return max(terms["lease"], terms["call"])


def _share(limit: str, terms: Terms, sessions: int) -> MemoryLimits:
    """The part of one process, of everything, rounded down: nothing at all means that it waits."""
    part = dict(terms) | {
        "in_flight": terms["in_flight"] // sessions if terms["in_flight"] > 0 else terms["in_flight"],
        "windows": [{**bound, "n": bound["n"] // sessions} for bound in terms["windows"]],
    }
    store = MemoryLimits()
    record = limit_state.new_record(0)
    record["eras"] = [{"until": -1, "terms": part}]  # type: ignore[typeddict-item]
    record["tv"] = 1
    store.change(limit, lambda _, now: record | {"last": now})
    return store
