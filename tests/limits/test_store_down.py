"""What a limit does while its store is gone: nothing held is lost, its policy decides the rest, and it heals."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from forebay import observe
from forebay.errors import Busy, StoreUnreachable
from forebay.limits import Limit, Limiter, Window
from forebay.model.limit_record import Answer, Ask
from tests.limits.ground import Switchable, until


@pytest.fixture
def store() -> Switchable:
    return Switchable()


@pytest.fixture
def limiter(store: Switchable) -> Iterator[Limiter]:
    with Limiter(store) as made:
        yield made


@pytest.fixture
def told() -> Iterator[list[str]]:
    events: list[str] = []
    stop = observe.subscribe(lambda name, _: events.append(name))
    yield events
    stop()


def used(limiter: Limiter, name: str) -> int:
    return limiter.usage(name).in_flight


def test_a_store_that_never_answered_is_an_error_at_once(store: Switchable, limiter: Limiter) -> None:
    limiter.define(Limit("wait", in_flight=1))
    store.down = True
    with pytest.raises(StoreUnreachable), limiter.slot("wait"):
        pass
    with pytest.raises(StoreUnreachable):
        limiter.define(Limit("more", in_flight=1))


def test_waiting_goes_on_until_the_store_is_back(store: Switchable, limiter: Limiter, told: list[str]) -> None:
    limiter.define(Limit("wait", in_flight=1))
    with limiter.slot("wait"):
        pass
    store.down = True
    with pytest.raises(Busy) as refused, limiter.slot("wait", timeout_s=0.1):
        pass
    assert refused.value.blocked_by == ("store",)
    entered = threading.Event()

    def work() -> None:
        with limiter.slot("wait"):
            entered.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert not entered.wait(0.1)
    store.down = False
    assert entered.wait(30)
    thread.join()
    until(lambda: used(limiter, "wait") == 0)
    assert told.count("limit_degraded") == told.count("limit_healed") == 1


def test_a_thread_is_served_soon_after_its_one_request_failed(store: Switchable, limiter: Limiter) -> None:
    """It asks by itself, and only once: the next time is for the limiter's own thread to know."""
    limiter.define(Limit("wait", in_flight=1))
    entered, failing = threading.Event(), threading.Event()

    def work() -> None:
        with limiter.slot("wait"):
            pass
        time.sleep(0.2)  # the limiter's thread has nothing more to do
        failing.set()
        with limiter.slot("wait"):
            entered.set()

    exchange = store.exchange

    def once(limit: str, ask: Ask) -> Answer:
        if failing.is_set():
            failing.clear()
            raise StoreUnreachable("It is switched off.")
        return exchange(limit, ask)

    store.exchange = once  # type: ignore[method-assign]
    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(30)
    assert not failing.is_set()
    thread.join()


def test_what_was_given_back_meanwhile_is_told_later(store: Switchable, limiter: Limiter) -> None:
    limiter.define(Limit("wait", in_flight=1))
    with limiter.slot("wait"):
        store.down = True
    time.sleep(0.05)
    assert used(limiter, "wait") == 1
    store.down = False
    until(lambda: used(limiter, "wait") == 0)


@pytest.mark.slow
def test_a_lost_answer_costs_no_slot(store: Switchable, limiter: Limiter) -> None:
    limiter.define(Limit("two", in_flight=2, windows=[Window(100, per_s=60)]))
    with limiter.slot("two"):
        pass
    for turn in range(10):
        store.lost = 1 + turn % 3
        with limiter.slot("two"):
            assert used(limiter, "two") <= 2
    until(lambda: used(limiter, "two") == 0)
    assert limiter.usage("two").windows[0].used == 11


def test_the_policy_fail_says_so_at_once(store: Switchable, limiter: Limiter) -> None:
    limiter.define(Limit("strict", in_flight=1, when_store_down="fail"))
    with limiter.slot("strict"):
        pass
    store.down = True
    began_at = time.monotonic()
    with pytest.raises(StoreUnreachable), limiter.slot("strict"):
        pass
    assert time.monotonic() - began_at < 20  # a slot is waited for up to 30 s


@pytest.mark.slow
def test_the_policy_share_gives_each_process_its_part_after_the_silence(store: Switchable) -> None:
    limit = Limit("shared", in_flight=5, when_store_down="share", lease_s=0.3, heartbeat_s=0.1, call_timeout_s=0.3)
    with Limiter(store) as one, Limiter(store) as other:
        one.define(limit)
        for limiter in (one, other):
            with limiter.slot("shared"):
                pass
        with one.slot("shared"):
            pass
        store.down = True
        began_at = time.monotonic()
        with one.slot("shared"):
            assert time.monotonic() - began_at > 0.2, "not before what others hold is over"
            with one.slot("shared").take(), pytest.raises(Busy), one.slot("shared", timeout_s=0):
                raise AssertionError("5 // 2 sessions is 2 each")
        store.down = False
        until(lambda: one.usage("shared").degraded is False)
        with one.slot("shared"), one.slot("shared").take(), one.slot("shared").take():
            pass


def test_a_session_is_kept_alive_while_something_is_held(store: Switchable, limiter: Limiter) -> None:
    limiter.define(Limit("short", in_flight=1, lease_s=0.3, heartbeat_s=0.1, call_timeout_s=0.01))
    with limiter.slot("short"):
        time.sleep(0.6)
        assert used(limiter, "short") == 1
    until(lambda: used(limiter, "short") == 0)


def test_a_process_that_says_nothing_loses_what_it_holds(store: Switchable, limiter: Limiter) -> None:
    limiter.define(Limit("short", in_flight=1, lease_s=0.3, heartbeat_s=0.1, call_timeout_s=0.01, start_within_s=0.01))
    with limiter.slot("short") as slot:
        store.down = True
        with Limiter(Switchable(store.store)) as other, other.slot("short", timeout_s=10):
            assert slot.held
            store.down = False
            until(lambda: store.asked > 20 or not limiter._desks["short"].degraded)
            assert used(other, "short") == 1
    until(lambda: used(limiter, "short") == 0)
