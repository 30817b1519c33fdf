"""Asks for a slot without waiting for it: whoever gets none keeps a place in line, and is told when to ask again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from forebay import ids
from forebay.errors import Busy, NeverFits, PlaceHeld
from forebay.ids import shown
from forebay.limits.slot import Slot
from forebay.model.limit import check_seconds
from forebay.model.names import check_label
from forebay.rules import kept_places

if TYPE_CHECKING:
    from forebay.limits.desk import Desk
    from forebay.limits.pump import Pump
    from forebay.model.limit_record import Answer, Ask
    from forebay.stores.limit_base import LimitStore

KEEP_S = 120.0
LEAST_KEEP_S = 10.0
MOST_KEEP_S = 3600.0
_WAITS_ALONE = "place"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """No slot yet: the place is kept. Ask for it again in `retry_in_s`, which are whole seconds.

    `position` counts those ahead, `eta_s` is None where nobody can tell, `blocked_by` says what is waited for.
    """

    limit: str
    place: str
    retry_in_s: float
    position: int
    eta_s: float | None
    blocked_by: tuple[str, ...]


class Claim(NamedTuple):
    """Who asks for which place: `session` is the place's in the record, `holder` the token of this ask."""

    session: str
    place: str
    holder: str
    keep_ms: int

    def mark(self, ask: Ask) -> None:
        """Say in a request who speaks, and in one that wants a slot which place it is."""
        ask["holder"] = self.holder
        if ask["runs"]:
            ask["keep_ms"] = self.keep_ms
            ask["place_name"] = self.place


def claim(place: str, *, keep_s: float = KEEP_S, holder: str = "", owner: str = "") -> Claim:
    """Return the claim of an ask; the places of one `owner` are apart from those of another."""
    check_label("place", place)
    check_seconds("keep_s", keep_s, least=LEAST_KEEP_S, most=MOST_KEEP_S)
    if holder:
        check_label("holder", holder)
    session = ids.derived_id(_WAITS_ALONE, owner, place) + kept_places.SUFFIX
    return Claim(session, place, holder or ids.random_id(), int(keep_s * 1000))


def leave(store: LimitStore, limit: str, asked: Claim, label: str) -> Answer:
    """Give up a place that waits. Whoever holds its slot keeps the slot."""
    ask: Ask = {
        "session_id": asked.session,
        "request_number": 1,
        "confirmed_grant_number": 0,
        "next_call_id": 1,
        "label": label,
        "seen_at": -1,
        "elapsed_ms": 0,
        "seen_version": 0,
        "answered_request_number": 0,
        "is_sure": 0,
        "terms_version": -1,
        "grant_delay_ms": 0,
        "ended_calls": [],
        "refusals": [],
        "restamp_call_ids": [],
        "runs": [],
        "keep_ms": asked.keep_ms,
        "holder": asked.holder,
        "place_name": asked.place,
    }
    return store.exchange(limit, ask)


def held_elsewhere(limit: str, place: str) -> PlaceHeld:
    return PlaceHeld(
        f"Somebody else holds the slot of place {shown(place)} in limit {limit!r}.",
        remedy="If this is a second delivery of the same work, do nothing: the first one does it.",
    )


class Asking:
    """One ask for a place: the slot that may come of it has a session and a line of its own."""

    def __init__(self, desk: Desk, pump: Pump, slot: Slot, claimed: Claim, leave: Callable[[], object]) -> None:
        self._desk = desk
        self._pump = pump
        self._slot = slot
        self._claim = claimed
        self._leave = leave

    def ask(self) -> Slot | Wait:
        try:
            return self._slot.take()
        except Busy as busy:
            return self._wait(busy)
        except NeverFits:
            self._leave()
            raise

    async def aask(self) -> Slot | Wait:
        import asyncio  # noqa: PLC0415 - whoever awaits has loaded it

        try:
            return await self._slot.atake()
        except Busy as busy:
            return self._wait(busy)
        except NeverFits:
            await asyncio.to_thread(self._leave)
            raise

    def _wait(self, busy: Busy) -> Wait:
        line = self._desk.main
        with line.lock:
            told = line.wait
        return Wait(
            limit=self._desk.limit,
            place=self._claim.place,
            retry_in_s=busy.retry_in_s if told is None else told["ask_again_in_ms"] / 1000,
            position=busy.position,
            eta_s=busy.eta_s,
            blocked_by=busy.blocked_by,
        )
