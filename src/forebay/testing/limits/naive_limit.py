"""A limit in lists that are counted through at every step: what a store with sums and orders must come to as well.

It shares nothing with the rules, and leaves out what they have beyond counting: cool-downs, changes, losses, jumps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from forebay.model.limit_record import Ask, EndedCall


class Window(NamedTuple):
    n: int
    wide_ms: int
    unit: str


NEVER = 1 << 60


@dataclass(slots=True)
class Call:
    sid: str
    number: int
    at: int
    over_at: int
    units: dict[str, int]
    counted_at: int
    is_cut_off: bool = False


@dataclass(slots=True)
class Use:
    """Units that count from an instant on; `call` is nothing where they were not known before."""

    at: int
    unit: str
    amount: int
    call: Call | None


@dataclass(slots=True)
class Run:
    sid: str
    number: int
    key: str
    count: int
    units: dict[str, int]
    tag: int
    order: int


@dataclass(slots=True)
class Session:
    """`given`: number, run, and count of grants that it has not confirmed."""

    ends_at: int = 0
    is_over: bool = False
    last_grant: int = 0
    next_call: int = 1
    given: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class Place:
    """A kept place: `session` ends when nobody has asked for it, `run` stands in line, `kept` is a slot kept for it."""

    run: Run
    asked_until: int
    told_at: int
    kept: Call | None = None
    is_due: bool = False
    was_seen: bool = False
    missed: int = 0
    holder: str = ""


class NaiveLimit:
    """All times are milliseconds. `step` is an exchange or a heartbeat that its limit's store has answered."""

    def __init__(
        self,
        in_flight: int,
        windows: list[Window],
        *,
        held_ms: int,
        lease_ms: int,
        units: dict[str, int] | None = None,
        start_ms: int = 0,
        most_fresh_ms: int = 0,
    ) -> None:
        self.in_flight = in_flight
        self.units = units or {}
        self.windows = windows
        self._held_ms = held_ms
        self._lease_ms = lease_ms
        self.calls: list[Call] = []
        self.uses: list[Use] = []
        self.runs: list[Run] = []
        self.sessions: dict[str, Session] = {}
        self.places: dict[str, Place] = {}
        self._tails: dict[str, int] = {}
        self._served_tag = 0
        self._order = 0
        self._start_ms = start_ms
        self._most_fresh_ms = most_fresh_ms
        self.late_ms = start_ms
        self._late_until = 0
        self._counted_at = 0

    def used(self) -> int:
        return len(self.calls)

    def units_used(self) -> list[int]:
        return [sum(call.units.get(unit, 0) for call in self.calls) for unit in self.units]

    def sums(self, now: int) -> list[int]:
        return [self._sum(window, now) for window in self.windows]

    def _sum(self, window: Window, instant: int) -> int:
        return sum(use.amount for use in self.uses if use.unit == window.unit and use.at + window.wide_ms > instant)

    def line(self) -> list[tuple[str, int, int]]:
        """Return who waits, in order: the session, the run, and how many callers."""
        return [(run.sid, run.number, run.count) for run in self._in_order()]

    def _in_order(self) -> list[Run]:
        return sorted(self.runs, key=lambda run: (run.tag, run.order))

    def step(self, ask: Ask, now: int) -> list[str]:
        """Return the other sessions that were given something."""
        session = self.sessions.setdefault(ask["session_id"], Session(is_over=True))
        if ask.get("keep_ms"):
            return self._ask_for_place(ask, session, now)
        if ask["session_id"] in self.places and self.places[ask["session_id"]].holder != ask.get("holder", ""):
            return []
        confirms = any(number <= ask["confirmed_grant_number"] for number, _, _ in session.given)
        only_beats = ask["request_number"] == 0 and not ask["ended_calls"] and not confirms and not session.is_over
        session.ends_at, session.is_over = now + self._lease_ms, False
        session.next_call = max(session.next_call, ask["next_call_id"])
        session.last_grant = max(session.last_grant, ask["confirmed_grant_number"])
        session.given = [each for each in session.given if each[0] > ask["confirmed_grant_number"]]
        if only_beats:
            return []
        self._adapt(ask["grant_delay_ms"], now)
        for done in ask["ended_calls"]:
            self._end(ask["session_id"], done, now)
        if ask["request_number"]:
            for number in ask["restamp_call_ids"]:
                self._start_again(ask["session_id"], number, now)
            self._line_up(ask, session)
        return self._go_on(ask, now)

    def _go_on(self, ask: Ask, now: int) -> list[str]:
        sid = ask["session_id"]
        self._clear(now)
        for each in [*self.places]:
            if each != sid:
                self._look_at_place(each, now)
        woken = self._serve(ask, now)
        if not self.runs:
            self._served_tag = 0
        return sorted(woken)

    # Kept places.

    def told(self, sid: str, instant: int) -> None:
        """Note when the owner of a place was told to come back."""
        self.places[sid].told_at = instant
        self.places[sid].is_due = self.places[sid].was_seen = False

    def _ask_for_place(self, ask: Ask, session: Session, now: int) -> list[str]:
        sid, holder = ask["session_id"], ask.get("holder", "")
        place = self.places.get(sid)
        if place is not None and place.holder:
            held = [call for call in self.calls if call.sid == sid and not call.is_cut_off]
            if held and session.ends_at > now:
                return self._hold_on(ask, session, now) if place.holder == holder else []
            for call in held:
                call.is_cut_off = True
            self._forget_place(sid)
            place = None
        if place is None:
            session.next_call = max(session.next_call, ask["next_call_id"], now)
            session.given = []
        elif place.kept is not None:
            if _is_same(ask, place.run) and self._start_again(sid, place.kept.number, now):
                place.kept, place.holder = None, holder
                return self._hold_on(ask, session, now)
            self._take_back(place, session, to_the_end=False)
        place = self._stand(ask, session, now)
        woken = self._go_on(ask, now)
        if session.given:
            place.kept, place.holder = None, holder
            session.ends_at = now + self._lease_ms
        return woken

    def _hold_on(self, ask: Ask, session: Session, now: int) -> list[str]:
        session.ends_at = now + self._lease_ms
        session.given = [[session.last_grant, 1, 1]]
        return self._go_on(ask, now)

    def _stand(self, ask: Ask, session: Session, now: int) -> Place:
        """Return the place that is asked for: at the end of the line, if it was not there for the same."""
        sid, wish = ask["session_id"], ask["runs"][0]
        place = self.places.get(sid)
        if place is not None and not _is_same(ask, place.run):
            self._forget_place(sid)
            place = None
        if place is None:
            place = self.places[sid] = Place(self._newcomer(sid, 1, wish["key"], wish["units"]), 0, 0)
        place.asked_until = session.ends_at = now + ask.get("keep_ms", 0)
        place.is_due = place.was_seen = session.is_over = False
        place.told_at = NEVER
        return place

    def _forget_place(self, sid: str) -> None:
        place = self.places.pop(sid)
        self.runs = [run for run in self.runs if run is not place.run]
        self._forget_tails()

    def _look_at_place(self, sid: str, now: int) -> None:
        """From half a second before its owner was told to one and a half after it, what becomes free is kept for it."""
        place, session = self.places[sid], self.sessions[sid]
        if place.holder:
            if session.is_over and not [call for call in self.calls if call.sid == sid and not call.is_cut_off]:
                del self.places[sid]
                session.last_grant = 0  # what comes by this name next is another session
            return
        place.is_due = place.told_at - 500 <= now < place.told_at + 1500
        if now >= place.told_at + 1500 and not place.was_seen:
            place.was_seen = True
            if place.kept is not None:
                place.missed = (place.missed + 1) % 2
                self._take_back(place, session, to_the_end=place.missed == 0)
        if place.asked_until <= now:
            self._forget_place(sid)
            session.is_over, session.last_grant = True, 0

    def _take_back(self, place: Place, session: Session, *, to_the_end: bool) -> None:
        kept, run = place.kept, place.run
        assert kept is not None
        self.calls.remove(kept)
        self.uses = [use for use in self.uses if use.call is not kept]
        session.given = []
        place.kept = None
        if to_the_end:
            place.run = self._newcomer(run.sid, run.number, run.key, run.units)
            return
        run.count = 1
        run.tag = min(run.tag - self._cost(run.units), self._served_tag)
        self._tails.setdefault(run.key, self._served_tag)
        self._tails[run.key] = max(self._tails[run.key], run.tag + self._cost(run.units))
        self.runs.append(run)

    def _newcomer(self, sid: str, number: int, key: str, units: dict[str, int]) -> Run:
        self._order += 1
        tag = max(self._served_tag, self._tails.get(key, 0))
        run = Run(sid, number, key, 1, units, tag, self._order)
        self._tails[key] = max(self._tails.get(key, 0), tag + self._cost(units))
        self.runs.append(run)
        return run

    def _adapt(self, delay_ms: int, now: int) -> None:
        """Let grants be older when their calls start, where a process heard of some too late."""
        if self._late_until <= now:
            self.late_ms = self._start_ms
        if delay_ms > self._start_ms:
            self.late_ms = max(self.late_ms, min(delay_ms * 3 // 2, self._most_fresh_ms))
            self._late_until = now + max(window.wide_ms for window in self.windows) + self._most_fresh_ms

    def _count_at(self, now: int) -> int:
        """A call that may start later than the terms say counts that much later, and never before an earlier one."""
        self._counted_at = max(self._counted_at, now + self.late_ms - self._start_ms)
        return self._counted_at

    # Sessions.

    def _call(self, sid: str, number: int) -> Call | None:
        held = (call for call in self.calls if (call.sid, call.number) == (sid, number) and not call.is_cut_off)
        return next(held, None)

    def _end(self, sid: str, done: EndedCall, now: int) -> None:
        call = self._call(sid, done["call_id"])
        if call is None:
            return
        if done["outcome"] in {"unsent", "unreached"}:
            self.calls.remove(call)
            self.uses = [use for use in self.uses if use.call is not call]
            return
        if done["outcome"] in {"cut_off", "timed_out"}:
            call.is_cut_off = True
        else:
            self.calls.remove(call)
        for unit, amount in done["units"].items():
            more = amount - call.units.get(unit, 0)
            if more > 0:
                self.uses.append(Use(max(now, self._counted_at), unit, more, None))
            for use in self.uses:
                if more < 0 and use.call is call and use.unit == unit:
                    use.amount += more
        call.units = {**call.units, **done["units"]}

    def _start_again(self, sid: str, number: int, now: int) -> bool:
        call = self._call(sid, number)
        if call is None or any(call.counted_at + window.wide_ms <= now for window in self.windows):
            return False
        call.counted_at = self._count_at(now)
        for use in self.uses:
            if use.call is call:
                use.at = call.counted_at
        call.at, call.over_at = now, now + self._held_ms + self.late_ms - self._start_ms
        return True

    def _line_up(self, ask: Ask, session: Session) -> None:
        mine = {run.number: run for run in self.runs if run.sid == ask["session_id"]}
        self.runs = [run for run in self.runs if run.sid != ask["session_id"]]
        stay: list[Run] = []
        for wish in ask["runs"]:
            count = wish["caller_count"] - sum(given for _, run, given in session.given if run == wish["id"])
            if count <= 0:
                continue
            run = mine.get(wish["id"])
            if run is None:
                self._order += 1
                tag = max(self._served_tag, self._tails.get(wish["key"], 0))
                if wish["front"]:
                    tag = self._served_tag - (1 << 45)
                self._tails.setdefault(wish["key"], self._served_tag)
                run = Run(ask["session_id"], wish["id"], wish["key"], count, wish["units"], tag, self._order)
            run.count = count
            behind = run.tag + count * self._cost(run.units)
            self._tails[run.key] = max(self._tails[run.key], behind)
            stay.append(run)
        self.runs += stay
        self._forget_tails()

    def _forget_tails(self) -> None:
        keys = {run.key for run in self.runs}
        self._tails = {key: tag for key, tag in self._tails.items() if key in keys}

    def _cost(self, units: dict[str, int]) -> int:
        shares = [1000 // self.in_flight, *(1000 * units.get(window.unit, 0) // window.n for window in self.windows)]
        shares += [1000 * units.get(unit, 0) // n for unit, n in self.units.items()]
        return min(1000, max(1, *shares))

    def _clear(self, now: int) -> None:
        for sid, session in self.sessions.items():
            if session.ends_at <= now and not (sid in self.places and not self.places[sid].holder):
                session.is_over = True
                session.given = []
                self.runs = [run for run in self.runs if run.sid != sid]
        over = {sid for sid, session in self.sessions.items() if session.is_over}
        self.calls = [
            call for call in self.calls if not ((call.is_cut_off or call.sid in over) and call.over_at <= now)
        ]
        self._forget_sessions()
        self._forget_tails()

    def _forget_sessions(self) -> None:
        """Who has ended and holds nothing is not known any more: numbers that it has not heard of are given again."""
        holders = {call.sid for call in self.calls if not call.is_cut_off}
        for sid, session in self.sessions.items():
            if session.is_over and sid not in holders and sid not in self.places:
                session.last_grant, session.next_call = 0, 1

    def _serve(self, ask: Ask, now: int) -> set[str]:
        asking = ask["session_id"]
        away = {sid for sid, place in self.places.items() if not place.holder and not place.is_due}
        may_have = {
            sid for sid, session in self.sessions.items() if sid == asking or not (session.given or sid in away)
        }
        given: set[str] = set()
        while (run := self._next(may_have, now)) is not None:
            self._grant(run, now, again=run.sid in given)
            given.add(run.sid)
        if asking in given:
            self._serve_in_hand(ask, now)
        return given - {asking}

    def _serve_in_hand(self, ask: Ask, now: int) -> None:
        """As long as nobody waits, and each bound stays half empty."""
        served = self.sessions[ask["session_id"]].given[-1][1]
        for wish in ask["runs"]:
            for _ in range(wish.get("in_hand_count", 0) if wish["id"] == served else 0):
                if not self.runs and self._is_half_empty(wish["units"], now):
                    self._open_call(ask["session_id"], served, wish["units"], now, again=True)

    def _is_half_empty(self, units: dict[str, int], now: int) -> bool:
        for (unit, n), used in zip(self.units.items(), self.units_used(), strict=True):
            if units.get(unit, 0) and 2 * (used + units[unit]) > n:
                return False
        return 2 * (len(self.calls) + 1) <= self.in_flight and all(
            2 * (self._sum(window, now) + units.get(window.unit, 0)) <= window.n
            for window in self.windows
            if units.get(window.unit, 0)
        )

    def _next(self, may_have: set[str], now: int) -> Run | None:
        """Return the first that may start, or the first behind it that does not make it wait longer."""
        if len(self.calls) >= self.in_flight:
            return None
        head: Run | None = None
        for run in self._in_order():
            fits_ever = all(run.units.get(window.unit, 0) <= window.n for window in self.windows)
            fits_ever = fits_ever and all(run.units.get(unit, 0) <= n for unit, n in self.units.items())
            if run.sid not in may_have or not fits_ever:
                continue
            if (
                self._fit_at(now, [run])
                and self._fit_in_flight(run)
                and (head is None or self._is_spare(run, head, now))
            ):
                return run
            head = head or run
        return None

    def _fit_at(self, instant: int, runs: list[Run]) -> bool:
        return all(
            self._sum(window, instant) + sum(run.units.get(window.unit, 0) for run in runs) <= window.n
            for window in self.windows
        )

    def _fit_in_flight(self, run: Run, head: Run | None = None) -> bool:
        """Return whether the run fits beside the calls in flight, and leaves what the head needs of its units."""
        for (unit, n), used in zip(self.units.items(), self.units_used(), strict=True):
            need, reserved = run.units.get(unit, 0), head.units.get(unit, 0) if head else 0
            if need and used + need + reserved > n:
                return False
        return True

    def _is_spare(self, run: Run, head: Run, now: int) -> bool:
        instants = sorted({now, *(use.at + window.wide_ms for use in self.uses for window in self.windows)})
        starts_at = next(instant for instant in instants if instant >= now and self._fit_at(instant, [head]))
        is_room = len(self.calls) + 2 <= self.in_flight and self._fit_in_flight(run, head)
        return is_room and self._fit_at(starts_at, [run, head])

    def _open_call(self, sid: str, run: int, units: dict[str, int], now: int, *, again: bool) -> None:
        session = self.sessions[sid]
        number = session.next_call
        session.next_call += 1
        counted_at = self._count_at(now)
        call = Call(sid, number, now, now + self._held_ms + self.late_ms - self._start_ms, units, counted_at)
        self.calls.append(call)
        if sid in self.places:
            self.places[sid].kept = call
        self.uses += [Use(counted_at, unit, amount, call) for unit, amount in units.items()]
        if again and session.given[-1][1] == run:
            session.given[-1][2] += 1
        else:
            session.last_grant += 1
            session.given.append([session.last_grant, run, 1])

    def _grant(self, run: Run, now: int, *, again: bool) -> None:
        self._open_call(run.sid, run.number, run.units, now, again=again)
        self._served_tag = max(self._served_tag, run.tag)
        run.tag += self._cost(run.units)
        run.count -= 1
        if run.count == 0:
            self.runs.remove(run)
            self._forget_tails()


def _is_same(ask: Ask, run: Run) -> bool:
    wish = ask["runs"][0]
    return (wish["key"], wish["units"]) == (run.key, run.units)
