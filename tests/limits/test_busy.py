"""What a caller is told who got no slot: why, behind how many, and for how long to sleep."""

from __future__ import annotations

import threading

import pytest

from forebay.errors import Busy
from forebay.limits import Limit, Limiter, Window
from forebay.stores.memory.limits import MemoryLimits
from tests.limits.ground import until
from tests.limits.test_heartbeat import Hanging

SOON_S = 10.0


def refused(limiter: Limiter, timeout_s: float = 0) -> Busy:
    with pytest.raises(Busy) as raised, limiter.slot("api", timeout_s=timeout_s):
        raise AssertionError("it was let in")
    return raised.value


def hold(limiter: Limiter) -> threading.Event:
    """By a thread, until the event is set."""
    held, end = threading.Event(), threading.Event()

    def work() -> None:
        with limiter.slot("api", timeout_s=SOON_S):
            held.set()
            end.wait(SOON_S)

    threading.Thread(target=work, daemon=True).start()
    assert held.wait(SOON_S)
    return end


def test_the_time_to_sleep_is_when_a_slot_is_expected() -> None:
    with Limiter("memory://") as limiter:
        limiter.define(Limit("api", in_flight=1))
        with limiter.slot("api"):
            pass
        until(lambda: limiter.usage("api").mean_call_s >= 0 and limiter.usage("api").in_flight == 0)
        limiter._store.change("api", lambda record, _: record | {"mean_call_ms": 300})  # type: ignore[operator]
        end = hold(limiter)
        busy = refused(limiter)
        end.set()
    assert busy.eta_s == 0.3
    assert busy.retry_in_s == 0.3, "not when those who wait in line look again, 5 s"


def test_nobody_knows_how_long_calls_take_before_one_has_ended() -> None:
    with Limiter("memory://") as limiter:
        limiter.define(Limit("api", in_flight=1, call_timeout_s=60))
        end = hold(limiter)
        busy = refused(limiter)
        end.set()
    assert busy.eta_s is None
    assert busy.retry_in_s == 1.0, "not the longest that a call may take, 60 s"
    assert busy.blocked_by == ("in_flight",)


def test_a_full_window_says_when_it_opens() -> None:
    with Limiter("memory://") as limiter:
        limiter.define(Limit("api", windows=[Window(1, per_s=20)]))
        with limiter.slot("api"):
            pass
        busy = refused(limiter)
    assert busy.eta_s is not None
    assert 15 < busy.eta_s < 21
    assert busy.retry_in_s == busy.eta_s


@pytest.mark.parametrize("timeout_s", [0.05, 0.2])
def test_a_store_that_has_not_answered_is_a_reason(timeout_s: float) -> None:
    shared = MemoryLimits()
    store = Hanging(shared)
    with Limiter(store) as limiter:
        limiter.define(Limit("api", in_flight=1))
        store.clear.clear()
        busy = refused(limiter, timeout_s)
        store.clear.set()
    assert busy.blocked_by == ("store",)
    assert "has not answered" in str(busy)
    assert busy.eta_s is None
    assert busy.retry_in_s == 1.0
