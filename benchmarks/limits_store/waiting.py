"""What an exchange costs while N sessions wait in one line: joining it, a heartbeat, and one slot that goes round."""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from benchmarks.limits_fleet.grounds import Ground
from benchmarks.limits_store.drivers import COUNT, Drivers
from benchmarks.limits_store.sessions import ENVIRONMENT, LIMIT, Session, sids
from forebay.limits import Limit, Limiter
from forebay.model.limit_record import Grant
from forebay.stores.limit_address import open_limits
from forebay.stores.limit_base import LimitStore, Wake

_LEASE_S = 3600.0  # nobody beats but those that are measured
_SILENT_S = 1.0
_BEAT_PAUSE_S = 0.002  # so that the two drivers seldom wait for each other


@dataclass(frozen=True, slots=True)
class Timed:
    """Wall time of each exchange; where a server tells it, its own time for one, and its processor time."""

    walls_s: list[float]
    server_us: float | None
    cpu_us: float | None


@dataclass(frozen=True, slots=True)
class Costs:
    joined_s: float
    heartbeat: Timed
    handover: Timed


def measure(ground: Ground, count: int, seconds: float) -> Costs:
    """Each kind of exchange is made for `seconds`; heartbeats by both drivers at once."""
    with ground.place() as address:
        with Limiter(address, environment=ENVIRONMENT) as limiter:
            limiter.define(Limit(LIMIT, in_flight=1, lease_s=_LEASE_S, call_timeout_s=_LEASE_S))
        numbers = [count // COUNT + (driver < count % COUNT) for driver in range(COUNT)]
        with Drivers(lambda driver, line: _drive(address, driver, numbers[driver], line)) as drivers:
            drivers.hear()
            began_at = time.monotonic()
            drivers.ask("join")
            joined_s = time.monotonic() - began_at

            watch = ground.watch()
            try:

                def timed(order: str) -> Timed:
                    watch.restart()
                    found = drivers.ask(order, seconds)
                    read = watch.read()
                    cpu_us = 1e6 * read.cpu_s / read.scripts if read.scripts else None
                    return Timed([each for some in found for each in some], read.server_us, cpu_us)

                return Costs(joined_s, timed("beat"), timed("rotate"))
            finally:
                watch.close()


def _drive(address: str, driver: int, count: int, line: Connection) -> None:
    store = open_limits(address, ENVIRONMENT)
    Driver(store, [Session(store, sid) for sid in sids(driver, count)]).obey(line)


class Driver:
    def __init__(self, store: LimitStore, sessions: list[Session]) -> None:
        self._sessions = {session.sid: session for session in sessions}
        self._woken: queue.SimpleQueue[tuple[str, list[Grant]]] = queue.SimpleQueue()
        for sid in self._sessions:
            store.listen(sid, self._wake(sid))

    def _wake(self, sid: str) -> Wake:
        def wake(limit: str, grants: list[Grant], now: int) -> None:  # noqa: ARG001 - of the contract
            self._woken.put((sid, grants))

        return wake

    def obey(self, line: Connection) -> None:
        obeys: dict[str, Callable[..., list[float]]] = {"join": self._join, "beat": self._beat, "rotate": self._rotate}
        line.send("ready")
        while True:
            order, *seconds = line.recv()
            line.send(obeys[order](*seconds))

    def _join(self) -> list[float]:
        for session in self._sessions.values():
            session.goes_round()
        return []

    def _beat(self, seconds: float) -> list[float]:
        walls_s: list[float] = []
        ends_at = time.monotonic() + seconds
        sessions = [*self._sessions.values()]
        while sessions and time.monotonic() < ends_at:
            session = random.choice(sessions)
            began_at = time.monotonic()
            session.beats()
            walls_s.append(time.monotonic() - began_at)
            time.sleep(_BEAT_PAUSE_S)
        return walls_s

    def _rotate(self, seconds: float) -> list[float]:
        """Whoever has the slot gives it back and joins the line; who is next is woken, here or in the other driver.

        Each exchange so gives back, grants and joins, and there is one at a time in all the world.
        """
        walls_s: list[float] = []
        ends_at = time.monotonic() + seconds
        ready = [session for session in self._sessions.values() if session.calls]
        while time.monotonic() < ends_at:
            session = ready.pop() if ready else self._next_woken(ends_at)
            if session is None:
                continue
            began_at = time.monotonic()
            session.goes_round()
            walls_s.append(time.monotonic() - began_at)
            if session.calls:
                ready.append(session)
        return walls_s

    def _next_woken(self, ends_at: float) -> Session | None:
        wait_s = min(_SILENT_S, max(0.0, ends_at - time.monotonic()))
        try:
            sid, grants = self._woken.get(timeout=wait_s)
        except queue.Empty:
            return None
        session = self._sessions[sid]
        session.hears(grants)
        if not session.calls:
            session.beats()  # what was too long to be told
        return session if session.calls else None
