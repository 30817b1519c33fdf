"""What a limit does is told by events, with the fields that the table promises."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest

from forebay.errors import Busy, StoreUnreachable
from forebay.limits import Limit, Limiter, Window
from forebay.model.limit_record import Answer, Ask
from forebay.observe import subscribe
from forebay.observe.events import EVENTS
from forebay.stores.memory.limits import MemoryLimits
from tests.limits.ground import until


class Heard(list[tuple[str, Mapping[str, object]]]):
    """Events of limits, in their order."""

    def __call__(self, name: str, fields: Mapping[str, object]) -> None:
        if "limit" in fields:
            self.append((name, fields))

    def fields(self, name: str) -> Mapping[str, object]:
        found = [fields for each, fields in self if each == name]
        assert found, f"{name} is not among {[each for each, _ in self]}"
        assert set(found[-1]) == set(EVENTS[name].fields)
        assert found[-1]["limit"] == "adobe"
        return found[-1]


class Store(MemoryLimits):
    """One that can be gone."""

    gone = False

    def exchange(self, limit: str, ask: Ask) -> Answer:
        if self.gone:
            raise StoreUnreachable("It is gone.")
        return super().exchange(limit, ask)

    renew = exchange


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    end = subscribe(heard)
    yield heard
    end()


@pytest.fixture
def limiter() -> Iterator[Limiter]:
    with Limiter(Store()) as made:
        made.define(Limit("adobe", in_flight=2, windows=(Window(100, 60),)))
        yield made


def test_a_slot_is_acquired_and_released(limiter: Limiter, heard: Heard) -> None:
    with limiter.slot("adobe"):
        acquired = heard.fields("slot_acquired")
    assert isinstance(acquired["wait_s"], float)
    assert acquired["wait_s"] < 5
    assert (acquired["in_flight"], acquired["windows"]) == ("1/2", ("1/100 calls per 60 s",))
    assert acquired["attempt"] == 1
    assert heard.fields("slot_released")["windows"] == ("1/100 calls per 60 s",)


def test_a_429_is_told_with_its_code_and_hint(limiter: Limiter, heard: Heard) -> None:
    with limiter.slot("adobe") as slot:
        slot.throttled(retry_after_s=12)
    told = heard.fields("rate_limited_retrying")
    assert (told["code"], told["wait_s"]) == (429, 12)


def test_a_429_without_a_hint_is_told_with_the_limits_own_step_once_for_those_under_way_together(
    limiter: Limiter, heard: Heard
) -> None:
    with limiter.slot("adobe") as slot, limiter.slot("adobe") as other:
        slot.throttled()
        assert heard.fields("rate_limited_retrying")["wait_s"] == 2
        other.throttled()
    assert heard.fields("rate_limited_retrying")["wait_s"] is None


def test_a_used_up_quota_is_told_with_its_end(limiter: Limiter, heard: Heard) -> None:
    with limiter.slot("adobe") as slot:
        slot.quota_exhausted(retry_in_s=3600)
    assert heard.fields("quota_exhausted")["retry_in_s"] == 3600


def test_a_full_limit_is_told_with_who_is_ahead(limiter: Limiter, heard: Heard) -> None:
    with limiter.slot("adobe"), limiter.slot("adobe"):
        refuse(limiter)
        told = heard.fields("at_in_flight_capacity")
    assert (told["ahead"], isinstance(told["wait_s"], float)) == (0, True)


def test_a_full_window_is_told_with_what_it_allows(limiter: Limiter, heard: Heard) -> None:
    limiter.configure("adobe", windows=[Window(1, 60)])
    with limiter.slot("adobe"):
        pass
    refuse(limiter)
    told = heard.fields("rate_limit_reached")
    assert told["window"] == "1 calls per 60 s"
    assert isinstance(told["wait_s"], float)
    assert 0 < told["wait_s"] <= 60.5


def refuse(limiter: Limiter) -> None:
    with pytest.raises(Busy):
        limiter.slot("adobe", timeout_s=0).__enter__()


def test_a_slot_that_is_used_late_is_told_with_its_age(limiter: Limiter, heard: Heard) -> None:
    limiter.configure("adobe", start_within_s=0.01)
    with limiter.slot("adobe") as slot:
        threading.Event().wait(0.05)
        slot.start()
    age_s = heard.fields("late_start")["age_s"]
    assert isinstance(age_s, float)
    assert age_s >= 0.01


def _refused(limiter: Limiter) -> bool:
    return limiter._desk("adobe").refusal() is not None


def test_a_store_that_is_gone_and_comes_back_is_told_once_each(limiter: Limiter, heard: Heard) -> None:
    limiter.configure("adobe", when_store_down="fail")
    with limiter.slot("adobe"):
        pass
    limiter._store.gone = True  # type: ignore[attr-defined]
    for _ in range(3):
        with pytest.raises(StoreUnreachable):
            limiter.slot("adobe", timeout_s=1).__enter__()
    told = heard.fields("limit_degraded")
    assert (told["policy"], told["error_code"]) == ("fail", "store_unreachable")
    limiter._store.gone = False  # type: ignore[attr-defined]
    until(lambda: limiter.try_slot("adobe") if not _refused(limiter) else None)
    heard.fields("limit_healed")
    names = [name for name, _ in heard]
    assert (names.count("limit_degraded"), names.count("limit_healed")) == (1, 1)
