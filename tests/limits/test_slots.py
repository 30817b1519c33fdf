"""Slots as callers meet them: taken and given back from threads and event loops, in order, leaving no trace."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial

import pytest

from forebay.errors import BadInput, Busy, Conflict, NeverFits, NotFound, StoreClosed
from forebay.limits import Limit, Limiter, Slot, Window
from forebay.stores.memory.limits import MemoryLimits
from tests.limits.ground import Switchable, until

_ASLEEP_S = 0.2
"""By then the limiter's thread has done what was left to do, and sleeps."""


@pytest.fixture(params=["instant", "through threads"])
def limiter(request: pytest.FixtureRequest) -> Iterator[Limiter]:
    """In memory, also as a store that an event loop may not call itself."""
    with Limiter("memory://" if request.param == "instant" else Switchable()) as made:
        made.define(Limit("two", in_flight=2, call_timeout_s=5))
        yield made


def test_a_slot_is_held_inside_the_block_only(limiter: Limiter) -> None:
    with limiter.slot("two") as slot:
        assert slot.held
        assert limiter.usage("two").in_flight == 1
    assert not slot.held
    until(lambda: limiter.usage("two").in_flight == 0)


def test_an_async_slot_is_the_same(limiter: Limiter) -> None:
    async def work() -> None:
        async with limiter.slot("two") as slot:
            assert slot.held
            assert (await limiter.ausage("two")).in_flight == 1

    asyncio.run(work())
    until(lambda: limiter.usage("two").in_flight == 0)


def test_one_too_many_is_told_why_and_who_is_ahead(limiter: Limiter) -> None:
    with limiter.slot("two"), limiter.slot("two").take():
        with pytest.raises(Busy) as refused, limiter.slot("two", timeout_s=0):
            raise AssertionError("a third was let in")
        assert refused.value.blocked_by == ("in_flight",)
        assert refused.value.position == 0
        assert limiter.try_slot("two") is None
    until(lambda: limiter.usage("two").waiting == 0)
    slot = limiter.try_slot("two")
    assert slot is not None
    slot.release()
    slot.release()
    until(lambda: limiter.usage("two").in_flight == 0)


def test_trying_once_asks_the_store_also_from_a_loop(limiter: Limiter) -> None:
    async def work() -> None:
        async with limiter.slot("two", timeout_s=0), limiter.slot("two", timeout_s=0):
            with pytest.raises(Busy):
                async with limiter.slot("two", timeout_s=0):
                    pass

    asyncio.run(work())


def test_busy_survives_pickling() -> None:
    busy = Busy("No.", remedy="Wait.", limit="two", eta_s=1.5, position=3, blocked_by=("in_flight",))
    again = pickle.loads(pickle.dumps(busy))
    assert (again.what, again.remedy, again.eta_s, again.position) == ("No.", "Wait.", 1.5, 3)
    assert again.blocked_by == ("in_flight",)


def test_who_waits_is_let_in_when_another_leaves(limiter: Limiter) -> None:
    first, second = limiter.slot("two").take(), limiter.slot("two").take()
    entered = threading.Event()

    def third() -> None:
        with limiter.slot("two"):
            entered.set()

    thread = threading.Thread(target=third)
    thread.start()
    assert not entered.wait(0.05)
    first.release()
    assert entered.wait(30)
    thread.join()
    second.release()


def waits(limiter: Limiter, count: int) -> bool:
    return limiter.usage("one").waiting == count


def test_callers_of_threads_and_loops_are_served_in_order(limiter: Limiter) -> None:
    limiter.define(Limit("one", in_flight=1))
    order: list[int] = []
    gate = limiter.slot("one").__enter__()

    def by_thread(number: int) -> None:
        with limiter.slot("one"):
            order.append(number)

    def by_loop(number: int) -> None:
        async def work() -> None:
            async with limiter.slot("one"):
                order.append(number)

        asyncio.run(work())

    threads = []
    for number in range(6):
        thread = threading.Thread(target=(by_thread, by_loop)[number % 2], args=(number,))
        thread.start()
        threads.append(thread)
        until(partial(waits, limiter, number + 1))
    gate.release()
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 2, 3, 4, 5]


def test_many_threads_never_exceed_the_limit(limiter: Limiter) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with limiter.slot("two"):
                with lock:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.0005)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert most == 2


def test_a_caller_whose_time_is_over_leaves_no_trace(limiter: Limiter) -> None:
    with limiter.slot("two"), limiter.slot("two").take():
        with pytest.raises(Busy):
            limiter.slot("two", timeout_s=0.02).take()
        until(lambda: limiter.usage("two").waiting == 0)
    until(lambda: limiter.usage("two").in_flight == 0)


def test_a_cancelled_task_leaves_no_trace_whenever_it_is_cancelled(limiter: Limiter) -> None:
    limiter.define(Limit("two", in_flight=2, on_disconnect="stops"))

    async def work() -> None:
        async def hold() -> None:
            async with limiter.slot("two"):
                await asyncio.sleep(0.001)

        for turn in range(60):
            tasks = [asyncio.create_task(hold()) for _ in range(4)]
            await asyncio.sleep(turn * 0.0001)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(work())
    until(lambda: limiter.usage("two").waiting == 0)
    until(lambda: limiter.usage("two").in_flight == 0)


def test_a_slot_can_be_used_once(limiter: Limiter) -> None:
    slot = limiter.slot("two")
    with pytest.raises(Conflict):
        slot.start()
    with slot:
        pass
    with pytest.raises(Conflict), slot:
        pass
    with pytest.raises(Conflict):
        slot.throttled(1)


def test_what_can_never_be_granted_is_refused_at_once(limiter: Limiter) -> None:
    limiter.define(Limit("pages", windows=[Window(100, per_s=60, unit="pages")]))
    with limiter.slot("pages", units={"pages": 1}):
        pass
    with pytest.raises(NeverFits, match="100 pages per 60 s"), limiter.slot("pages", units={"pages": 101}):
        pass
    with pytest.raises(NeverFits, match="tokens"), limiter.slot("pages", units={"tokens": 1}):
        pass


def test_the_first_call_that_never_fits_is_refused_too(limiter: Limiter) -> None:
    limiter.define(Limit("pages", windows=[Window(100, per_s=60, unit="pages")]))
    with pytest.raises(NeverFits), limiter.slot("pages", units={"pages": 101}):
        pass


def test_an_unknown_limit_is_named(limiter: Limiter) -> None:
    with pytest.raises(NotFound, match="nope"), limiter.slot("nope"):
        pass
    with pytest.raises(NotFound):
        limiter.usage("nope")


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), True, "1", 1e12])
def test_a_bad_timeout_is_refused(limiter: Limiter, bad: object) -> None:
    with pytest.raises(BadInput):
        limiter.slot("two", timeout_s=bad)  # type: ignore[arg-type]


def cooled_down_s(limiter: Limiter, name: str) -> float:
    until(lambda: limiter.usage(name).cooldown == "cooldown")
    return limiter.usage(name).cooldown_for_s


@pytest.mark.parametrize(
    "hint",
    ["30", " 30.0 ", b"30", 30, timedelta(seconds=30), "30s", "30000ms", "date"],
    ids=lambda hint: type(hint).__name__,
)
def test_the_header_is_taken_as_it_is(limiter: Limiter, hint: object) -> None:
    if hint == "date":
        hint = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    with limiter.slot("two") as slot:
        slot.throttled(hint)  # type: ignore[arg-type]
    assert 20 < cooled_down_s(limiter, "two") <= 36  # spread upward by up to 20 %


@pytest.mark.parametrize("hint", [-1, float("nan"), float("inf"), 1e9, True, "-3", "soon", "", []], ids=repr)
def test_a_hint_that_makes_no_sense_counts_as_none(limiter: Limiter, hint: object) -> None:
    limiter.define(Limit("careful", in_flight=2, cooldown_s=(9.0,)))
    with limiter.slot("careful") as slot:
        slot.throttled(hint)  # type: ignore[arg-type]
    assert 5 < cooled_down_s(limiter, "careful") <= 10.8


def test_a_refusal_pauses_everybody_until_its_time_is_over(limiter: Limiter) -> None:
    with limiter.slot("two") as slot:
        slot.throttled(retry_after_s=0.2)
    began_at = time.monotonic()
    until(lambda: limiter.usage("two").cooldown == "cooldown")
    with limiter.slot("two") as probe:
        assert time.monotonic() - began_at > 0.15
        with pytest.raises(Busy) as refused, limiter.slot("two", timeout_s=0):
            pass
        assert "ramp" in refused.value.blocked_by
        assert probe.held


def test_what_a_call_really_took_is_settled(limiter: Limiter) -> None:
    limiter.define(Limit("tokens", windows=[Window(1000, per_s=60, unit="tokens")]))
    with limiter.slot("tokens", units={"tokens": 900}) as slot:
        slot.settle({"tokens": 100})
    until(lambda: limiter.usage("tokens").windows[0].used == 100)
    with limiter.slot("tokens", units={"tokens": 400}) as slot:
        slot.unsent()
    until(lambda: limiter.usage("tokens").windows[0].used == 100)


def test_failures_in_a_row_open_the_breaker(limiter: Limiter) -> None:
    limiter.define(Limit("weak", in_flight=2, breaker_after=3, cooldown_s=(0.1,)))
    for _ in range(3):
        with pytest.raises(ConnectionError), limiter.slot("weak"):
            raise ConnectionError
    until(lambda: limiter.usage("weak").cooldown == "breaker")


def test_functions_of_both_colours_can_be_limited(limiter: Limiter) -> None:
    @limiter.limited("two")
    def plain(value: int) -> int:
        assert limiter.usage("two").in_flight == 1
        return value + 1

    @limiter.limited("two", units={"calls": 1})
    async def colourful(value: int) -> int:
        return value + 2

    assert plain(1) == 2
    assert asyncio.run(colourful(1)) == 3


def test_a_slot_that_is_used_late_is_asked_for_anew(limiter: Limiter) -> None:
    limiter.define(Limit("strict", in_flight=1, windows=[Window(5, per_s=0.5)], start_within_s=0.02, transit_s=0))
    with limiter.slot("strict") as slot:
        call = slot._call
        assert call is not None
        granted_at, call_id = call.at, call.id
        slot.start()
        assert call.at == granted_at
        time.sleep(0.05)
        slot.start()
        assert call.at >= granted_at + 30
        assert limiter.usage("strict").in_flight == 1
        assert limiter.usage("strict").windows[0].used == 1
        time.sleep(0.6)
        slot.start()
        assert slot._call is not None
        assert slot._call.id != call_id
        assert limiter.usage("strict").windows[0].used == 1
    until(lambda: limiter.usage("strict").in_flight == 0)


def test_keys_share_a_limit_evenly(limiter: Limiter) -> None:
    limiter.define(Limit("one", in_flight=1))
    served: list[str] = []

    async def work() -> None:
        async def call(key: str) -> None:
            async with limiter.slot("one", key=key):
                served.append(key)

        async with limiter.slot("one"):
            tasks = [asyncio.create_task(call("crowd")) for _ in range(100)]
            await asyncio.sleep(0.02)
            tasks += [asyncio.create_task(call("few")) for _ in range(10)]
            await asyncio.sleep(0.02)
        await asyncio.gather(*tasks)

    asyncio.run(work())
    assert abs(served[:20].count("few") - 10) <= 1


def test_a_generator_cannot_be_limited(limiter: Limiter) -> None:
    with pytest.raises(BadInput, match="generator"):

        @limiter.limited("two")
        def pages() -> Iterator[int]:
            yield 1


def test_a_limiter_that_was_closed_says_so(limiter: Limiter) -> None:
    with limiter.slot("two"):
        pass
    limiter.close()
    with pytest.raises(StoreClosed), limiter.slot("two"):
        pass


@pytest.mark.parametrize("bad", [0, -1, float("nan"), "x", True])
def test_a_bad_time_for_a_change_is_refused(limiter: Limiter, bad: object) -> None:
    with pytest.raises(BadInput):
        limiter.pause("two", for_s=bad)  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        limiter.configure("two", in_flight=1, for_s=bad)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="layer"):
        limiter.configure("two", in_flight=1, layer="nope")


def test_nothing_cannot_be_settled(limiter: Limiter) -> None:
    with limiter.slot("two") as slot, pytest.raises(BadInput):
        slot.settle({})


def test_a_slot_that_nobody_has_any_more_comes_back(limiter: Limiter) -> None:
    slot: Slot | None = limiter.slot("two").__enter__()
    assert limiter.usage("two").in_flight == 1
    assert slot is not None
    del slot
    gc.collect()
    until(lambda: limiter.usage("two").in_flight == 0)


@pytest.mark.slow
def test_a_limiter_that_nobody_has_any_more_ends_its_threads() -> None:
    def threads() -> int:
        return sum(thread.name.startswith("forebay-limits") for thread in threading.enumerate())

    before = threads()
    limiter: Limiter | None = Limiter("memory://")
    assert limiter is not None
    limiter.define(Limit("one", in_flight=1))
    with limiter.slot("one"):
        assert threads() == before + 2
    slot = limiter.slot("one")
    del limiter
    gc.collect()
    with slot:
        assert threads() == before + 2
    del slot
    gc.collect()
    until(lambda: threads() == before)


def test_a_call_that_fits_since_another_process_raised_the_limit_is_let_in() -> None:
    store = MemoryLimits()
    with Limiter(Switchable(store)) as one, Limiter(Switchable(store)) as other:
        one.define(Limit("tokens", windows=[Window(5, per_s=1, unit="tokens")]))
        with other.slot("tokens", units={"tokens": 5}):
            pass
        with pytest.raises(NeverFits), other.slot("tokens", units={"tokens": 50}):
            pass
        one.configure("tokens", windows=[Window(100, per_s=1, unit="tokens")])
        with other.slot("tokens", units={"tokens": 50}):
            pass


def test_what_waits_and_never_fits_any_more_is_told_so() -> None:
    store = MemoryLimits()
    with Limiter(Switchable(store)) as one, Limiter(Switchable(store)) as other:
        one.define(Limit("tokens", windows=[Window(10, per_s=60, unit="tokens")], lease_s=0.3, heartbeat_s=0.1))
        errors: list[Exception] = []

        def work() -> None:
            try:
                with other.slot("tokens", units={"tokens": 10}, timeout_s=30):
                    pass
            except NeverFits as error:
                errors.append(error)

        with one.slot("tokens", units={"tokens": 10}):
            thread = threading.Thread(target=work)
            thread.start()
            until(lambda: one.usage("tokens").waiting == 1)
            one.configure("tokens", windows=[Window(5, per_s=60, unit="tokens")])
            thread.join(30)
        assert errors


def test_an_object_that_is_called_like_a_coroutine_function_is_limited() -> None:
    inside: list[int] = []

    class Caller:
        async def __call__(self) -> int:
            inside.append(1)
            most = len(inside)
            await asyncio.sleep(0.01)
            inside.pop()
            return most

    with Limiter("memory://") as limiter:
        limiter.define(Limit("one", in_flight=1))
        call = limiter.limited("one")(Caller())

        async def work() -> list[int]:
            return await asyncio.gather(*(call() for _ in range(5)))

        assert asyncio.run(work()) == [1] * 5


@pytest.mark.slow
def test_a_thread_hears_in_time_that_a_window_has_room_again(limiter: Limiter) -> None:
    """Before the next heartbeat, which would find it out as well."""
    limiter.define(Limit("paced", windows=[Window(1, per_s=0.5)]))
    errors: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(3):
                with limiter.slot("paced", timeout_s=3.0):
                    pass
                time.sleep(_ASLEEP_S)
        except Busy as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors
