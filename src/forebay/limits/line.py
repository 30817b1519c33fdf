"""What one process holds of one limit and who waits for it there: makes its requests, and shares out the answers."""

from __future__ import annotations

import math
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forebay.clock import steady
from forebay.errors import StoreError
from forebay.limits.call import Call
from forebay.limits.fitting import misfit
from forebay.limits.in_hand import Kind, SlotsInHand
from forebay.limits.returns import is_forked
from forebay.limits.store_clock import StoreClock
from forebay.limits.waiting import Result, Waiter
from forebay.model.limit_record import Answer, Ask, DeclaredRun, EndedCall, Grant, ProviderRefusal, Terms, Wait
from forebay.rules import forecast
from forebay.rules.admission import CUT_OFF, TIMED_OUT, UNSENT
from forebay.rules.limit_state import late_after, most_fresh
from forebay.stores.limit_base import LimitStore

if TYPE_CHECKING:
    from forebay.limits.asking import Claim

LINGER_S = 0.002
_CONFIRM_S = 0.01
_CONFIRM_LATER_S = 0.015
_CONFIRM_RETURN_S = 0.1
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0
_MAX_RUNS = 16


class Turn:
    """Held by whoever asks the store just now; one that is lost on the way keeps nobody from asking."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True)
class Progress:
    """What a session must not forget of a limit as long as its process lives; the line itself may be made again."""

    acked: int = 0
    heard: int = 0
    next: int = 1
    version: int = 0
    terms: Terms | None = None


@dataclass(slots=True, eq=False)
class Party:
    """Waiters that came together and want the same; the store knows them by number and count."""

    id: int
    key: str
    units: dict[str, int]
    label: str
    front: bool
    partial: bool = False
    """Whether more units may turn out to be taken: nobody knows the call yet."""
    waiters: deque[Waiter] = field(default_factory=deque)
    told: bool = False
    seen: int = -1
    """The terms that it was found to fit under."""
    in_hand: int = 0
    """How many slots were asked for beside those for its waiters."""

    def alike(self, other: Party) -> bool:
        mine = (self.key, self.units, self.label, self.front, self.partial)
        return mine == (other.key, other.units, other.label, other.front, other.partial)


class Line:
    """Not safe by itself: hold `lock` for every method. Times are local and steady; instants are the store's."""

    def __init__(
        self,
        limit: str,
        store: LimitStore,
        sid: str,
        label: str,
        poke: Callable[[], None],
        *,
        progress: Progress | None = None,
    ) -> None:
        self._poke = poke
        self.progress = progress or Progress()
        self.claim: Claim | None = None
        """Whose slot is asked for here, where this is the line of a kept place alone."""
        self.limit = limit
        self.store = store
        self.sid = sid
        self.label = label
        # Reentrant, since a signal handler that gives a slot back may interrupt its own thread here.
        self.lock = threading.RLock()
        self._turn: weakref.ref[Turn] | None = None
        self.answer: Answer | None = None
        self.failure: StoreError | None = None
        self.failed_at: float | None = None
        self.sure_until = 0.0
        self._parties: dict[int, Party] = {}
        self._numbers = 0
        self._open: dict[int, weakref.ref[Call]] = {}
        self._in_hand = SlotsInHand()
        # Calls that nobody has any more; filled without the lock, which whoever collects them may hold.
        self._dropped: deque[weakref.ref[Call]] = deque()
        self._restarts: dict[int, Waiter] = {}
        self._done: list[EndedCall] = []
        self._cut_off: dict[int, tuple[float, dict[str, int]]] = {}
        self._returned_at = 0.0
        self._returned = False
        """Whether all of it is on its way already, so that the next request only confirms it."""
        self.used = 0
        """Calls in progress of all processes: by the last answer, with what this process was given and ended since."""
        self.too_slow_s = 0.0
        """How old a grant was at most that came too late for its windows, until that was reported."""
        self._grant_delay_s = 0.0
        """How old a grant was at most when this process heard of it, since its last answered request."""
        self._hints: list[ProviderRefusal] = []
        self._settled: list[Waiter] = []
        self._asked_at = 0.0
        self._changed_at: float | None = None
        self._again_at = 0.0
        self._flush_at = 0.0
        self._confirm_at: float | None = None
        self.retry_at = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._seen = -1
        self._seen_at = 0.0
        self._clock = StoreClock()
        self._generation = -1
        self._shut_at = -1
        """The store's instant at which this process last knew that nobody may call, or learned of a loss."""

    @property
    def terms(self) -> Terms | None:
        return self.progress.terms

    @property
    def busy(self) -> bool:
        """Whether somebody asks the store just now."""
        return self._turn is not None and self._turn() is not None

    def begin(self, turn: Turn) -> None:
        self._turn = weakref.ref(turn)

    def end(self, turn: Turn) -> None:
        if self._turn is not None and self._turn() in {turn, None}:
            self._turn = None

    @property
    def waiting(self) -> int:
        return sum(len(party.waiters) for party in self._parties.values())

    @property
    def crowded(self) -> bool:
        """Whether anybody waits, here or elsewhere, for what is given back."""
        return bool(self._parties) or (self.answer is not None and self.answer["other_caller_count"] > 0)

    @property
    def active(self) -> bool:
        """Whether its session has to be kept alive."""
        return bool(self._open or self._parties or self._done)

    @property
    def unsaid(self) -> bool:
        """Whether the store has not heard all of what it must know before its session ends."""
        return bool(self._done or self._hints)

    @property
    def in_hand_count(self) -> int:
        """How many slots this process has that nobody uses yet."""
        return len(self._in_hand)

    @property
    def is_full(self) -> bool:
        return self.terms is not None and 0 <= self.terms["in_flight"] <= self.used

    @property
    def open_count(self) -> int:
        """Calls that count: those that are held, and those that were cut off and the store does not know of yet."""
        now = steady()
        return len(self._open) + sum(until > now for until, _ in self._cut_off.values())

    def open_units(self, unit: str) -> int:
        """Return how much of a unit these calls take."""
        now = steady()
        calls = [call for each in [*self._open.values()] if (call := each()) is not None]
        held = sum(call.units.get(unit, 0) for call in calls)
        return held + sum(units.get(unit, 0) for until, units in [*self._cut_off.values()] if until > now)

    @property
    def wait(self) -> Wait | None:
        """What the store said last of why the first one waits."""
        return self.answer["waits"][0] if self.answer and self.answer["waits"] else None

    def wait_of(self, waiter: Waiter) -> Wait | None:
        """Why this one waits, as far as the store has said; None if it has not."""
        if waiter.done:
            return waiter.wait_seen
        before: Counter[str] = Counter()
        for party in self._parties.values():
            for each in party.waiters:
                if each is waiter:
                    return self._wait_behind(before, party.key)
                before[party.key] += 1
        return self._wait_behind(before, "")

    def _wait_behind(self, before: Counter[str], key: str) -> Wait | None:
        """With these before it in this process, by key; keys take turns, so of another one only as many go first."""
        if self.answer is None or self.wait is None or self.terms is None:
            return None
        turns = before[key] + 1
        count = before[key] + sum(min(others, turns) for each, others in before.items() if each != key)
        return forecast.wait_behind(self.wait, self.answer, self.terms, count)

    def join(
        self,
        waiter: Waiter,
        units: dict[str, int],
        *,
        key: str = "",
        label: str = "",
        front: bool = False,
        anyhow: bool = False,
    ) -> None:
        """At the end of the line; `anyhow`: for a call to come, beside the last who wants the same."""
        new = Party(self._numbers + 1, key, units, label, front, partial=anyhow)
        last = next(reversed(self._parties.values()), None)
        joins = anyhow or last is None or not last.told or len(self._parties) >= _MAX_RUNS
        if last is not None and joins and last.alike(new):
            last.waiters.append(waiter)
        else:
            self._numbers += 1
            new.waiters.append(waiter)
            self._parties[new.id] = new
        self.again()

    def take_in_hand(self, key: str, units: dict[str, int], label: str) -> Call | None:
        """Return a slot that the store granted before its caller came, if there is one and it is fresh."""
        call = self._in_hand.take(key, units, label)
        if call is None or self.fresh_until(call) > steady():
            return call
        self.finish(call.id, UNSENT)
        self.return_in_hand()
        return None

    def return_in_hand(self) -> None:
        """Give back the slots that nobody uses yet."""
        for call in self._in_hand.clear():
            self.finish(call.id, UNSENT)

    def leave(self, waiter: Waiter) -> bool:
        """Whether it was still waiting; the store hears of it with the next request."""
        for party in self._parties.values():
            if waiter in party.waiters:
                party.waiters.remove(waiter)
                self._drop_empty(party)
                self.again()
                return True
        for call_id, each in self._restarts.items():
            if each is waiter:
                del self._restarts[call_id]
                return True
        return False

    def _drop_empty(self, party: Party) -> None:
        if not party.waiters:
            self._parties.pop(party.id, None)

    def finish(self, call_id: int, outcome: str, units: dict[str, int] | None = None) -> None:
        """Give a call back; twice is harmless."""
        if call_id in self._open:
            self._note_cut_off(call_id, outcome)
            if not self._done or self._returned:
                self._returned = False
                self._flush_at = steady() + LINGER_S
            # In this order: what is interrupted between the two is said twice, not lost.
            self._done.append({"call_id": call_id, "outcome": outcome, "units": units or {}})
            del self._open[call_id]
            if call_id not in self._cut_off:
                self.used = max(0, self.used - 1)

    def _note_cut_off(self, call_id: int, outcome: str) -> None:
        """Until when its provider may work on it, as long as the store does not know."""
        call, terms = self._open[call_id](), self.terms
        if (
            outcome in {CUT_OFF, TIMED_OUT}
            and call is not None
            and terms is not None
            and not terms["stops_on_disconnect"]
        ):
            now = steady()
            held_s = (call.late + terms["transit_ms"] + terms["call_timeout_ms"]) / 1000
            self._cut_off[call_id] = now + held_s - self.age_s(call, now), call.units

    @property
    def given_back(self) -> int:
        """How many calls were given back and are not known to be stored."""
        return len(self._done)

    def returning(self, now: float, *, anyhow: bool) -> Ask | None:
        """A request without a number for what was given back, where that must not wait for the next one.

        It may where callers wait: for them a request is due now. Unless `anyhow`, it also may where others of the
        process still have calls, or where calls are so short that the next request comes as soon. A store that is
        gone is not waited for.
        """
        if not self._done or self._parties or self.failed_at is not None:
            return None
        if not anyhow and (self._open or now < self._returned_at + LINGER_S):
            return None
        self._returned_at = now
        ask = self._said(now, 0)
        ask["ended_calls"] = [*self._done]
        ask["refusals"] = [*self._hints]
        self._returned = True
        self._flush_at = now + _CONFIRM_RETURN_S
        return ask

    def say_again(self, ask: Ask) -> None:
        """Unless it was stored, the next request says what this one was to give back, at once."""
        said = {done["call_id"] for done in ask["ended_calls"]}
        if any(done["call_id"] in said for done in self._done):
            self._returned = False
            self._flush_at = steady()

    def _drop(self, call: weakref.ref[Call]) -> None:
        self._dropped.append(call)
        self._poke()

    def _collect(self) -> None:
        """An exception that came from nowhere, a signal's say, may have lost a call between two lines of ours."""
        while self._dropped:
            dropped = self._dropped[0]
            for call_id in [number for number, each in self._open.items() if each is dropped]:
                self.finish(call_id, "")
            self._dropped.popleft()

    def refused(self, hint: ProviderRefusal) -> None:
        self._hints.append(hint)
        self.return_in_hand()
        self._shut_at = max(self._shut_at, self._seen + int((steady() - self._seen_at) * 1000))
        self.again()

    def restart(self, waiter: Waiter, call_id: int) -> None:
        """Ask for a call to count from now on."""
        self._restarts[call_id] = waiter
        self.again()

    def due_at(self, now: float) -> float | None:
        """When the store has to be asked next; None when there is nothing to ask for."""
        if self._dropped:
            self._collect()
        due: list[float] = []
        if self._in_hand:
            for call in self._in_hand.expired(now):
                self.finish(call.id, UNSENT)
            if self._in_hand:
                due.append(self._in_hand.until)
        if self._changed_at is not None:
            due.append(min(now, self._changed_at))
        if self._done:
            hurries = self.crowded and not self._returned
            due.append(min(now, self._flush_at) if hurries else self._flush_at)
        if self._parties:
            due.append(self._again_at)
            if self._confirm_at is not None:
                due.append(self._confirm_at)
        return max(self.retry_at, min(due)) if due else None

    def ask(self, now: float) -> Ask:
        ask = self._said(now, self.progress.acked + 1)
        if self._parties:
            self._want_in_hand(next(reversed(self._parties.values())), now)
        for party in self._parties.values():
            party.told = True
        runs: list[DeclaredRun] = [
            {
                "id": party.id,
                "key": party.key,
                "caller_count": len(party.waiters),
                "units": party.units,
                "label": party.label,
                "front": int(party.front),
                "in_hand_count": party.in_hand,
            }
            for party in self._parties.values()
        ]
        ask["ended_calls"] = [*self._done]
        ask["refusals"] = [*self._hints]
        ask["restamp_call_ids"] = [*self._restarts]
        ask["runs"] = runs
        if self.claim is not None:
            self.claim.mark(ask)
        self._asked_at = now
        self._changed_at = None
        self._confirm_at = None
        return ask

    def _want_in_hand(self, party: Party, now: float) -> None:
        """Ask for more slots than there are callers of the last kind, where callers come quickly."""
        if party.told or party.front or party.partial or is_forked():
            return
        kind = Kind(party.key, party.units, party.label)
        if self._in_hand and kind != self._in_hand.kind:
            self.return_in_hand()
        party.in_hand = self._in_hand.wanted(kind, now)

    def again(self) -> None:
        """Ask at once, whatever was said before."""
        if self._changed_at is None:
            self._changed_at = steady()

    def overdue_s(self, now: float) -> float:
        """For how long nobody has got around to what the store has to be asked."""
        due_at = self._asked_at if self.busy else self.due_at(now)
        return 0.0 if due_at is None else max(0.0, now - due_at)

    def beat(self, now: float) -> Ask:
        return self._said(now, 0)

    def _said(self, now: float, n: int) -> Ask:
        said: Ask = {
            "session_id": self.sid,
            "request_number": n,
            "confirmed_grant_number": self.progress.heard,
            "next_call_id": self.progress.next,
            "label": self.label,
            "seen_at": self._seen,
            "elapsed_ms": int((now - self._seen_at) * 1000),
            "seen_version": self.progress.version,
            "answered_request_number": self.progress.acked,
            "is_sure": int(now < self.sure_until),
            "terms_version": self.answer["terms_version"] if self.answer else -1,
            "grant_delay_ms": math.ceil(self._grant_delay_s * 1000),
            "ended_calls": [],
            "refusals": [],
            "restamp_call_ids": [],
            "runs": [],
        }
        if self.claim is not None:
            self.claim.mark(said)
        return said

    def take(self, ask: Ask, answer: Answer, asked_at: float, now: float) -> None:
        """Apply an answer, and settle those whom it is for."""
        self._healed()
        if answer["status"] != "ok":
            return
        self._note(answer, asked_at, now)
        said = {done["call_id"] for done in ask["ended_calls"]}
        self._done = [done for done in self._done if done["call_id"] not in said]
        for call_id in said & self._cut_off.keys():
            del self._cut_off[call_id]
        if ask["request_number"] == 0:
            self._refuse_misfits(answer["terms_version"])
            self.granted(answer["grants"], now)
            return
        if ask["request_number"] <= self.progress.acked:
            return  # asked for twice, and answered before
        if self._grant_delay_s * 1000 <= ask["grant_delay_ms"]:
            self._grant_delay_s = 0.0  # else it has heard of a later one meanwhile
        self.answer = answer
        self.progress.acked = ask["request_number"]
        del self._hints[: len(ask["refusals"])]
        self._refuse_misfits(answer["terms_version"])
        self.granted(answer["grants"], now)
        self.used = max(0, answer["in_flight_count"] - len(self._done))
        self._confirm_at = None if not answer["grants"] else now + self._confirm_s
        self._restarted(ask, answer, now)
        self.tried()
        wait = self.wait
        self._again_at = now + (wait["ask_again_in_ms"] / 1000 if wait else 0.0)
        if answer["has_more"] or (self._parties and wait is None):
            self.again()  # there was too much for one step, or they came while we asked

    def _settle(self, waiter: Waiter, result: Result) -> None:
        waiter.settle(result)
        self._settled.append(waiter)

    @property
    def settled(self) -> list[Waiter]:
        """Those who have their answer and were not woken yet."""
        return [*self._settled]

    def woken(self, waiters: list[Waiter]) -> None:
        gone = {*waiters}
        self._settled = [each for each in self._settled if each not in gone]

    def _refuse_misfits(self, tv: int) -> None:
        """Those who would wait for ever under these terms; looked for once under each."""
        for party in [*self._parties.values()]:
            if party.seen == tv or self.terms is None or not party.told:
                continue
            party.seen = tv
            error = misfit(self.limit, self.terms, party.units, partial=party.partial)
            if error is not None:
                for waiter in party.waiters:
                    self._settle(waiter, error)
                del self._parties[party.id]
                self.again()

    def tried(self) -> None:
        """Take those who wanted one answer only, and have it now, out of the line."""
        before: Counter[str] = Counter()
        for party in [*self._parties.values()]:
            stays: deque[Waiter] = deque()
            for waiter in party.waiters:
                if waiter.once and party.told:
                    waiter.wait_seen = self._wait_behind(before, party.key)
                    self._settle(waiter, None)
                    if self.claim is None:  # else the place is kept
                        self.again()
                else:
                    stays.append(waiter)
                before[party.key] += 1
            party.waiters = stays
            self._drop_empty(party)

    def _note(self, answer: Answer, asked_at: float, now: float) -> None:
        self.progress.version = max(self.progress.version, answer["version"])
        self._clock.note(
            answer["now"], asked_at, now, generation=answer["generation"], offset=answer["clock_offset_ms"]
        )
        if answer["shut_for_ms"] > 0 or self._generation not in {-1, answer["generation"]}:
            self._shut_at = max(self._shut_at, answer["now"])
            self.return_in_hand()
        # Also one that is over by now.
        self._shut_at = max(self._shut_at, answer["cooldown_began_at"])
        self._generation = answer["generation"]
        self._seen, self._seen_at = answer["now"], asked_at
        if answer["terms"]:
            self.progress.terms = answer["terms"][0]
            self.return_in_hand()
        if answer["other_caller_count"] > 0:
            self.return_in_hand()
        if self.terms is not None:
            self.sure_until = max(self.sure_until, asked_at + self.terms["lease_ms"] / 1000)

    @property
    def _confirm_s(self) -> float:
        """Until we confirm what we were given, the next is given to others, if any wait: then our next request does."""
        return _CONFIRM_LATER_S if self.answer is not None and self.answer["other_caller_count"] > 0 else _CONFIRM_S

    def granted(self, grants: list[Grant], now: float) -> None:
        """Share out what was granted; what nobody waits for any more goes back unsent."""
        for grant in grants:
            if grant["number"] <= self.progress.heard:
                continue
            self._note_delay(grant, now)
            calls: list[Call] = []
            party = self._parties.get(grant["run_id"])
            try:
                ids = range(grant["first_call_id"], grant["first_call_id"] + grant["call_count"])
                calls.extend(self._opened(call_id, grant, now, party.units if party else {}) for call_id in ids)
                self.progress.next = max(self.progress.next, grant["first_call_id"] + grant["call_count"])
                self.progress.heard = grant["number"]
                self.used += grant["call_count"]
                self._confirm_at = now + self._confirm_s
                self._in_hand.granted(now)
                self._share_out(calls, party)
            except BaseException:
                self._take_back(grant, calls, party)
                raise

    def _note_delay(self, grant: Grant, now: float) -> None:
        """Note how old a grant is, for the store to let grants be that old; report where that is too much."""
        terms = self.terms
        if terms is None or not terms["windows"]:
            return
        delay_s = max(0.0, self._clock.age_s(grant["granted_at"], now))
        if not math.isfinite(delay_s):
            return
        self._grant_delay_s = max(self._grant_delay_s, delay_s)
        if delay_s * 1000 > most_fresh(terms):
            self.too_slow_s = max(self.too_slow_s, delay_s)

    def _take_back(self, grant: Grant, calls: list[Call], party: Party | None) -> None:
        """Sharing out was interrupted: what reached nobody goes back, unless it will be granted once more."""
        self.return_in_hand()
        if self.progress.heard < grant["number"]:
            for number in range(grant["first_call_id"], grant["first_call_id"] + grant["call_count"]):
                self._open.pop(number, None)
            return
        reached = {id(each.result) for each in (*self._settled, *(party.waiters if party else ()))}
        for call in calls:
            if id(call) not in reached:
                self.finish(call.id, "unsent")

    def _share_out(self, calls: list[Call], party: Party | None) -> None:
        for call in calls:
            while party is not None and party.waiters and party.waiters[0].done:
                party.waiters.popleft()
            if party is not None and not party.waiters and party.in_hand:
                self._in_hand.put(call)
                continue
            if party is None or not party.waiters:
                self.finish(call.id, UNSENT)
                continue
            self._settle(party.waiters[0], call)
            party.waiters.popleft()
        if party is not None:
            self._drop_empty(party)

    def _opened(self, call_id: int, grant: Grant, now: float, units: dict[str, int]) -> Call:
        call = Call(self, call_id, grant["granted_at"], grant.get("max_age_ms", self._start), now, units)
        self._open[call_id] = weakref.ref(call, self._drop)
        return call

    def _restarted(self, ask: Ask, answer: Answer, now: float) -> None:
        stamps = {each["call_id"]: each for each in answer["restamps"]}
        for call_id in ask["restamp_call_ids"]:
            waiter = self._restarts.get(call_id)
            if waiter is not None:
                call = self._open[call_id]() if call_id in stamps and call_id in self._open else None
                if call is not None:
                    call.at, call.late, call.heard_at = (
                        stamps[call_id]["granted_at"],
                        stamps[call_id]["max_age_ms"],
                        now,
                    )
                self._settle(waiter, call)
                del self._restarts[call_id]

    def missed(self, error: StoreError, now: float, asked_at: float) -> None:
        """The store did not answer: the same again, ever more rarely."""
        self.failure = error
        if self.failed_at is None:
            self.failed_at = asked_at
        self.retry_at = now + self._pause_s
        self._pause_s = min(_LONGEST_PAUSE_S, 2 * self._pause_s)
        if self._parties or self._done or self._restarts or self._hints:
            self.again()

    def _healed(self) -> None:
        self.failure = None
        self.failed_at = None
        self.retry_at = 0.0
        self._pause_s = _FIRST_PAUSE_S

    def give_up(self, error: Exception) -> None:
        """All who wait get this error."""
        for waiter in [*self._restarts.values(), *(each for party in self._parties.values() for each in party.waiters)]:
            self._settle(waiter, waiter.result or error)
        self._restarts.clear()
        self.return_in_hand()
        self.empty()

    def empty(self) -> list[Party]:
        """Those who wait, to be served elsewhere."""
        parties = [*self._parties.values()]
        self._parties.clear()
        if parties:
            self.again()
        return parties

    def fresh_until(self, call: Call) -> float:
        """Return until when, by the steady clock, the call may start without asking the store again."""
        now = steady()
        if self.terms is None:
            return now
        return min(self.sure_until, now + self.late_s(call) - self.age_s(call, now))

    def age_s(self, call: Call, now: float) -> float:
        """Return how long ago the store granted the call, at most."""
        return max(self._clock.age_s(call.at, now), now - call.heard_at)

    def late_s(self, call: Call) -> float:
        """Return how old the grant may be when the call starts.

        After news of a cool-down, a pause or a loss, a grant from before must be as fresh as where windows count.
        """
        if self.terms is None or call.at <= self._shut_at:
            return min(call.late, self._start) / 1000
        allowed = most_fresh(self.terms) if self.terms["windows"] else late_after(self.terms)
        return min(call.late, allowed) / 1000

    @property
    def _start(self) -> int:
        return self.terms["start_within_ms"] if self.terms is not None else 0
