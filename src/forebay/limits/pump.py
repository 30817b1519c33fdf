"""Asks the stores on behalf of all callers of a process: one request at a time for each line, and heartbeats beside."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from forebay.clock import steady
from forebay.errors import NotFound, StoreClosed, StoreError
from forebay.limits import telling
from forebay.limits.desk import Desk
from forebay.limits.line import LINGER_S, Line
from forebay.limits.waiting import Waiter, wake_all
from forebay.model.limit_record import Answer, Ask, Grant

_ROUNDS = 2
_IDLE_S = 3600.0
_AWAKE_S = 0.05
_BEAT_S = 4.0


class Pump:
    """A caller that may wait asks itself, for everybody; the rest is done by a thread, and timers by it alone."""

    def __init__(self, define: Callable[[], Callable[[Desk], bool] | None]) -> None:
        self._define = define
        self._desks: dict[str, Desk] = {}
        self._lock = threading.Lock()
        self._pokes: SimpleQueue[None] = SimpleQueue()
        self._sleeps_until = math.inf
        self._threads: list[threading.Thread] = []
        self._beats = threading.Event()
        self._closed = False

    def add(self, desk: Desk) -> None:
        with self._lock:
            self._desks[desk.limit] = desk
            if not self._threads:
                for work, name in ((self._run, "forebay-limits"), (self._beat, "forebay-limits-beat")):
                    thread = threading.Thread(target=work, name=name, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def poke(self) -> None:
        """Have the thread look at once."""
        self._pokes.put(None)

    def poke_by(self, due_at: float) -> None:
        if self._sleeps_until > due_at:
            self.poke()

    def drive(self, desk: Desk, waiter: Waiter | None = None) -> None:
        """Ask now, on the caller's thread, unless somebody does already; they then do it for us.

        A caller that has its answer does not wait for what is left to tell the store.
        """
        line = desk.line
        due_at = None
        for _ in range(_ROUNDS):
            due_at = self._exchange_if_due(desk, line)
            if due_at is None or due_at > steady() or (waiter is not None and waiter.done):
                break
        if due_at is not None:
            self.poke_by(due_at)

    def _exchange_if_due(self, desk: Desk, line: Line) -> float | None:
        """When it is time for another one after this; None when it is not, or whoever asks already will see to it."""
        me = object()
        try:
            with line.lock:
                if line.busy:
                    return None
                now = steady()
                due_at = line.due_at(now)
                if due_at is None or due_at > now:
                    return due_at
                line.busy = me
                ask = line.ask(now)
            self._ask(desk, line, ask, line.store.exchange)
        finally:
            # However this ended: others must be able to go on.
            if line.busy is me:
                line.busy = None
        with line.lock:
            return line.due_at(steady())

    def _ask(self, desk: Desk, line: Line, ask: Ask, verb: Callable[[str, Ask], Answer]) -> None:
        asked_at = steady()
        try:
            answer = verb(line.limit, ask)
            if answer["status"] == "unknown":
                self._unknown(desk, line)
                return
        except StoreError as error:
            wake_all(desk.missed(error, asked_at))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait shall hear of it
            with line.lock:
                woken = line.give_up(error)
            wake_all(woken)
            return
        with line.lock:
            before = line.wait
            woken = line.take(ask, answer, asked_at, steady())
            wait = line.wait
        wake_all(woken)
        if answer["terms"]:
            self._beats.set()  # it may have to beat faster
        if wait is not None and (before is None or before["by"] != wait["by"]):
            telling.blocked(desk, wait)
        if line is desk.main:
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
                woken = line.give_up(error)
            wake_all(woken)
        else:
            with line.lock:
                line.again()

    def heard(self, limit: str, grants: list[Grant], now: int) -> None:  # noqa: ARG002 - a store's wake-up
        """Something was granted to this process by another's request; without grants it has to be asked for."""
        desk = self._desks.get(limit)
        if desk is None:
            return
        line = desk.main
        with line.lock:
            woken = line.granted(grants, steady())
            if not grants:
                line.again()
            due_at = line.due_at(steady())
        wake_all(woken)
        if not grants or due_at is not None:
            self.poke_by(steady() + LINGER_S)

    def _run(self) -> None:
        awake_until = 0.0
        while not self._closed:
            # Until we know better: whoever has something for us while we look around wakes us once more.
            self._sleeps_until = math.inf
            now = steady()
            next_at = now + _IDLE_S
            crowded = True
            for desk in [*self._desks.values()]:
                for line in desk.lines:
                    self._exchange_if_due(desk, line)
                    with line.lock:
                        due_at = None if line.busy else line.due_at(now)
                        crowded = crowded and line.crowded
                    if due_at is not None:
                        next_at = min(next_at, due_at)
            now = steady()
            if now < awake_until and not crowded:
                # Whoever gives something back soon need not wake us for it; where others wait, they do it anyway.
                next_at = min(next_at, now + LINGER_S)
            self._sleeps_until = next_at
            try:
                self._pokes.get(timeout=max(0.0, next_at - now))
                # Much is going on: for a while we look around by ourselves.
                awake_until = steady() + _AWAKE_S
                while True:
                    self._pokes.get_nowait()
            except Empty:
                continue

    def _beat(self) -> None:
        while not self._closed:
            pause_s = _BEAT_S
            for desk in [*self._desks.values()]:
                line = desk.main
                if line.terms is not None:
                    pause_s = min(pause_s, line.terms["beat"] / 1000)
                if line.active or desk.degraded:
                    with line.lock:
                        ask = line.beat(steady())
                    self._ask(desk, line, ask, line.store.renew)
            self._beats.wait(pause_s)
            self._beats.clear()

    def stop(self) -> None:
        """Have the threads end, soon."""
        self._closed = True
        self.poke()
        self._beats.set()

    def close(self) -> None:
        """Nobody is let in any more, and the store is told what was given back; what is held counts to its end."""
        self.stop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(1.0)
        error = StoreClosed("The limiter was closed.", remedy="Make another one.")
        for desk in self._desks.values():
            with desk.main.lock:
                woken = desk.main.give_up(error)
                desk.main.again()
            wake_all(woken)
            for _ in range(_ROUNDS):
                self._exchange_if_due(desk, desk.main)
