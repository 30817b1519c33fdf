"""What a limit does is told by events, with the fields that the table promises."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay.errors import Busy, StoreUnreachable
from forebay.limits import Limit, Limiter, Slot, Window, telling
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


def take(limiter: Limiter, timeout_s: float = 5) -> Slot:
    """In a thread of its own, as each call of a program is."""
    with ThreadPoolExecutor(1) as caller:
        return caller.submit(limiter.slot("adobe", timeout_s=timeout_s).__enter__).result()


def test_a_release_has_its_slots_id_and_the_count_without_it(limiter: Limiter, heard: Heard) -> None:
    slots = [take(limiter), take(limiter)]
    ids = [fields["slot_id"] for name, fields in heard if name == "slot_acquired"]
    assert len({*ids}) == 2
    counts = [fields["in_flight"] for name, fields in heard if name == "slot_acquired"]
    assert counts == ["1/2", "2/2"]
    for slot in slots:
        slot.release()
    released = [fields for name, fields in heard if name == "slot_released"]
    assert [fields["slot_id"] for fields in released] == ids
    assert [fields["in_flight"] for fields in released] == ["1/2", "0/2"]


def test_a_wait_that_times_out_is_told_and_one_try_is_not(limiter: Limiter, heard: Heard) -> None:
    slots = [take(limiter), take(limiter)]
    refuse(limiter)
    assert "slot_wait_timed_out" not in [name for name, _ in heard]
    with pytest.raises(Busy):
        take(limiter, 0.05)
    told = heard.fields("slot_wait_timed_out")
    assert (told["wait_s"], told["blocked_by"], told["in_flight"]) == (0.05, ("in_flight",), "2/2")
    for slot in slots:
        slot.release()


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        ("cooldown", "limit_cooling_down"),
        ("quota", "limit_parked"),
        ("paused", "limit_paused"),
        ("breaker", "limit_breaker_open"),
    ],
)
def test_a_closed_limit_is_told_by_its_own_name_and_not_as_full(
    limiter: Limiter, heard: Heard, reason: str, event: str
) -> None:
    limiter.configure("adobe", breaker_after=1)
    slot = take(limiter)
    if reason == "cooldown":
        slot.throttled(retry_after_s=60)
    elif reason == "quota":
        slot.quota_exhausted(retry_in_s=600)
    elif reason == "breaker":
        slot.failed()
    slot.release()
    if reason == "paused":
        limiter.pause("adobe")
    until(lambda: limiter.usage("adobe").blocked_by)
    waits = [threading.Thread(target=lambda: limiter.try_slot("adobe")) for _ in range(5)]
    for thread in waits:
        thread.start()
    for thread in waits:
        thread.join()
    told = heard.fields(event)
    assert told["attempt"] == 1
    assert told["suppressed"] == 0
    assert "at_in_flight_capacity" not in [name for name, _ in heard]


def test_who_waits_for_a_window_behind_others_is_not_told_that_the_limit_is_full(
    limiter: Limiter, heard: Heard
) -> None:
    limiter.configure("adobe", windows=[Window(1, 60)])
    take(limiter).release()
    waits = [threading.Thread(target=lambda: _gives_up(limiter)) for _ in range(4)]
    for thread in waits:
        thread.start()
    for thread in waits:
        thread.join()
    names = [name for name, _ in heard]
    assert "rate_limit_reached" in names
    assert "at_in_flight_capacity" not in names


def _gives_up(limiter: Limiter) -> None:
    with pytest.raises(Busy):
        limiter.slot("adobe", timeout_s=0.2).__enter__()


def test_what_is_told_again_and_again_is_told_once_in_a_while_and_counted(
    limiter: Limiter, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = [take(limiter), take(limiter)]
    for _ in range(4):
        refuse(limiter)
    told = [fields for name, fields in heard if name == "at_in_flight_capacity"]
    assert [fields["suppressed"] for fields in told] == [0]
    monkeypatch.setattr(telling, "QUIET_S", 0.0)
    refuse(limiter)
    assert heard.fields("at_in_flight_capacity")["suppressed"] == 3
    attempt = heard.fields("at_in_flight_capacity")["attempt"]
    assert isinstance(attempt, int)
    assert attempt >= 5
    for slot in slots:
        slot.release()


def test_a_429_is_told_with_its_code_and_hint(limiter: Limiter, heard: Heard) -> None:
    with limiter.slot("adobe") as slot:
        slot.throttled(retry_after_s=12)
    told = heard.fields("rate_limited_retrying")
    assert (told["code"], told["wait_s"]) == (429, 12)
    assert (told["task_id"], told["error"]) == (None, "")


def test_a_refusal_is_told_with_its_status_and_text(limiter: Limiter, heard: Heard) -> None:
    with limiter.slot("adobe") as slot:
        slot.context = {"task_id": "t1", "kind": "call", "job_id": None}
        slot.answered(503, {"retry-after": "3"})
    told = heard.fields("rate_limited_retrying")
    assert (told["code"], told["wait_s"], told["error"]) == (503, 3, "the provider answered 503")
    assert (told["task_id"], told["kind"], told["job_id"]) == ("t1", "call", None)


def test_no_secret_of_an_error_is_told(limiter: Limiter, heard: Heard) -> None:
    class RateLimitError(Exception):
        status_code = 429

    with pytest.raises(RateLimitError), limiter.slot("adobe"):
        raise RateLimitError("for https://user:hunter2@api.test/v1?key=abc\nBearer abcdefghijklmnopqrstuvwxyz")
    told = str(heard.fields("rate_limited_retrying")["error"])
    assert told.startswith("RateLimitError: ")
    assert "hunter2" not in told
    assert "\n" not in told


def test_a_429_without_a_hint_is_told_with_the_limits_own_step_once_for_those_under_way_together(
    limiter: Limiter, heard: Heard
) -> None:
    with limiter.slot("adobe") as slot, limiter.slot("adobe").take() as other:
        slot.throttled()
        assert heard.fields("rate_limited_retrying")["wait_s"] == 2
        other.throttled()
    assert heard.fields("rate_limited_retrying")["wait_s"] is None


def test_a_used_up_quota_is_told_with_its_end(limiter: Limiter, heard: Heard) -> None:
    with limiter.slot("adobe") as slot:
        slot.quota_exhausted(retry_in_s=3600)
    assert heard.fields("quota_exhausted")["retry_in_s"] == 3600


def test_a_full_limit_is_told_with_who_is_ahead(limiter: Limiter, heard: Heard) -> None:
    with limiter.slot("adobe"):  # one call has ended: its time is known
        threading.Event().wait(0.02)
    with limiter.slot("adobe"), limiter.slot("adobe").take():
        refuse(limiter)
        told = heard.fields("at_in_flight_capacity")
    assert (told["ahead"], isinstance(told["wait_s"], float)) == (0, True)


def test_a_full_limit_does_not_tell_a_wait_that_nobody_knows(limiter: Limiter, heard: Heard) -> None:
    with limiter.slot("adobe"), limiter.slot("adobe").take():
        with pytest.raises(Busy) as refused:
            limiter.slot("adobe", timeout_s=0).__enter__()
        told = heard.fields("at_in_flight_capacity")
    assert (refused.value.eta_s, told["wait_s"]) == (None, None)
    assert "Try again in 1.0 s" in str(refused.value)


def test_a_full_window_is_told_with_what_it_allows(limiter: Limiter, heard: Heard) -> None:
    limiter.configure("adobe", windows=[Window(1, 60)])
    with limiter.slot("adobe"):
        pass
    refuse(limiter)
    told = heard.fields("rate_limit_reached")
    assert told["window"] == "1 calls per 60 s"
    assert isinstance(told["wait_s"], float)
    assert 0 < told["wait_s"] <= 60.5


def test_another_program_that_defines_other_numbers_is_told_with_both(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Limiter(Store()) as made:
        monkeypatch.setattr(sys, "argv", ["/srv/web.py"])
        monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
        made.define(Limit("adobe", in_flight=5))
        made.define(Limit("adobe", in_flight=6))
        assert "limit_redefined" not in [name for name, _ in heard], "a program may change its mind"
        monkeypatch.setattr(sys, "argv", ["/srv/batch.py"])
        made.define(Limit("adobe", in_flight=6))
        assert "limit_redefined" not in [name for name, _ in heard], "these are the same numbers"
        made.define(Limit("adobe", in_flight=50))
        told = heard.fields("limit_redefined")
        assert str(told["who"]).endswith(":batch.py")
        assert str(told["former_who"]).endswith(":web.py")
        assert (told["values"], told["former"]) == ({"in_flight": 50}, {"in_flight": 6})
        (layer,) = made.usage("adobe").layers
        assert layer.who == told["who"]
        assert made.usage("adobe").limit.in_flight == 50


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
