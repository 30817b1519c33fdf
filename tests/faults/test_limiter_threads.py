"""An exception at any line of the limiter's loops: it is reported, the work goes on, and no slot stays behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pytest

from forebay.errors import Busy
from forebay.limits import Limit, Limiter
from forebay.observe import subscribe
from forebay.stores.memory.limits import MemoryLimits
from forebay.supervisor import SupervisedThread
from tests.faults.injecting import Injected, Injector, Step, sample
from tests.limits.conftest import Place, place
from tests.limits.ground import until

__all__ = ["place"]

FILES = [
    "limits/pump.py",
    "limits/line.py",
    "limits/desk.py",
    "limits/waiting.py",
    "stores/follower.py",
    "stores/redis/listener.py",
    "stores/postgres/listener.py",
    "stores/sqlite/sockets.py",
    "stores/sqlite/limit_wake.py",
]
LIMIT = "api"
SERVED_S = 10.0


@contextmanager
def failures() -> Iterator[list[Mapping[str, object]]]:
    heard: list[Mapping[str, object]] = []
    stop = subscribe(lambda name, fields: heard.append(fields) if name == "internal_thread_failed" else None)
    try:
        yield heard
    finally:
        stop()


class Scene:
    """One process that is hurt, and another one that shares the limit with it."""

    def __init__(self, place: Place, served_s: float = SERVED_S) -> None:
        self._served_s = served_s
        shared = MemoryLimits() if place.address == "memory://" else None
        self._place = place
        self._store = shared
        self.other = self._limiter()
        self.other.define(Limit(LIMIT, in_flight=1, call_timeout_s=3, lease_s=3, heartbeat_s=0.5))

    def _limiter(self) -> Limiter:
        return Limiter(self._store) if self._store is not None else self._place.limiter()

    def play(self, injector: Injector) -> None:
        """Everything that the loops do: wait, be woken, try once, time out, give back, beat."""
        with injector.on(), self._limiter() as hurt:
            self._act(hurt)
            injector.disarm()
            self._check(hurt)

    def _act(self, hurt: Limiter) -> None:
        held = self.other.slot(LIMIT, timeout_s=self._served_s).__enter__()

        async def waits(timeout_s: float) -> None:
            with suppress(Busy, Injected):
                async with hurt.slot(LIMIT, timeout_s=timeout_s):
                    hurt._pump._beats.set()
                    await asyncio.sleep(0.005)

        async def callers() -> None:
            waiting = [asyncio.ensure_future(waits(each)) for each in (1.0, 0.01, 0.0)]
            await asyncio.sleep(0.03)
            held.release()
            await asyncio.gather(*waiting)

        asyncio.run(callers())
        with suppress(Busy, Injected), hurt.slot(LIMIT, timeout_s=1.0):
            pass

    def _check(self, hurt: Limiter) -> None:
        async def later() -> None:
            async with hurt.slot(LIMIT, timeout_s=self._served_s):
                pass

        asyncio.run(later())
        with hurt.slot(LIMIT, timeout_s=self._served_s):
            pass
        with self.other.slot(LIMIT, timeout_s=self._served_s):
            pass
        until(lambda: self.other.usage(LIMIT).in_flight == 0, self._served_s)
        until(lambda: self.other.usage(LIMIT).waiting == 0, self._served_s)
        assert all(thread.is_alive for thread in hurt._pump._threads)

    def steps(self) -> list[Step]:
        seen = Injector(FILES)
        self.play(seen)
        return sorted(seen.steps)


def hurt_at(scene: Scene, step: Step) -> None:
    injector = Injector(FILES, step)
    try:
        with failures() as heard:
            scene.play(injector)
            if injector.fired.is_set():
                until(lambda: any(each["error_class"] == "Injected" for each in heard), SERVED_S)
    except BaseException as error:
        error.add_note(f"hurt at {step}")
        raise


@pytest.fixture
def scene(place: Place) -> Iterator[Scene]:
    made = Scene(place)
    with made.other:
        yield made


def test_a_fault_in_a_loop_is_reported_and_leaves_nothing_behind(scene: Scene) -> None:
    for step in sample(scene.steps(), 5):
        hurt_at(scene, step)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_fault_at_every_line_of_the_loops_leaves_nothing_behind(scene: Scene) -> None:
    """Every line in `./dev fuzz`, else every sixth or so."""
    steps = scene.steps()
    assert len(steps) > 100
    for step in steps if os.environ.get("FOREBAY_FUZZ") else sample(steps, 30):
        hurt_at(scene, step)


@pytest.mark.slow
def test_a_loop_without_supervision_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: the same fault in a thread that simply ends."""
    monkeypatch.setattr(SupervisedThread, "_run", _run_once)
    scene = Scene(Place("memory://", "control"), served_s=0.3)
    (step,) = [each for each in scene.steps() if each.function == "Pump._look_at_poked"][:1]
    with scene.other, pytest.raises((Busy, AssertionError)):
        hurt_at(scene, step)


def _run_once(thread: SupervisedThread) -> None:
    with suppress(Injected):
        thread._work()
