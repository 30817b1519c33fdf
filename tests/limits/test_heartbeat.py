"""The heartbeat speaks for a process that does its work: not for one whose requests get stuck."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest

from forebay.limits import Limit, Limiter
from forebay.model.limit_record import Answer, Ask
from forebay.observe import subscribe
from forebay.stores.memory.limits import MemoryLimits
from tests.limits.ground import Switchable, until

SOON_S = 10.0


class Hanging(Switchable):
    """A store whose exchanges do not return while `clear` is not set; heartbeats pass."""

    def __init__(self, store: MemoryLimits) -> None:
        super().__init__(store)
        self.clear = threading.Event()
        self.clear.set()
        self.beats = 0

    def exchange(self, limit: str, ask: Ask) -> Answer:
        assert self.clear.wait(SOON_S)
        return super().exchange(limit, ask)

    def give_back(self, limit: str, ask: Ask) -> Answer:
        assert self.clear.wait(SOON_S)
        return super().give_back(limit, ask)

    def renew(self, limit: str, ask: Ask) -> Answer:
        self.beats += 1
        return super().renew(limit, ask)


@pytest.fixture
def stuck() -> Iterator[list[Mapping[str, object]]]:
    heard: list[Mapping[str, object]] = []
    stop = subscribe(lambda name, fields: heard.append(fields) if name == "limit_stuck" else None)
    yield heard
    stop()


@pytest.mark.slow
def test_slots_come_back_when_the_loop_is_stuck(stuck: list[Mapping[str, object]]) -> None:
    shared = MemoryLimits()
    store = Hanging(shared)
    with Limiter(shared) as other, Limiter(store) as limiter:
        other.define(
            Limit("api", in_flight=1, lease_s=0.6, heartbeat_s=0.1, call_timeout_s=0.01, on_disconnect="stops")
        )
        with limiter.slot("api"):
            until(lambda: store.beats > 2, SOON_S)
            assert not stuck
        # Given back just now, and the request that says so does not return.
        held = limiter.slot("api").__enter__()
        store.clear.clear()
        held.release()
        with other.slot("api", timeout_s=SOON_S):
            assert stuck, "others get the slot since the heartbeat has stopped"
        store.clear.set()
        with limiter.slot("api", timeout_s=SOON_S):
            pass
        until(lambda: other.usage("api").in_flight == 0)


def test_a_loop_that_fails_is_shown_as_degraded(monkeypatch: pytest.MonkeyPatch) -> None:
    with Limiter(Switchable()) as limiter:
        limiter.define(Limit("api", in_flight=1))
        with limiter.slot("api"):
            pass
        until(lambda: limiter.usage("api").in_flight == 0)
        monkeypatch.setattr(limiter._pump, "_serve", _fail)
        limiter._pump.poke(limiter._desks["api"])
        until(lambda: limiter.usage("api").degraded)
        monkeypatch.undo()
        until(lambda: not limiter.usage("api").degraded)


def _fail(_: object) -> None:
    raise RuntimeError
