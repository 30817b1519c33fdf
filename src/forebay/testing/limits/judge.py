"""Judges a limit store by what its processes said and were told: it knows bounds and time, and nothing of records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forebay.model.limit_record import Answer, Ask, DeclaredRun, Era, Grant, Record, Terms
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import Process

NEVER = 1 << 60
_SMALL = 2000
_REST = 100_000
"""After so long a rest and its ramp are over."""


@dataclass(slots=True)
class Call:
    """A call that was granted. It is held until it is given back, or is over because its session has ended.

    One that was `cut` off is held until it is over, whatever its session does.
    """

    sid: str
    at: int
    pages: int
    over_at: int
    held: bool = True
    cut: bool = False


class Judge:
    """`used` is a log of all units: instant, unit, count. `now` is the store's time, as it was told last."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.calls: dict[tuple[str, int], Call] = {}
        self.used: list[tuple[int, str, int]] = []
        self.ends_at: dict[str, int] = {}
        self.waiting: dict[str, int] = {}
        self.paused_until = 0
        self.closed_until = 0
        self.unclear_until = 0
        self.now = 0
        self._steady = clock.steady
        self._slack = 0
        self._behind = 0
        self._eras: list[Era] = []
        self._since: dict[str, int] = {}
        self._rested_at = 0
        self._fresh: list[Call] = []
        self._forgot = False

    # What people do, and what happens to the store.

    def defined(self, record: Record) -> None:
        """A window that is new need not know what was before it."""
        known = {name for era in self._eras if not 0 <= era["ends_at"] <= self.now for name in _names(era)}
        self._eras = record["eras"]
        names = {name for era in self._eras for name in _names(era)}
        self._since = {name: self._since[name] if name in known else record["last_step_at"] for name in names}

    def paused(self, record: Record) -> None:
        self.paused_until = record["paused_until"] or NEVER

    def resumed(self) -> None:
        self.paused_until = 0
        self.closed_until = 0

    def jumped(self, jump: int) -> None:
        """A clock set back by no more than has passed since it was asked loses that time, once."""
        if -jump <= self.clock.steady - self._steady + _SMALL:
            self._slack += max(0, -jump)

    def rolled_back(self, record: Record) -> None:
        """The calls that were lost are over when the store grants again; whoever sees it first says so."""
        self._eras = []
        self.defined(record)
        self._forgot = True
        self.paused_until = (record["paused_until"] or NEVER) if record["paused_until"] >= 0 else 0
        for call in self.calls.values():
            call.held = False
        for sid, seat in record["sessions"].items():
            self.ends_at[sid] = seat["ends_at"]
            self.waiting[sid] = sum(run["caller_count"] for run in seat["runs"])

    def _learns(self) -> None:
        terms = self.terms
        widest = max(_wide(bound["per_ms"], terms) for bound in terms["windows"])
        self.closed_until = self.now + max(
            widest, terms["start_within_ms"] + terms["transit_ms"] + terms["call_timeout_ms"]
        )
        self.unclear_until = self.closed_until + _REST
        self._forgot = False

    # What processes say and hear.

    @property
    def terms(self) -> Terms:
        return next(era["terms"] for era in self._eras if not 0 <= era["ends_at"] <= self.now)

    def told(self, process: Process, grants: Iterable[Grant]) -> None:
        """By an answer, or by what another one's answer left for it."""
        for grant in grants:
            for call_id in range(grant["first_call_id"], grant["first_call_id"] + grant["call_count"]):
                if (process.sid, call_id) not in self.calls:
                    call = Call(process.sid, grant["granted_at"], process.units[grant["run_id"]]["pages"], 0)
                    self.calls[process.sid, call_id] = call
                    self._use(call)
                    self._fresh.append(call)
                    self.waiting[process.sid] = max(0, self.waiting.get(process.sid, 0) - 1)

    def applied(self, process: Process, asked: Ask, answer: Answer) -> None:
        """The store has answered, whether the process hears of it or not."""
        assert answer["status"] == "ok"
        self._tick(answer)
        if self._forgot:
            self._learns()
        self._bury(process.sid, lost=bool(answer["session_lost"]))
        self.ends_at[process.sid] = self.now + self.terms["lease_ms"]
        self._said(process, asked, answer)
        self.told(process, answer["grants"])
        self._check_fresh()

    def _tick(self, answer: Answer) -> None:
        passed, real = answer["now"] - self.now, self.clock.steady - self._steady
        if self._forgot:
            # With the record it has lost how far its clock was off.
            self._slack += abs(real - passed)
            self._behind = max(0, self._behind + real - passed)
        elif self.now:
            self._behind += real - passed
            assert passed >= 0, f"time went back by {-passed} ms"
            # One who remembers more than the last one catches up.
            assert self._behind >= 0, f"{passed} ms passed in {real} ms"
            assert self._behind <= self._slack, f"time stood still: {passed} ms passed in {real} ms"
        self.now, self._steady = answer["now"], self.clock.steady

    def _bury(self, sid: str, *, lost: bool) -> None:
        """The calls of those that have ended, as soon as they are over; who asks has not ended."""
        for call in self.calls.values():
            if call.cut:
                call.held = call.held and not self.terms["stops_on_disconnect"] and call.over_at > self.now
            elif call.sid == sid:
                call.held = call.held and not lost
            elif self.ends_at[call.sid] <= self.now:
                call.held = call.held and not self.terms["stops_on_disconnect"] and call.over_at > self.now
        for each, ends_at in self.ends_at.items():
            if (ends_at <= self.now and each != sid) or (each == sid and lost):
                self.waiting[each] = 0

    def _said(self, process: Process, asked: Ask, answer: Answer) -> None:
        terms = self.terms
        for hint in asked["refusals"]:
            wait = hint["wait_ms"] if hint["kind"] == "quota" else min(hint["wait_ms"], terms["max_cooldown_ms"])
            if wait < 0 and hint["kind"] == "quota":
                wait = terms["max_cooldown_ms"]
            elif wait < 0 and hint["granted_at"] > self._rested_at:
                wait = terms["cooldown_steps_ms"][0]
            self.closed_until = max(self.closed_until, self.now + wait)
            self._may_rest()
        for done in asked["ended_calls"]:
            call = self.calls.get((process.sid, done["call_id"]))
            if call is not None and call.held and not call.cut:
                self._ended(call, done["outcome"], done["units"].get("pages", call.pages))
        for stamp in answer["restamps"]:
            assert self.now >= max(self.closed_until, self.paused_until), "a call started late in a rest"
            call = self.calls[process.sid, stamp["call_id"]]
            self._unuse(call)
            call.at = stamp["granted_at"]
            self._use(call)
        if asked["request_number"]:
            self.waiting[process.sid] = sum(wish["caller_count"] for wish in asked["runs"])

    def _may_rest(self) -> None:
        self._rested_at = self.now
        self.unclear_until = max(self.unclear_until, self.closed_until + _REST, self.now + _REST)

    def _use(self, call: Call) -> None:
        terms = self.terms
        call.over_at = call.at + terms["start_within_ms"] + terms["transit_ms"] + terms["call_timeout_ms"]
        self.used += [(call.at, "calls", 1), (call.at, "pages", call.pages)]

    def _unuse(self, call: Call) -> None:
        self.used.remove((call.at, "calls", 1))
        self.used.remove((call.at, "pages", call.pages))

    def _ended(self, call: Call, outcome: str, pages: int) -> None:
        call.cut = outcome in {"cut_off", "timed_out"}
        call.held = call.cut and not self.terms["stops_on_disconnect"] and call.over_at > self.now
        if outcome in {"failed", "unreached", "timed_out"}:
            self._may_rest()
        if outcome in {"unsent", "unreached"}:
            self._unuse(call)
            return
        if pages > call.pages:
            self.used.append((self.now, "pages", pages - call.pages))
        elif pages < call.pages:
            self.used.remove((call.at, "pages", call.pages))
            self.used.append((call.at, "pages", pages))

    # What must be true.

    def _held(self) -> int:
        return sum(call.held for call in self.calls.values())

    def _held_pages(self) -> int:
        return sum(call.pages for call in self.calls.values() if call.held)

    def _used(self, per: int, unit: str, since: int = 0) -> int:
        first = max(self.now - _wide(per, self.terms) + 1, since)
        return sum(count for at, each, count in self.used if each == unit and at >= first)

    def _check_fresh(self) -> None:
        """Of what was granted just now."""
        fresh, self._fresh = self._fresh, []
        if not fresh:
            return
        terms = self.terms
        assert self.now >= self.closed_until, "granted in a rest, or while the store was learning"
        assert self.now >= self.paused_until, "granted in a pause"
        assert terms["in_flight"] < 0 or self._held() <= terms["in_flight"], f"{self._held()} calls at once"
        for unit_bound in terms["in_flight_units"]:
            if any(call.pages > 0 for call in fresh):
                held = self._held_pages()
                assert held <= unit_bound["n"], f"{held} {unit_bound['unit']} at once, of {unit_bound['n']}"
        for bound in terms["windows"]:
            if any((1 if bound["unit"] == "calls" else call.pages) > 0 for call in fresh):
                used = self._used(bound["per_ms"], bound["unit"], self._since[f"{bound['unit']}/{bound['per_ms']}"])
                assert used <= bound["n"], f"{used} of {bound}"

    def late(self, before: Record, after: Record, answer: Answer) -> None:
        """A request that was overtaken."""
        assert (answer["status"], answer["grants"]) == ("late", [])
        assert before["sessions"] == after["sessions"]
        self._tick(answer)

    def heard(self, process: Process, record: Record, *, exchanged: bool) -> None:
        """It knows of all calls that the store holds for it, and the store of all that it holds.

        A heartbeat lets nobody in: whoever waits is told when to ask.
        """
        held = {call["id"] for call in record["sessions"][process.sid]["calls"]}
        assert held <= {*process.calls}, f"{process.sid} has never heard of {held - {*process.calls}}"
        lost = {call_id for call_id in process.calls if self.calls[process.sid, call_id].held} - held
        assert not lost, f"the store has lost {lost} of {process.sid}"
        if exchanged:
            self._check_head(process)

    def _check_head(self, process: Process) -> None:
        """One who waits alone is let in as soon as there is room."""
        if self.now < max(self.closed_until, self.paused_until, self.unclear_until):
            return
        if any(count for sid, count in self.waiting.items() if sid != process.sid) or not self.waiting.get(process.sid):
            return
        wishes = [wish for wish in process.line.values() if not self._too_large(wish)]
        first: dict[str, DeclaredRun] = {}
        for wish in [wish for wish in wishes if wish["front"]][:1] or wishes:
            first.setdefault(wish["key"], wish)
        assert not first or not all(self._fits(wish) for wish in first.values()), f"{process.sid} waits for nothing"

    def _too_large(self, wish: DeclaredRun) -> bool:
        bounds = (*self.terms["windows"], *self.terms["in_flight_units"])
        return any(0 < bound["n"] < wish["units"][bound["unit"]] for bound in bounds)

    def _fits(self, wish: DeclaredRun) -> bool:
        terms = self.terms
        if 0 <= terms["in_flight"] <= self._held():
            return False
        for unit_bound in terms["in_flight_units"]:
            need = wish["units"][unit_bound["unit"]]
            if unit_bound["n"] == 0 or (need and self._held_pages() + need > unit_bound["n"]):
                return False
        return all(
            self._used(bound["per_ms"], bound["unit"]) + wish["units"][bound["unit"]] <= bound["n"] and bound["n"] > 0
            for bound in terms["windows"]
        )


def _names(era: Era) -> list[str]:
    return [f"{bound['unit']}/{bound['per_ms']}" for bound in era["terms"]["windows"]]


def _wide(per: int, terms: Terms) -> int:
    """Calls may arrive so much later than they were granted."""
    return per + terms["start_within_ms"] + terms["transit_ms"] + 1
