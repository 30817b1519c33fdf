"""Tells from the record of a limit what keeps the next call out, and when one starts that has others before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.model.limit import CALLS
from forebay.model.limit_record import Record, Terms
from forebay.model.task import WaitReason
from forebay.rules import cooldown, forecast, limit_state
from forebay.rules import window_log as logs
from forebay.rules.forecast import Ahead
from forebay.rules.why import Gate, LimitView, in_brackets

_NOBODY = Ahead(0, {})
_COOLING = {
    cooldown.COOLDOWN: "cools down after a refusal",
    cooldown.BREAKER: "cools down after a row of failures",
    cooldown.QUOTA: "is parked, because its quota is used up",
}


@dataclass(frozen=True, slots=True)
class Outlook:
    """A limit as it was read once, for any number of questions. Workers stand in its line in the name of a kind."""

    name: str
    record: Record
    terms: Terms
    now: int

    @staticmethod
    def of(name: str, record: Record, raw: int) -> Outlook:
        now = limit_state.logical(record, raw)
        terms = limit_state.terms_at(record, now)
        limit_state.tidy(record, terms, now)
        return Outlook(name, record, terms, now)

    def view(
        self, kind: str, *, ahead: int, running: int, at: float, units: Mapping[str, int] | None = None
    ) -> LimitView:
        """For a task of a kind with so many tasks of it before it and so many claimed; `at` is now, by the wall clock.

        Without units, it is taken to be like others of its kind.
        """
        needed = self._usual_units(kind) if units is None else dict(units)
        in_hand = self._in_hand(kind, running)
        before = self._before(kind, ahead + in_hand, needed)
        eta, _ = forecast.foretold(self.record, self.terms, before, needed, self.now, ends=True)
        cool = self.record["cooldown"]
        return LimitView(
            gates=self._gates(needed, at),
            eta_s=None if eta >= limit_state.FOREVER // 2 else eta / 1000,
            cooldown_for_s=max(0, cool["ends_at"] - self.now) / 1000,
            level=cool["level"],
            mean_call_s=self.record["mean_call_ms"] / 1000,
            in_hand_count=in_hand,
            all_in_hand=0 < running <= in_hand,
        )

    def _usual_units(self, kind: str) -> dict[str, int]:
        runs = [place.run["units"] for place in limit_state.line(self.record) if place.run["label"] == kind]
        calls = [call for seat in self.record["sessions"].values() for call in seat["calls"] if call["label"] == kind]
        newest = max(calls, key=lambda call: call["granted_at"], default=None)
        return runs[-1] if runs else newest["units"] if newest else {CALLS: 1}

    def _in_hand(self, kind: str, running: int) -> int:
        """How many tasks of the kind are claimed and stand in line: they come before all that are not."""
        calls = sum(call["label"] == kind for seat in self.record["sessions"].values() for call in seat["calls"])
        wishes = sum(place.run["caller_count"] for place in limit_state.line(self.record) if place.run["label"] == kind)
        return min(wishes, max(0, running - calls))

    def _before(self, kind: str, own: int, units: Mapping[str, int]) -> Ahead:
        """Calls that start before it: those of its kind, which has so many, and of others that stand before them.

        Its kind's places in line are for these same tasks, so they are not counted once more.
        """
        others, needed, left = 0, {unit: own * each for unit, each in units.items()}, own
        for place in limit_state.line(self.record):
            run = place.run
            if run["label"] == kind:
                left -= run["caller_count"]
                if left < 0:
                    break  # one of these places is its own
            elif not limit_state.too_large(self.terms, run["units"]):
                others += run["caller_count"]
                for unit, each in run["units"].items():
                    needed[unit] = needed.get(unit, 0) + each * run["caller_count"]
        return Ahead(own + others, needed)

    def _gates(self, units: dict[str, int], at: float) -> tuple[Gate, ...]:
        """What would keep it out even if nobody were before it."""
        _, by = forecast.foretold(self.record, self.terms, _NOBODY, units, self.now)
        return tuple(self._gate(each, units, at) for each in by)

    def _gate(self, by: str, units: dict[str, int], at: float) -> Gate:
        named = f"limit {self.name!r}"
        if by == limit_state.PAUSED:
            return self._paused(named, at)
        if by in _COOLING:
            until = self._instant(self.record["cooldown"]["ends_at"], at)
            text = f"{named} {_COOLING[by]} (level {self.record['cooldown']['level']})"
            return Gate(reason=WaitReason(by), text=text, until=until, binds=f"{by} of {self.name}")
        if by == limit_state.RELEARNING:
            text = f"{named} holds back, because its store has forgotten what was in use"
            until = self._instant(self.record["held_back_until"], at)
            return Gate(reason=WaitReason.LIMIT, text=text, until=until, binds=by)
        if by == forecast.RAMP:
            until = self._instant(cooldown.next_room_at(self.record, self.now), at)
            text = f"{named} comes back step by step after a cool-down"
            return Gate(reason=WaitReason.LIMIT, text=text, until=until, binds=by)
        if by == forecast.IN_FLIGHT:
            used = f"{limit_state.in_flight(self.record)}/{self.terms['in_flight']}"
            return Gate(reason=WaitReason.LIMIT, text=f"{named} has {used} calls in flight", binds=f"in_flight {used}")
        return self._full_units(by, named, units) or self._full_window(by, named, units, at)

    def _paused(self, named: str, at: float) -> Gate:
        reason, binds = WaitReason.PAUSED, f"pause of {self.name}"
        paused = self.record["paused_until"]
        if paused == 0 or paused > self.now:
            note = self.record["pause_note"]
            text = f"{named} is paused{in_brackets(note)}: `forebay limits resume {self.name}`"
            until = self._instant(paused, at) if paused else None
            by = self.record.get("paused_by", "")
            return Gate(reason=reason, text=text, until=until, binds=binds, paused_by=by, note=note)
        text = f"{named} is paused, because a bound of it is 0: see `forebay limits show {self.name}`"
        return Gate(reason=reason, text=text, binds=binds)

    def _full_units(self, by: str, named: str, units: dict[str, int]) -> Gate | None:
        for bound in self.terms["in_flight_units"]:
            if limit_state.in_flight_name(bound) == by:
                used = f"{limit_state.in_flight_sum(self.record, bound['unit'])}/{bound['n']}"
                text = f"{named} has {used} {bound['unit']} in flight, and the next call takes {units[bound['unit']]}"
                return Gate(reason=WaitReason.LIMIT, text=text, binds=f"{by} {used}")
        return None

    def _full_window(self, by: str, named: str, units: dict[str, int], at: float) -> Gate:
        for bound in self.terms["windows"]:
            if logs.name(bound) == by:
                log, need = limit_state.log_of(self.record, by), units[bound["unit"]]
                free_in = logs.free_in(log, self.now, logs.width(bound, self.terms), bound["n"], need)
                text = f"{named} has used {log['sum']} of {logs.bound_text(bound)}, and the next call takes {need}"
                return Gate(reason=WaitReason.LIMIT, text=text, until=at + free_in / 1000, binds=logs.bound_text(bound))
        taken = ", ".join(f"{count} {unit}" for unit, count in sorted(units.items()))
        return Gate(reason=WaitReason.LIMIT, text=f"{named} never fits a call of {taken}", binds=by)

    def _instant(self, millisecond: int, at: float) -> float:
        return at + (millisecond - self.now) / 1000
