"""What one process holds of one limit and who waits for it there: makes its requests, and shares out the answers."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from forebay.clock import steady
from forebay.errors import StoreError
from forebay.limits.call import Call
from forebay.limits.fitting import misfit
from forebay.limits.waiting import Waiter
from forebay.model.limit_record import Answer, Ask, Done, Grant, Hint, Terms, Wait, Wish
from forebay.stores.limit_base import LimitStore

LINGER_S = 0.002
_CONFIRM_S = 0.01
_CONFIRM_LATER_S = 0.015
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0
_MAX_RUNS = 16


@dataclass(slots=True, eq=False)
class Party:
    """Waiters that came together and want the same; the store knows them by number and count."""

    id: int
    key: str
    units: dict[str, int]
    label: str
    front: bool
    waiters: deque[Waiter] = field(default_factory=deque)
    told: bool = False
    seen: int = -1
    """The terms that it was found to fit under."""

    def alike(self, other: Party) -> bool:
        return (self.key, self.units, self.label, self.front) == (other.key, other.units, other.label, other.front)


class Line:
    """Not safe by itself: hold `lock` for every method. Times are local and steady; instants are the store's."""

    def __init__(self, limit: str, store: LimitStore, sid: str, label: str, poke: Callable[[], None]) -> None:
        self._poke = poke
        self.limit = limit
        self.store = store
        self.sid = sid
        self.label = label
        self.lock = threading.Lock()
        self.busy: object = None
        """Whoever asks just now."""
        self.terms: Terms | None = None
        self.answer: Answer | None = None
        self.failure: StoreError | None = None
        self.failed_at: float | None = None
        self.sure_until = 0.0
        self.version = 0
        self._parties: dict[int, Party] = {}
        self._numbers = 0
        self._open: dict[int, weakref.ref[Call]] = {}
        # Calls that nobody has any more; filled without the lock, which whoever collects them may hold.
        self._dropped: deque[weakref.ref[Call]] = deque()
        # Calls that nobody waits for any more while the provider may still work on them, and until when it may.
        self._fading: list[tuple[float, Call, str]] = []
        self._restarts: dict[int, Waiter] = {}
        self._done: list[Done] = []
        self._hints: list[Hint] = []
        self._sent = (0, 0)
        self._changed = False
        self._again_at = 0.0
        self._flush_at = 0.0
        self._confirm_at: float | None = None
        self.retry_at = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._acked = 0
        self._heard = 0
        self._next = 1
        self._seen = -1
        self._seen_at = 0.0

    @property
    def waiting(self) -> int:
        return sum(len(party.waiters) for party in self._parties.values())

    @property
    def crowded(self) -> bool:
        """Whether anybody waits, here or elsewhere, for what is given back."""
        return bool(self._parties) or (self.answer is not None and self.answer["others"] > 0)

    @property
    def active(self) -> bool:
        """Whether its session has to be kept alive."""
        return bool(self._open or self._parties or self._done)

    @property
    def open_count(self) -> int:
        return len(self._open)

    @property
    def wait(self) -> Wait | None:
        """What the store said last of why the first one waits."""
        return self.answer["waits"][0] if self.answer and self.answer["waits"] else None

    def wait_of(self, waiter: Waiter) -> Wait | None:
        """Why this one waits, as far as the store has said; None if it has not."""
        if waiter.done:
            return waiter.wait_seen
        before = 0
        for party in self._parties.values():
            for each in party.waiters:
                if each is waiter:
                    return self._wait_behind(before)
                before += 1
        return self.wait

    def _wait_behind(self, before: int) -> Wait | None:
        wait = self.wait
        return None if wait is None else {**wait, "ahead": wait["ahead"] + before}

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
        """At the end of the line; `anyhow`: beside the last who wants the same, whenever that one came."""
        new = Party(self._numbers + 1, key, units, label, front)
        last = next(reversed(self._parties.values()), None)
        joins = anyhow or last is None or not last.told or len(self._parties) >= _MAX_RUNS
        if last is not None and joins and last.alike(new):
            last.waiters.append(waiter)
        else:
            self._numbers += 1
            new.waiters.append(waiter)
            self._parties[new.id] = new
        self._changed = True

    def leave(self, waiter: Waiter) -> bool:
        """Whether it was still waiting; the store hears of it with the next request."""
        for party in self._parties.values():
            if waiter in party.waiters:
                party.waiters.remove(waiter)
                self._drop_empty(party)
                self._changed = True
                return True
        for call_id, each in self._restarts.items():
            if each is waiter:
                del self._restarts[call_id]
                return True
        return False

    def _drop_empty(self, party: Party) -> None:
        if not party.waiters:
            del self._parties[party.id]

    def finish(self, call_id: int, outcome: str, units: dict[str, int] | None = None) -> None:
        """Give a call back; twice is harmless."""
        if call_id in self._open:
            del self._open[call_id]
            self._done.append({"id": call_id, "outcome": outcome, "units": units or {}})
            if len(self._done) == 1:
                self._flush_at = steady() + LINGER_S

    def fade(self, call: Call, outcome: str) -> None:
        """Give a call back when the provider cannot work on it any more: it was cut off, not ended."""
        terms = self.terms
        if call.id not in self._open:
            return
        if terms is None or terms["stops"]:
            self.finish(call.id, outcome)
            return
        now = steady()
        left_s = (terms["start"] + terms["transit"] + terms["call"]) / 1000 - self.age_s(call, now)
        self._fading.append((now + max(0.0, left_s), call, outcome))

    def _drop(self, call: weakref.ref[Call]) -> None:
        self._dropped.append(call)
        self._poke()

    def _collect(self) -> None:
        """An exception that came from nowhere, a signal's say, may have lost a call between two lines of ours."""
        while self._dropped:
            dropped = self._dropped.popleft()
            for call_id in [number for number, each in self._open.items() if each is dropped]:
                self.finish(call_id, "")

    def refused(self, hint: Hint) -> None:
        self._hints.append(hint)
        self._changed = True

    def restart(self, waiter: Waiter, call_id: int) -> None:
        """Ask for a call to count from now on."""
        self._restarts[call_id] = waiter
        self._changed = True

    def due_at(self, now: float) -> float | None:
        """When the store has to be asked next; None when there is nothing to ask for."""
        if self._dropped:
            self._collect()
        due: list[float] = []
        if self._fading:
            due.append(self._faded(now))
        if self._changed:
            due.append(now)
        if self._done:
            due.append(now if self.crowded else self._flush_at)
        if self._parties:
            due.append(self._again_at)
            if self._confirm_at is not None:
                due.append(self._confirm_at)
        return max(self.retry_at, min(due)) if due else None

    def _faded(self, now: float) -> float:
        """Give back those whose time is over; when to look again."""
        over = [each for each in self._fading if each[0] <= now]
        self._fading = [each for each in self._fading if each[0] > now]
        for _, call, outcome in over:
            self.finish(call.id, outcome)
        return now if over else min(until for until, _, _ in self._fading)

    def ask(self, now: float) -> Ask:
        ask = self._said(now, self._acked + 1)
        for party in self._parties.values():
            party.told = True
        runs: list[Wish] = [
            {
                "id": party.id,
                "key": party.key,
                "count": len(party.waiters),
                "units": party.units,
                "label": party.label,
                "front": int(party.front),
            }
            for party in self._parties.values()
        ]
        ask["done"] = [*self._done]
        ask["hints"] = [*self._hints]
        ask["starts"] = [*self._restarts]
        ask["runs"] = runs
        self._sent = (len(self._done), len(self._hints))
        self._changed = False
        self._confirm_at = None
        return ask

    def again(self) -> None:
        """Ask at once, whatever was said before."""
        self._changed = True

    def beat(self, now: float) -> Ask:
        return self._said(now, 0)

    def _said(self, now: float, n: int) -> Ask:
        return {
            "sid": self.sid,
            "n": n,
            "heard": self._heard,
            "next": self._next,
            "label": self.label,
            "seen": self._seen,
            "elapsed": int((now - self._seen_at) * 1000),
            "version": self.version,
            "acked": self._acked,
            "sure": int(now < self.sure_until),
            "tv": self.answer["tv"] if self.answer else -1,
            "done": [],
            "hints": [],
            "starts": [],
            "runs": [],
        }

    def take(self, ask: Ask, answer: Answer, asked_at: float, now: float) -> list[Waiter]:
        """Apply an answer, and tell whom to wake."""
        self._healed()
        if answer["status"] != "ok":
            return []
        self._note(answer, asked_at)
        if ask["n"] == 0:
            return self._misfits(answer["tv"]) + self.granted(answer["grants"], now)
        self.answer = answer
        self._acked = ask["n"]
        done, hints = self._sent
        del self._done[:done]
        del self._hints[:hints]
        woken = self._misfits(answer["tv"]) + self.granted(answer["grants"], now)
        self._confirm_at = None if not answer["grants"] else now + self._confirm_s
        woken += self._restarted(ask, answer)
        woken += self.tried()
        wait = self.wait
        self._again_at = now + (wait["again"] / 1000 if wait else 0.0)
        if self._parties and wait is None:
            self._changed = True  # they came while we asked
        return woken

    def _misfits(self, tv: int) -> list[Waiter]:
        """Those who would wait for ever under these terms; looked for once under each."""
        woken: list[Waiter] = []
        for party in [*self._parties.values()]:
            if party.seen == tv or self.terms is None or not party.told:
                continue
            party.seen = tv
            error = misfit(self.limit, self.terms, party.units)
            if error is not None:
                del self._parties[party.id]
                self._changed = True
                woken += party.waiters
                for waiter in party.waiters:
                    waiter.settle(error)
        return woken

    def tried(self) -> list[Waiter]:
        """Take those who wanted one answer only, and have it now, out of the line."""
        woken: list[Waiter] = []
        before = 0
        for party in [*self._parties.values()]:
            stays: deque[Waiter] = deque()
            for waiter in party.waiters:
                if waiter.once and party.told:
                    waiter.wait_seen = self._wait_behind(before)
                    waiter.settle(None)
                    woken.append(waiter)
                else:
                    stays.append(waiter)
                before += 1
            party.waiters = stays
            self._drop_empty(party)
        self._changed = self._changed or bool(woken)
        return woken

    def _note(self, answer: Answer, asked_at: float) -> None:
        self.version = max(self.version, answer["v"])
        self._seen, self._seen_at = answer["now"], asked_at
        if answer["terms"]:
            self.terms = answer["terms"][0]
        if self.terms is not None:
            self.sure_until = max(self.sure_until, asked_at + self.terms["lease"] / 1000)

    @property
    def _confirm_s(self) -> float:
        """Until we confirm what we were given, the next is given to others, if any wait: then our next request does."""
        return _CONFIRM_LATER_S if self.answer is not None and self.answer["others"] > 0 else _CONFIRM_S

    def granted(self, grants: list[Grant], now: float) -> list[Waiter]:
        """Share out what was granted; what nobody waits for any more goes back unsent."""
        woken: list[Waiter] = []
        for grant in grants:
            if grant["g"] <= self._heard:
                continue
            calls = [
                self._opened(call_id, grant["at"]) for call_id in range(grant["first"], grant["first"] + grant["count"])
            ]
            self._heard = grant["g"]
            self._next = max(self._next, grant["first"] + grant["count"])
            self._confirm_at = now + self._confirm_s
            party = self._parties.get(grant["run"])
            for call in calls:
                if party is None or not party.waiters:
                    self.finish(call.id, "unsent")
                    continue
                waiter = party.waiters.popleft()
                waiter.settle(call)
                woken.append(waiter)
            if party is not None:
                self._drop_empty(party)
        return woken

    def _opened(self, call_id: int, at: int) -> Call:
        call = Call(self, call_id, at)
        self._open[call_id] = weakref.ref(call, self._drop)
        return call

    def _restarted(self, ask: Ask, answer: Answer) -> list[Waiter]:
        woken = []
        stamps = {each["id"]: each["at"] for each in answer["starts"]}
        for call_id in ask["starts"]:
            waiter = self._restarts.pop(call_id, None)
            if waiter is not None:
                call = self._open[call_id]() if call_id in stamps and call_id in self._open else None
                if call is not None:
                    call.at = stamps[call_id]
                waiter.settle(call)
                woken.append(waiter)
        return woken

    def missed(self, error: StoreError, now: float, asked_at: float) -> None:
        """The store did not answer: the same again, ever more rarely."""
        self.failure = error
        if self.failed_at is None:
            self.failed_at = asked_at
        self.retry_at = now + self._pause_s
        self._pause_s = min(_LONGEST_PAUSE_S, 2 * self._pause_s)
        self._changed = self._changed or bool(self._parties or self._done or self._restarts or self._hints)

    def _healed(self) -> None:
        self.failure = None
        self.failed_at = None
        self.retry_at = 0.0
        self._pause_s = _FIRST_PAUSE_S

    def give_up(self, error: Exception) -> list[Waiter]:
        """All who wait get this error."""
        waiters = [waiter for party in self.empty() for waiter in party.waiters]
        waiters += self._restarts.values()
        self._restarts.clear()
        for waiter in waiters:
            waiter.settle(error)
        return waiters

    def empty(self) -> list[Party]:
        """Those who wait, to be served elsewhere."""
        parties = [*self._parties.values()]
        self._parties.clear()
        self._changed = self._changed or bool(parties)
        return parties

    def age_s(self, call: Call, now: float) -> float:
        """How long ago the store granted it, at most."""
        return (self._seen - call.at) / 1000 + now - self._seen_at
