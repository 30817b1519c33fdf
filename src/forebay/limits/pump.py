"""Asks the stores on behalf of all callers of a process: one request at a time for each line, and heartbeats beside."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from weakref import WeakValueDictionary

from forebay.clock import steady
from forebay.errors import NotFound, StoreClosed, StoreError, StoreUnreachable
from forebay.limits import telling
from forebay.limits.asking import held_elsewhere
from forebay.limits.desk import Desk
from forebay.limits.line import LINGER_S, Line, Turn
from forebay.limits.returns import Returns
from forebay.limits.waiting import Waiter, wake_all
from forebay.model.limit_record import Answer, Ask, Grant
from forebay.observe import emit
from forebay.supervisor import SupervisedThread

LOOP, HEARTBEAT, WAKE_UP = "forebay-limits", "forebay-limits-beat", "forebay-limits-wake-up"
_ROUNDS = 2
_IDLE_S = 3600.0
_BEAT_S = 4.0
_LOCKED_S = 1.0  # nobody holds a line's lock for so long who is not stuck
_FLUSH_LOOK_S = 0.001


class Pump:
    """A caller that may wait asks itself, for everybody; the rest is done by a thread, and timers by it alone.

    The thread looks at desks that somebody pointed out, or whose time has come: others cost nothing.
    """

    def __init__(self, define: Callable[[], Callable[[Desk], bool] | None]) -> None:
        self._define = define
        self._desks: WeakValueDictionary[str, Desk] = WeakValueDictionary()
        self._used: dict[Desk, None] = {}
        """Those that may hold or want something, for the heartbeat."""
        self._lock = threading.Lock()
        self._pokes: SimpleQueue[Desk | None] = SimpleQueue()
        self._agenda: list[tuple[float, int, Desk]] = []
        self._order = itertools.count()
        self._threads: list[SupervisedThread] = []
        self._beats = threading.Event()
        self._closed = False
        self.returns = Returns(self._store_return)

    def add(self, desk: Desk, name: str = "") -> None:
        """Serve a desk; one that has a `name` is not the one of its limit."""
        with self._lock:
            self._desks[name or desk.limit] = desk
            if not self._threads and not self._closed:
                loop, heartbeat = SupervisedThread(LOOP, self._run), SupervisedThread(HEARTBEAT, self._beat)
                loop.start()
                heartbeat.start()
                self._threads = [loop, heartbeat]

    def find(self, limit: str) -> Desk | None:
        return self._desks.get(limit)

    def poke(self, desk: Desk) -> None:
        """Have the thread look at it at once."""
        self._pokes.put(desk)

    def poke_by(self, desk: Desk, due_at: float) -> None:
        if desk.next_look_at > due_at:
            self.poke(desk)

    def drive(self, desk: Desk, waiter: Waiter | None = None) -> None:
        """Ask now, on the caller's thread, unless somebody does already; they then do it for us.

        A caller that has its answer does not wait for what is left to tell the store.
        """
        line = desk.line
        due_at = None
        try:
            for _ in range(_ROUNDS):
                due_at = self._exchange_if_due(desk, line)
                if due_at is None or due_at > steady() or (waiter is not None and waiter.done):
                    break
        except BaseException:
            self.poke(desk)  # the others still wait
            raise
        if due_at is not None:
            self.poke_by(desk, due_at)

    def _exchange_if_due(self, desk: Desk, line: Line) -> float | None:
        """When it is time for another one after this; None when it is not, or whoever asks already will see to it."""
        turn = Turn()
        try:
            with line.lock:
                if line.busy:
                    return None
                now = steady()
                due_at = line.due_at(now)
                if due_at is None or due_at > now:
                    return due_at
                line.begin(turn)
                self._used[desk] = None
                ask = line.ask(now)
            self._ask(desk, line, ask, line.store.exchange)
        finally:
            # However this ended: others must be able to go on.
            line.end(turn)
        with line.lock:
            return line.due_at(steady())

    def _ask(self, desk: Desk, line: Line, ask: Ask, verb: Callable[[str, Ask], Answer]) -> None:
        try:
            self._apply(desk, line, ask, verb)
        except Exception as error:
            # A bug, or no memory: those who wait hear of it, and the next request says the same again.
            with line.lock:
                if ask["request_number"] > 0:
                    line.give_up(error)
                line.again()
            raise
        finally:
            # Whatever went wrong after they were settled, they are woken.
            _wake_settled(line)

    def _store_return(self, desk: Desk, line: Line, ask: Ask) -> None:
        self._ask(desk, line, ask, line.store.give_back)

    def _apply(self, desk: Desk, line: Line, ask: Ask, verb: Callable[[str, Ask], Answer]) -> None:
        asked_at = steady()
        try:
            answer = verb(line.limit, ask)
            if answer["status"] == "unknown":
                self._unknown(desk, line)
                return
            if answer["status"] == "held" and line.claim is not None:
                with line.lock:
                    line.give_up(held_elsewhere(line.limit, line.claim.place))
                return
        except StoreError as error:
            desk.missed(error, asked_at)
            return
        with line.lock:
            before = line.wait
            line.take(ask, answer, asked_at, steady())
            wait = line.wait
        if answer["terms"]:
            self._beats.set()  # it may have to beat faster
        if wait is not None:
            telling.waiting(desk, before, wait)
        if line is desk.main:
            telling.too_slow(desk)
            telling.cut_off(desk, answer["cut_off_count"])
            desk.answered()

    def _unknown(self, desk: Desk, line: Line) -> None:
        """The store has no such limit, or not any more."""
        define = self._define()
        if define is None or not define(desk):
            error = NotFound(
                f"There is no limit {line.limit!r}.",
                remedy=f"Define it: limiter.define(Limit({line.limit!r}, in_flight=…)), or `forebay limits set`.",
            )
            with line.lock:
                line.give_up(error)
        else:
            with line.lock:
                line.again()

    def heard(self, limit: str, grants: list[Grant], now: int) -> None:  # noqa: ARG002 - a store's wake-up
        """Something was granted to this process by another's request; without grants it has to be asked for."""
        desk = self._desks.get(limit)
        if desk is None:
            return
        try:
            self._share_out(desk, grants)
        except Exception as error:  # noqa: BLE001 - on a thread of the store's, which has others to wake
            desk.failures.report(WAKE_UP, error)
            self.poke(desk)

    def _share_out(self, desk: Desk, grants: list[Grant]) -> None:
        line = desk.main
        try:
            with line.lock:
                line.granted(grants, steady())
                if not grants:
                    line.again()
                due_at = line.due_at(steady())
        finally:
            _wake_settled(line)
        if not grants or due_at is not None:
            self.poke_by(desk, steady() + LINGER_S)

    def _run(self) -> None:
        while not self._closed:
            now = steady()
            while self._agenda and self._agenda[0][0] <= now:
                at, _, desk = heapq.heappop(self._agenda)
                if at == desk.next_look_at:
                    self._look(desk)
            next_at = self._agenda[0][0] if self._agenda else math.inf
            try:
                poked = self._pokes.get(timeout=max(0.0, min(next_at - steady(), _IDLE_S)))
            except Empty:
                continue
            self._look_at_poked(poked)

    def _look_at_poked(self, first: Desk | None) -> None:
        poked = dict.fromkeys([first])
        while True:
            try:
                poked[self._pokes.get_nowait()] = None
            except Empty:
                break
        for desk in poked:
            if desk is not None:
                self._look(desk)

    def _look(self, desk: Desk) -> None:
        """Ask for what is due, and note when to look again."""
        # Until we know better: whoever has something for us while we look wakes us once more.
        desk.next_look_at = math.inf
        try:
            next_at = self._serve(desk)
            desk.failures.clear()
        except Exception as error:  # noqa: BLE001 - one limit's trouble must not hold up the others
            next_at = steady() + desk.failures.report(LOOP, error)
        if next_at is not None:
            desk.next_look_at = next_at
            heapq.heappush(self._agenda, (next_at, next(self._order), desk))

    def _serve(self, desk: Desk) -> float | None:
        next_at = math.inf
        crowded = True
        for line in desk.lines:
            self._exchange_if_due(desk, line)
            _wake_settled(line)
            with line.lock:
                due_at = None if line.busy else line.due_at(steady())
                # Those for whom somebody asks just now may have their slots in a moment.
                crowded = crowded and line.crowded and not line.busy
            if due_at is not None:
                next_at = min(next_at, due_at)
        answer, desk.answer_seen = desk.answer_seen, desk.line.answer
        if answer is not desk.answer_seen and not crowded:
            # Much is going on there. Whoever gives something back soon need not wake us for it; where others wait,
            # they do it anyway.
            next_at = min(next_at, steady() + LINGER_S)
        return None if next_at == math.inf else next_at

    def _beat(self) -> None:
        while not self._closed:
            pause_s = _BEAT_S
            for desk in [*self._used]:
                terms = desk.main.terms
                if terms is not None:
                    pause_s = min(pause_s, terms["heartbeat_ms"] / 1000)
                try:
                    self._renew(desk)
                except Exception as error:  # noqa: BLE001 - the other sessions have to be renewed
                    desk.failures.report(HEARTBEAT, error)
            self._beats.wait(pause_s)
            self._beats.clear()

    def _renew(self, desk: Desk) -> None:
        """Renew the session at one limit, unless nobody gets its requests done: then its slots have to come back."""
        line = desk.main
        if not line.active and not desk.degraded:
            self._used.pop(desk, None)
            if line.active:  # since we looked
                self._used[desk] = None
            return
        if not line.lock.acquire(timeout=_LOCKED_S):
            emit("limit_stuck", limit=desk.limit, silent_s=_LOCKED_S)
            return
        try:
            now = steady()
            silent_s = line.overdue_s(now)
            ask = line.beat(now)
            stuck = line.terms is not None and silent_s > line.terms["lease_ms"] / 1000
        finally:
            line.lock.release()
        if stuck:
            # A process that was frozen as a whole is about to do it.
            self.poke(desk)
            emit("limit_stuck", limit=desk.limit, silent_s=round(silent_s, 1))
        else:
            self._ask(desk, line, ask, line.store.renew)

    def flush(self, timeout_s: float) -> None:
        """Return when the store has all that was given back; its own threads ask, also for the main thread."""
        gives_up_at = steady() + timeout_s
        for desk in [*self._desks.values()]:
            line = desk.main
            while True:
                with line.lock:
                    line.return_in_hand()
                    if not line.given_back:
                        break
                    line.again()
                    failure = line.failure
                if steady() >= gives_up_at:
                    raise failure or StoreUnreachable(
                        f"The store of limit {desk.limit!r} did not answer within {timeout_s:g} s.",
                        remedy="Wait longer (timeout_s), or check the store.",
                    )
                self.poke(desk)
                time.sleep(_FLUSH_LOOK_S)

    def stop(self) -> None:
        """Have the threads end, soon."""
        self._closed = True
        for thread in self._threads:
            thread.stop()
        self.returns.stop()
        self._pokes.put(None)
        self._beats.set()

    def close(self) -> None:
        """Nobody is let in any more, and the store is told what was given back; what is held counts to its end."""
        self.stop()
        for thread in self._threads:
            thread.join(1.0)
        self.returns.join(1.0)
        error = StoreClosed("The limiter was closed.", remedy="Make another one.")
        for desk in [*self._desks.values()]:
            with desk.main.lock:
                desk.main.give_up(error)
                if desk.main.unsaid:
                    desk.main.again()
            _wake_settled(desk.main)
            for _ in range(_ROUNDS):
                self._exchange_if_due(desk, desk.main)


def _wake_settled(line: Line) -> None:
    """Forget them only when they were woken: what is interrupted in between wakes them twice, which is harmless."""
    with line.lock:
        settled = line.settled
    if settled:
        wake_all(settled)
        with line.lock:
            line.woken(settled)
