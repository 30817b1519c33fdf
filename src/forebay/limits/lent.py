"""Slots for callers who have no limiter of their own: a session for each, which any process may renew or end."""

from __future__ import annotations

import random
from typing import NamedTuple

from forebay import ids
from forebay.errors import BadInput, Conflict, NotFound
from forebay.ids import shown
from forebay.limits import asking
from forebay.limits.asking import Claim
from forebay.limits.fitting import misfit
from forebay.model.limit import check_units
from forebay.model.limit_record import (
    Answer,
    Ask,
    DeclaredRun,
    EndedCall,
    GrantedCall,
    LimitSession,
    ProviderRefusal,
    Record,
    Terms,
)
from forebay.rules import forecast, limit_state, reports
from forebay.rules.cooldown import COOLDOWN
from forebay.rules.kept_places import SUFFIX
from forebay.stores.limit_base import LimitStore

_JITTER = 200  # of a thousand, upward only
_RUN = 1
_BEYOND = 2
"""How many times what it reserved a tenant's call may have taken in the end."""
_ASKED_MOST_S = 30.0
_ASKED_MORE_S = 2.0
_LENT = "http:"


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
    eta_s: float | None = None
    blocked_by: tuple[str, ...] = ()


class SlotLost(NotFound):
    """It was given back, or not renewed in time; the limit is there."""


class Owner(NamedTuple):
    """Who takes a slot: a key, and its tenant if it has one."""

    key: str
    tenant: str = ""

    @property
    def label(self) -> str:
        return f"{_LENT}{self.tenant}/{self.key}" if self.tenant else f"{_LENT}{self.key}"

    @property
    def flow(self) -> str:
        """Those who share a share, and take turns with others."""
        return f"{_LENT}{self.tenant}/" if self.tenant else self.label

    def has(self, seat: LimitSession) -> bool:
        """Whether the seat is the tenant's, by whichever key."""
        return seat["label"].startswith(self.flow)

    def claim(self, place: str, *, keep_s: float, holder: str) -> Claim:
        """Return the claim of an ask for a place; other owners have places of their own."""
        token = ids.derived_id("holder", self.flow, place, holder) if holder else ""
        return asking.claim(place, keep_s=keep_s, holder=token, owner=self.flow)


def slot_of(claim: Claim) -> str:
    """Return the id of the slot that a claim may be granted: nobody but its holder knows it."""
    return f"{claim.session.removesuffix(SUFFIX)}.{claim.holder}"


class _Key(NamedTuple):
    """What a slot's id names: a session, and the token of its holder where it is that of a kept place."""

    session: str
    holder: str

    @classmethod
    def of(cls, slot_id: str) -> _Key:
        session, _, holder = slot_id.partition(".")
        return cls(session + SUFFIX, holder) if holder else cls(session, "")


class Claims(NamedTuple):
    """Slots that a key holds or waits for; whether one more is beyond its tenant's share; how long that cools down."""

    slots: int
    beyond_share: bool
    cooled_s: float


class Ended(NamedTuple):
    """What giving a slot back did to others: for how long calls wait, and what was taken beyond what was reserved.

    `own_s`: the calls of the tenant that reports, `all_s`: everybody's. `beyond` names units with what they came to.
    """

    own_s: float = 0.0
    all_s: float = 0.0
    beyond: tuple[tuple[str, int], ...] = ()


class _Held(NamedTuple):
    seat: LimitSession
    call: GrantedCall


class Lender:
    """All that is known of a slot is in the limit's store; `owner` is who took it, and nobody else finds it."""

    def __init__(self, store: LimitStore) -> None:
        self._store = store

    def claims(self, limit: str, owner: Owner, share: float, *, place: str = "") -> Claims:
        """What an owner has of a limit already, before asking for one more slot, beside the place with this session."""
        record, raw = self._read(limit)
        now = limit_state.logical(record, raw)
        record["sessions"].pop(place, None)
        seats = record["sessions"].values()
        return Claims(
            slots=sum(1 for seat in seats if _owned(seat, owner) and (seat["calls"] or seat["runs"])),
            beyond_share=_beyond_share(record, owner, share, now),
            cooled_s=reports.left(record, owner.tenant, now) / 1000,
        )

    def ask(
        self,
        limit: str,
        slot_id: str,
        n: int,
        *,
        owner: Owner,
        label: str,
        units: dict[str, int],
        claim: Claim | None = None,
    ) -> Turn:
        """The n-th time that somebody asks for this slot; they keep their place in line between two times.

        With a claim it is the slot of a kept place, and how often it was asked for means nothing.
        """
        checked = check_units(units)
        key = owner.flow if owner.tenant else ""
        wish: DeclaredRun = {"id": _RUN, "key": key, "caller_count": 1, "units": checked, "label": label, "front": 0}
        asked = _said(slot_id, n, owner)
        asked["runs"] = [wish]
        if claim is not None:
            asked["request_number"] = _RUN
            claim.mark(asked)
        answer = self._exchange(limit, asked)
        if claim is not None and answer["status"] == "held":
            raise asking.held_elsewhere(limit, claim.place)
        terms = answer["terms"][0]
        if (never := misfit(limit, terms, checked)) is not None:
            if claim is not None:
                asking.leave(self._store, limit, claim, owner.label)
            else:
                self.leave(limit, slot_id, n + 1, owner=owner)
            raise never
        if answer["grants"]:
            heard = _said(slot_id, 0, owner)
            heard["confirmed_grant_number"] = answer["grants"][-1]["number"]
            self._store.renew(limit, heard)
            return _granted(terms, answer["now"] - answer["grants"][-1]["granted_at"])
        turn = _granted(terms)._replace(granted=False, again_s=1.0, retry_in_s=1.0)
        for first in answer["waits"]:
            wait = forecast.wait_behind(first, answer, terms, 0)
            turn = turn._replace(
                again_s=first["ask_again_in_ms"] / 1000,
                retry_in_s=forecast.retry_in_s(wait, forecast.eta_s(wait))
                if claim is None
                else first["ask_again_in_ms"] / 1000,
                ahead=wait["ahead_count"],
                eta_s=forecast.eta_s(wait),
                blocked_by=tuple(wait["blocked_by"]),
            )
        return turn

    def refused(self, limit: str, owner: Owner, retry_in_s: float) -> None:
        """Count somebody who got no slot as one who waits, until it should have asked again.

        Only where a tenant holds slots: its share is what it may keep while others wait.
        """
        record, raw = self._read(limit)
        counts = int((min(retry_in_s, _ASKED_MOST_S) + _ASKED_MORE_S) * 1000)
        others = any(_is_tenants(seat["label"]) and not owner.has(seat) for seat in record["sessions"].values())
        known_until = record.get("refused_callers", {}).get(owner.flow, 0)
        if not others or known_until >= limit_state.logical(record, raw) + counts // 2:
            return

        def step(record: Record | None, raw: int) -> Record | None:
            if record is None:
                return None
            now = limit_state.logical(record, raw)
            known = {flow: until for flow, until in record.get("refused_callers", {}).items() if until > now}
            record["refused_callers"] = known | {owner.flow: now + counts}
            record["version"] += 1
            return record

        self._store.change(limit, step)

    def has_share(self, limit: str, owner: Owner, share: float) -> bool:
        """Whether a tenant holds its share while somebody else was refused, who stands in no line to take turns in."""
        if not owner.tenant:
            return False
        record, raw = self._read(limit)
        now = limit_state.logical(record, raw)
        held = sum(owner.has(seat) and bool(seat["calls"]) for seat in record["sessions"].values())
        most = _most(record, owner, share, now)
        return most is not None and held >= most and _was_refused(record, owner, now)

    def leave_place(self, limit: str, owner: Owner, place: str) -> None:
        """Give up a kept place; whoever holds its slot keeps the slot."""
        claim = owner.claim(place, keep_s=asking.KEEP_S, holder="")
        answer = asking.leave(self._store, limit, claim, owner.label)
        if answer["status"] == "unknown":
            raise _no_limit(limit)
        if answer["status"] == "held":
            raise asking.held_elsewhere(limit, place)

    def leave(self, limit: str, slot_id: str, n: int, *, owner: Owner) -> None:
        """Wait no longer; what was granted just then is given back unused."""
        self._exchange(limit, _said(slot_id, n, owner))
        held = self._find(limit, slot_id, owner)
        if held is not None:
            self._end(limit, slot_id, owner, held, {"call_id": held.call["id"], "outcome": "unsent", "units": {}}, [])

    def renew(self, limit: str, slot_id: str, *, owner: Owner, start: bool = False, share: float | None = None) -> Turn:
        """Keep a slot; `start` makes its call count from now on, where it starts later than it was granted.

        A tenant with a `share` gets no later start for what it holds beyond that, and keeps no slot for longer than a
        call may take: others wait.
        """
        held = self._held(limit, slot_id, owner)
        if share is not None and owner.tenant:
            self._check_share(limit, slot_id, owner, held, share=share, start=start)
        asked = _of(held.seat, slot_id, owner, 0 if not start else held.seat["request_number"] + 1)
        if not start:
            kept = self._store.renew(limit, asked)
            return _granted(kept["terms"][0], kept["now"] - held.call["granted_at"])
        asked["restamp_call_ids"] = [held.call["id"]]
        answer = self._exchange(limit, asked)
        if not answer["restamps"]:
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
    ) -> Ended:
        """Give it back, with what became of the call.

        One that was throttled cools the limit down for everybody, and failures in a row open its breaker. What a tenant
        says cools down that tenant, and everybody once another one says the same. A tenant's call takes at most twice
        what it reserved.
        """
        took = self._checked(limit, units or {})
        held = self._held(limit, slot_id, owner)
        ended = Ended()
        if owner.tenant and took:
            ended = ended._replace(beyond=self._check_taken(limit, held, took))
        hints: list[ProviderRefusal] = []
        # "Not at all" is not advice after a refusal.
        wait = int(retry_after_s * 1000) if retry_after_s else -1
        if throttled and not owner.tenant:
            jitter = random.randrange(_JITTER + 1)  # noqa: S311 - spreads workers
            hints = [
                {"kind": COOLDOWN, "granted_at": held.call["granted_at"], "wait_ms": wait, "jitter_permille": jitter}
            ]
        elif owner.tenant:
            own, everybody = self._report(limit, owner.tenant, "throttled" if throttled else outcome, wait)
            ended = ended._replace(own_s=own / 1000, all_s=(everybody or 0) / 1000)
            if everybody is not None:
                hints = [
                    {
                        "kind": COOLDOWN,
                        "granted_at": held.call["granted_at"],
                        "wait_ms": everybody,
                        "jitter_permille": 0,
                    }
                ]
        judged = throttled or (owner.tenant and outcome == "failed")
        done: EndedCall = {"call_id": held.call["id"], "outcome": "" if judged else outcome, "units": took}
        self._end(limit, slot_id, owner, held, done, hints)
        return ended

    def _report(self, limit: str, tenant: str, outcome: str, wait: int) -> tuple[int, int | None]:
        """Note what became of a tenant's call; how long the tenant waits, and how long everybody does, if at all."""
        own, everybody = 0, None
        if outcome == "unsent" or (outcome == "ok" and not reports.in_a_row(self._known(limit)[0], tenant)):
            return own, everybody

        def step(record: Record | None, raw: int) -> Record | None:
            nonlocal own, everybody
            if record is None:
                return None
            now = limit_state.logical(record, raw)
            terms = limit_state.terms_at(record, now)
            everybody = None
            if outcome == "throttled":
                everybody = reports.report(record, terms, tenant, wait, now)
            elif outcome == "failed":
                everybody = reports.failed(record, terms, tenant, now)
            elif reports.in_a_row(record, tenant):
                reports.worked(record, tenant)
            own = reports.left(record, tenant, now)
            return record

        self._store.change(limit, step)
        return own, everybody

    def _check_taken(self, limit: str, held: _Held, took: dict[str, int]) -> tuple[tuple[str, int], ...]:
        """Refuse what a tenant's call cannot have taken; return what goes beyond what it reserved."""
        record, raw = self._known(limit)
        terms = limit_state.terms_at(record, limit_state.logical(record, raw))
        beyond = []
        for unit, count in sorted(took.items()):
            reserved = held.call["units"].get(unit, 0)
            bounds = [bound["n"] for bound in (*terms["windows"], *terms["in_flight_units"]) if bound["unit"] == unit]
            most = max(reserved, min([reserved * _BEYOND, *bounds]))
            if count > most:
                raise BadInput(
                    f"A call of limit {limit!r} that reserved {reserved} {unit} takes {most} at most, not {count}.",
                    remedy="Give the slot back with less, and reserve what a call may take when you take a slot.",
                )
            if count > reserved:
                beyond.append((unit, count))
        return tuple(beyond)

    def _check_share(self, limit: str, slot_id: str, owner: Owner, held: _Held, *, share: float, start: bool) -> None:
        record, raw = self._read(limit)
        now = limit_state.logical(record, raw)
        if not _beyond_share(record, owner, share, now, more=0):
            return
        if start:
            raise Conflict(
                f"This tenant holds more of limit {limit!r} than its share, and others wait.",
                remedy="Give it back as unsent and take another.",
            )
        if now > held.call["call_until"]:
            self._end(limit, slot_id, owner, held, {"call_id": held.call["id"], "outcome": "", "units": {}}, [])
            raise SlotLost(
                f"The slot of limit {limit!r} was held for longer than a call may take, and others wait.",
                remedy="Give slots back when their call has ended; raise call_timeout_s if calls take longer.",
            )

    def _end(  # noqa: PLR0917 - of this class only
        self, limit: str, slot_id: str, owner: Owner, held: _Held, done: EndedCall, hints: list[ProviderRefusal]
    ) -> None:
        asked = _of(held.seat, slot_id, owner, held.seat["request_number"] + 1)
        asked["ended_calls"] = [done]
        asked["refusals"] = hints
        self._exchange(limit, asked)

    def _exchange(self, limit: str, asked: Ask) -> Answer:
        answer = self._store.exchange(limit, asked)
        if answer["status"] == "unknown":
            raise _no_limit(limit)
        return answer

    def _known(self, limit: str, session: str = "") -> tuple[Record, int]:
        """Return what is known of a limit, with no session but this one."""
        record, raw = self._store.find(limit, session)
        if record is None or not record["eras"]:
            raise _no_limit(limit)
        return record, raw

    def _read(self, limit: str) -> tuple[Record, int]:
        record, raw = self._store.read(limit)
        if record is None or not record["eras"]:
            raise _no_limit(limit)
        return record, raw

    def _checked(self, limit: str, units: dict[str, int]) -> dict[str, int]:
        """What a call took, in units that the limit counts."""
        checked = check_units(units)
        record, raw = self._known(limit)
        terms = limit_state.terms_at(record, limit_state.logical(record, raw))
        if (unknown := misfit(limit, terms, dict.fromkeys(checked, 0), partial=True)) is not None:
            raise unknown
        return {unit: count for unit, count in checked.items() if unit in units}

    def _held(self, limit: str, slot_id: str, owner: Owner) -> _Held:
        held = self._find(limit, slot_id, owner)
        if held is None:
            raise SlotLost(
                f"There is no slot {shown(slot_id)} of limit {limit!r}: it was given back, or not renewed in time.",
                remedy="Take another one, and renew it before its lease is over.",
            )
        return held

    def _find(self, limit: str, slot_id: str, owner: Owner) -> _Held | None:
        key = _Key.of(slot_id)
        record, _ = self._known(limit, key.session)
        seat = record["sessions"].get(key.session)
        if seat is None or not seat["calls"] or not _owned(seat, owner):
            return None
        if "place" in seat and (not key.holder or seat["place"]["holder"] != key.holder):
            return None
        return _Held(seat, seat["calls"][0])


def _beyond_share(record: Record, owner: Owner, share: float, now: int, *, more: int = 1) -> bool:
    """Whether `more` slots would be beyond the share of a tenant; without others, a tenant may have all."""
    most = _most(record, owner, share, now)
    if most is None:
        return False
    live = [seat for seat in record["sessions"].values() if seat["ends_at"] > now and (seat["calls"] or seat["runs"])]
    own = sum(map(owner.has, live))
    return own + more > most and (own < len(live) or _was_refused(record, owner, now))


def _most(record: Record, owner: Owner, share: float, now: int) -> int | None:
    """How many slots are a tenant's share; None where it has none."""
    bound = limit_state.terms_at(record, now)["in_flight"]
    return max(1, int(bound * share)) if owner.tenant and bound >= 0 else None


def _was_refused(record: Record, owner: Owner, now: int) -> bool:
    """Whether somebody else got no slot of late."""
    return any(flow != owner.flow and until > now for flow, until in record.get("refused_callers", {}).items())


def _is_tenants(label: str) -> bool:
    return label.startswith(_LENT) and "/" in label


def _owned(seat: LimitSession, owner: Owner) -> bool:
    return seat["label"] == owner.label


def _granted(terms: Terms, age: int = 0) -> Turn:
    return Turn(
        granted=True,
        lease_s=terms["lease_ms"] / 1000,
        call_timeout_s=terms["call_timeout_ms"] / 1000,
        start_within_s=terms["start_within_ms"] / 1000,
        age_s=max(0, age) / 1000,
    )


def _of(seat: LimitSession, slot_id: str, owner: Owner, n: int) -> Ask:
    asked = _said(slot_id, n, owner)
    asked["confirmed_grant_number"], asked["next_call_id"], asked["answered_request_number"] = (
        seat["grant_number"],
        seat["next_call_id"],
        seat["request_number"],
    )
    return asked


def _said(slot_id: str, n: int, owner: Owner) -> Ask:
    key = _Key.of(slot_id)
    said: Ask = {
        "session_id": key.session,
        "request_number": n,
        "confirmed_grant_number": 0,
        "next_call_id": 1,
        "label": owner.label,
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
    }
    if key.holder:
        said["holder"] = key.holder
    return said


def _no_limit(limit: str) -> NotFound:
    return NotFound(f"There is no limit {shown(limit)}.", remedy="Define it: `forebay limits set`.")
