"""Slots for callers who have no limiter of their own: a session for each, which any process may renew or end."""

from __future__ import annotations

import random
from typing import NamedTuple

from forebay.errors import Conflict, NotFound
from forebay.ids import shown
from forebay.limits.fitting import misfit
from forebay.model.limit import check_units
from forebay.model.limit_record import Answer, Ask, Call, Done, Hint, Record, Seat, Terms, Wish
from forebay.rules import forecast, limit_state, reports
from forebay.rules.cooldown import COOLDOWN
from forebay.stores.limit_base import LimitStore

_JITTER = 200  # of a thousand, upward only
_RUN = 1


class Turn(NamedTuple):
    """What came of asking once: a slot, or why there is none.

    Whoever stays in line asks again in `again_s`; whoever leaves should come back in `retry_in_s`. `age_s` is how
    long ago the slot was granted, or its call was last said to start: it should start within `start_within_s` of that.
    """

    granted: bool
    lease_s: float
    call_timeout_s: float
    start_within_s: float
    age_s: float = 0.0
    again_s: float = 0.0
    retry_in_s: float = 0.0
    ahead: int = 0
    blocked_by: tuple[str, ...] = ()


class SlotLost(NotFound):
    """It was given back, or not renewed in time; the limit is there."""


class Owner(NamedTuple):
    """Who takes a slot: a key, and its tenant if it has one."""

    key: str
    tenant: str = ""

    @property
    def label(self) -> str:
        return f"http:{self.tenant}/{self.key}" if self.tenant else f"http:{self.key}"

    @property
    def flow(self) -> str:
        """Those who share a share, and take turns with others."""
        return f"http:{self.tenant}/" if self.tenant else self.label


class Claims(NamedTuple):
    """Slots that a key holds or waits for; whether one more is beyond its tenant's share; how long that cools down."""

    slots: int
    beyond_share: bool
    cooled_s: float


class _Held(NamedTuple):
    seat: Seat
    call: Call


class Lender:
    """All that is known of a slot is in the limit's store; `owner` is who took it, and nobody else finds it."""

    def __init__(self, store: LimitStore) -> None:
        self._store = store

    def claims(self, limit: str, owner: Owner, share: float) -> Claims:
        """What an owner has of a limit already, before asking for one more slot."""
        record, raw = self._read(limit)
        now = limit_state.logical(record, raw)
        seats = record["seats"].values()
        return Claims(
            slots=sum(1 for seat in seats if _owned(seat, owner) and (seat["calls"] or seat["runs"])),
            beyond_share=_beyond_share(record, owner, share, now),
            cooled_s=reports.left(record, owner.tenant, now) / 1000,
        )

    def ask(self, limit: str, slot_id: str, n: int, *, owner: Owner, label: str, units: dict[str, int]) -> Turn:
        """The n-th time that somebody asks for this slot; they keep their place in line between two times."""
        checked = check_units(units)
        key = owner.flow if owner.tenant else ""
        wish: Wish = {"id": _RUN, "key": key, "count": 1, "units": checked, "label": label, "front": 0}
        asked = _said(slot_id, n, owner)
        asked["runs"] = [wish]
        answer = self._exchange(limit, asked)
        terms = answer["terms"][0]
        if (never := misfit(limit, terms, checked)) is not None:
            self.leave(limit, slot_id, n + 1, owner=owner)
            raise never
        if answer["grants"]:
            heard = _said(slot_id, 0, owner)
            heard["heard"] = answer["grants"][-1]["g"]
            self._store.renew(limit, heard)
            return _granted(terms, answer["now"] - answer["grants"][-1]["at"])
        turn = _granted(terms)._replace(granted=False, again_s=1.0, retry_in_s=1.0)
        for first in answer["waits"]:
            wait = forecast.wait_behind(first, answer, terms, 0)
            turn = turn._replace(
                again_s=first["again"] / 1000,
                retry_in_s=forecast.retry_in_s(wait, forecast.eta_s(wait)),
                ahead=wait["ahead"],
                blocked_by=tuple(wait["by"]),
            )
        return turn

    def leave(self, limit: str, slot_id: str, n: int, *, owner: Owner) -> None:
        """Wait no longer; what was granted just then is given back unused."""
        self._exchange(limit, _said(slot_id, n, owner))
        held = self._found(self._record(limit), slot_id, owner)
        if held is not None:
            self._end(limit, slot_id, owner, held, {"id": held.call["id"], "outcome": "unsent", "units": {}}, [])

    def renew(self, limit: str, slot_id: str, *, owner: Owner, start: bool = False, share: float | None = None) -> Turn:
        """Keep a slot; `start` makes its call count from now on, where it starts later than it was granted.

        A tenant with a `share` gets no later start for what it holds beyond that, and keeps no slot for longer than a
        call may take: others wait.
        """
        held = self._held(limit, slot_id, owner)
        if share is not None:
            self._check_share(limit, owner, held, share, start=start)
        asked = _of(held.seat, slot_id, owner, 0 if not start else held.seat["n"] + 1)
        if not start:
            kept = self._store.renew(limit, asked)
            return _granted(kept["terms"][0], kept["now"] - held.call["at"])
        asked["starts"] = [held.call["id"]]
        answer = self._exchange(limit, asked)
        if not answer["starts"]:
            raise Conflict(
                f"The slot of limit {limit!r} is too old, or the limit is closed for now.",
                remedy="Give it back as unsent and take another.",
            )
        return _granted(answer["terms"][0])

    def end(
        self,
        limit: str,
        slot_id: str,
        *,
        owner: Owner,
        outcome: str = "ok",
        units: dict[str, int] | None = None,
        throttled: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        """Give it back, with what became of the call.

        One that was throttled cools the limit down for everybody; if a tenant says so, for that tenant, and for
        everybody once another tenant says the same.
        """
        took = self._checked(limit, units or {})
        held = self._held(limit, slot_id, owner)
        hints: list[Hint] = []
        wait = -1 if retry_after_s is None else int(retry_after_s * 1000)
        if throttled and not owner.tenant:
            jitter = random.randrange(_JITTER + 1)  # noqa: S311 - spreads workers
            hints = [{"kind": COOLDOWN, "at": held.call["at"], "wait": wait, "jitter": jitter}]
        elif throttled and (pause := self._report(limit, owner.tenant, wait)) is not None:
            hints = [{"kind": COOLDOWN, "at": held.call["at"], "wait": pause, "jitter": 0}]
        done: Done = {"id": held.call["id"], "outcome": "" if throttled else outcome, "units": took}
        self._end(limit, slot_id, owner, held, done, hints)

    def _report(self, limit: str, tenant: str, wait: int) -> int | None:
        pause: int | None = None

        def step(record: Record | None, raw: int) -> Record | None:
            nonlocal pause
            if record is None:
                return None
            now = limit_state.logical(record, raw)
            pause = reports.report(record, limit_state.terms_at(record, now), tenant, wait, now)
            return record

        self._store.change(limit, step)
        return pause

    def _check_share(self, limit: str, owner: Owner, held: _Held, share: float, *, start: bool) -> None:
        record, raw = self._read(limit)
        now = limit_state.logical(record, raw)
        if not _beyond_share(record, owner, share, now, more=0):
            return
        if start:
            raise Conflict(
                f"This tenant holds more of limit {limit!r} than its share, and others wait.",
                remedy="Give it back as unsent and take another.",
            )
        if now > held.call["until"]:
            raise SlotLost(
                f"The slot of limit {limit!r} was held for longer than a call may take, and others wait.",
                remedy="Give slots back when their call has ended; raise call_timeout_s if calls take longer.",
            )

    def _end(self, limit: str, slot_id: str, owner: Owner, held: _Held, done: Done, hints: list[Hint]) -> None:  # noqa: PLR0917 - of this class only
        asked = _of(held.seat, slot_id, owner, held.seat["n"] + 1)
        asked["done"] = [done]
        asked["hints"] = hints
        self._exchange(limit, asked)

    def _exchange(self, limit: str, asked: Ask) -> Answer:
        answer = self._store.exchange(limit, asked)
        if answer["status"] == "unknown":
            raise _no_limit(limit)
        return answer

    def _record(self, limit: str) -> Record:
        return self._read(limit)[0]

    def _read(self, limit: str) -> tuple[Record, int]:
        record, raw = self._store.read(limit)
        if record is None or not record["eras"]:
            raise _no_limit(limit)
        return record, raw

    def _checked(self, limit: str, units: dict[str, int]) -> dict[str, int]:
        """What a call took, in units that the limit counts."""
        checked = check_units(units)
        record, raw = self._read(limit)
        terms = limit_state.terms_at(record, limit_state.logical(record, raw))
        if (unknown := misfit(limit, terms, dict.fromkeys(checked, 0), partial=True)) is not None:
            raise unknown
        return {unit: count for unit, count in checked.items() if unit in units}

    def _held(self, limit: str, slot_id: str, owner: Owner) -> _Held:
        held = self._found(self._record(limit), slot_id, owner)
        if held is None:
            raise SlotLost(
                f"There is no slot {shown(slot_id)} of limit {limit!r}: it was given back, or not renewed in time.",
                remedy="Take another one, and renew it before its lease is over.",
            )
        return held

    @staticmethod
    def _found(record: Record, slot_id: str, owner: Owner) -> _Held | None:
        seat = record["seats"].get(slot_id)
        if seat is None or not seat["calls"] or not _owned(seat, owner):
            return None
        return _Held(seat, seat["calls"][0])


def _beyond_share(record: Record, owner: Owner, share: float, now: int, *, more: int = 1) -> bool:
    """Whether `more` slots would be beyond the share of a tenant; without others, a tenant may have all."""
    bound = limit_state.terms_at(record, now)["in_flight"]
    if not owner.tenant or bound < 0:
        return False
    live = [seat for seat in record["seats"].values() if seat["until"] > now and (seat["calls"] or seat["runs"])]
    own = sum(seat["label"].startswith(owner.flow) for seat in live)
    return own < len(live) and own + more > max(1, int(bound * share))


def _owned(seat: Seat, owner: Owner) -> bool:
    return seat["label"] == owner.label


def _granted(terms: Terms, age: int = 0) -> Turn:
    return Turn(
        granted=True,
        lease_s=terms["lease"] / 1000,
        call_timeout_s=terms["call"] / 1000,
        start_within_s=terms["start"] / 1000,
        age_s=max(0, age) / 1000,
    )


def _of(seat: Seat, slot_id: str, owner: Owner, n: int) -> Ask:
    asked = _said(slot_id, n, owner)
    asked["heard"], asked["next"], asked["acked"] = seat["g"], seat["next"], seat["n"]
    return asked


def _said(slot_id: str, n: int, owner: Owner) -> Ask:
    return {
        "sid": slot_id,
        "n": n,
        "heard": 0,
        "next": 1,
        "label": owner.label,
        "seen": -1,
        "elapsed": 0,
        "version": 0,
        "acked": 0,
        "sure": 0,
        "tv": -1,
        "done": [],
        "hints": [],
        "starts": [],
        "runs": [],
    }


def _no_limit(limit: str) -> NotFound:
    return NotFound(f"There is no limit {shown(limit)}.", remedy="Define it: `forebay limits set`.")
