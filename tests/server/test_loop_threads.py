import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial, wraps
from typing import Any
from unittest.mock import Mock

import pytest

from forebay.errors import StoreClosed
from forebay.server.loop_threads import LoopThreads

SOON_S = 10.0


def numbered(number: int) -> Callable[[object], int]:
    return lambda _: number


def in_a_loop(test: Callable[[LoopThreads], Coroutine[Any, Any, None]]) -> Callable[[LoopThreads], None]:
    @wraps(test)
    def run(threads: LoopThreads) -> None:
        asyncio.run(test(threads))

    return run


@pytest.fixture
def threads() -> Iterator[LoopThreads]:
    threads = LoopThreads("beside-the-loop", 4)
    yield threads
    threads.close()


def stand_still(at_work: threading.Semaphore, gate: threading.Event) -> bool:
    at_work.release()
    return gate.wait(SOON_S)


@in_a_loop
async def test_calls_run_on_other_threads_with_answers_and_errors_brought_back(threads: LoopThreads) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    name = await threads.run(lambda: threading.current_thread().name)
    assert name.startswith("beside-the-loop")
    with pytest.raises(ZeroDivisionError):
        await threads.run(fail)
    assert await asyncio.gather(*(threads.run(partial(numbered(number), None)) for number in range(50))) == [*range(50)]


@in_a_loop
async def test_there_are_no_more_threads_than_allowed_nor_than_calls_at_a_time(threads: LoopThreads) -> None:
    names = {await threads.run(lambda: threading.current_thread().name) for _ in range(20)}
    assert len(names) == 1
    gate, at_work = threading.Event(), threading.Semaphore(0)
    running = [threads.run(partial(stand_still, at_work, gate)) for _ in range(10)]
    for _ in range(4):
        assert await asyncio.to_thread(at_work.acquire, timeout=SOON_S)
    await asyncio.sleep(0.05)
    assert len([each for each in threading.enumerate() if each.name.startswith("beside-the-loop")]) == 4
    gate.set()
    assert all(await asyncio.gather(*running))


@in_a_loop
async def test_quick_calls_that_are_handed_in_at_once_are_made_by_one_thread(threads: LoopThreads) -> None:
    names = await asyncio.gather(*(threads.run(lambda: threading.current_thread().name) for _ in range(50)))
    assert len({*names}) == 1


@in_a_loop
async def test_a_slow_call_delays_no_other_for_long(threads: LoopThreads) -> None:
    gate, at_work = threading.Event(), threading.Semaphore(0)
    slow = threads.run(partial(stand_still, at_work, gate))
    for number in range(20):
        # Handed in while the thread at work stands still; and the next one after an idle time.
        assert await asyncio.wait_for(threads.run(partial(numbered(number), None)), SOON_S) == number
        await asyncio.sleep(0.002)
    gate.set()
    assert await slow


@in_a_loop
async def test_no_call_is_left_behind_when_a_thread_goes_to_rest(threads: LoopThreads) -> None:
    for number in range(2000):
        assert await asyncio.wait_for(threads.run(partial(numbered(number), None)), SOON_S) == number


def test_calls_of_a_second_loop_get_more_threads_too(threads: LoopThreads) -> None:
    async def use() -> None:
        gate, at_work = threading.Event(), threading.Semaphore(0)
        running = [threads.run(partial(stand_still, at_work, gate)) for _ in range(3)]
        for _ in range(3):
            assert await asyncio.to_thread(at_work.acquire, timeout=SOON_S)
        gate.set()
        assert all(await asyncio.gather(*running))

    asyncio.run(use())
    asyncio.run(use())


@in_a_loop
async def test_a_call_whose_caller_left_before_its_turn_is_not_made(threads: LoopThreads) -> None:
    made: list[str] = []
    gate, at_work = threading.Event(), threading.Semaphore(0)
    running = [threads.run(partial(stand_still, at_work, gate)) for _ in range(4)]
    for _ in range(4):
        assert await asyncio.to_thread(at_work.acquire, timeout=SOON_S)
    left, stayed = (threads.run(partial(made.append, name)) for name in ("left", "stayed"))
    left.cancel()
    gate.set()
    await asyncio.gather(*running, stayed)
    assert made == ["stayed"]


@in_a_loop
async def test_closed_threads_make_no_call_that_has_not_begun_and_take_none(threads: LoopThreads) -> None:
    gate, inside = threading.Event(), threading.Barrier(5)

    def meet() -> str:
        inside.wait(SOON_S)
        gate.wait(SOON_S)
        return "ended"

    running = [threads.run(meet) for _ in range(4)]
    await asyncio.to_thread(inside.wait, SOON_S)
    waiting = threads.run(meet)
    threads.close()
    assert waiting.cancelled()
    with pytest.raises(StoreClosed):
        threads.run(meet)
    gate.set()
    assert await asyncio.gather(*running) == ["ended"] * 4


@in_a_loop
async def test_answers_that_come_while_the_loop_is_busy_wake_it_once(threads: LoopThreads) -> None:
    loop = asyncio.get_running_loop()
    wake = Mock(wraps=loop.call_soon_threadsafe)
    loop.call_soon_threadsafe = wake  # type: ignore[method-assign]  # of this loop alone
    ended = threading.Semaphore(0)
    answers = [threads.run(ended.release) for _ in range(20)]
    for _ in range(20):
        assert ended.acquire(timeout=SOON_S)
    await asyncio.gather(*answers)
    assert wake.call_count <= 2


@in_a_loop
async def test_a_call_that_raises_stop_iteration_fails_alone(threads: LoopThreads) -> None:
    gate = threading.Event()

    def stop() -> None:
        assert gate.wait(SOON_S)
        next(iter(()))

    stopped, fine = threads.run(stop), threads.run(partial(gate.wait, SOON_S))
    gate.set()
    error, answer = await asyncio.wait_for(asyncio.gather(stopped, fine, return_exceptions=True), SOON_S)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, StopIteration)
    assert answer is True


def test_threads_that_nobody_closed_end_with_their_last_reference_after_the_calls_that_wait() -> None:
    made: list[int] = []

    async def use() -> list[threading.Thread]:
        before = {*threading.enumerate()}
        threads = LoopThreads("nobodys", 2)
        gate = threading.Event()
        at_work = threading.Semaphore(0)
        running = [threads.run(partial(stand_still, at_work, gate)) for _ in range(2)]
        for _ in range(2):
            assert await asyncio.to_thread(at_work.acquire, timeout=SOON_S)
        waiting = [threads.run(partial(made.append, number)) for number in range(3)]
        await asyncio.sleep(0.05)
        started = [each for each in threading.enumerate() if each not in before and each.name.startswith("nobodys")]
        del threads
        gc.collect()
        gate.set()
        await asyncio.wait_for(asyncio.gather(*running, *waiting), SOON_S)
        return started

    started = asyncio.run(use())
    assert len(started) == 2
    for each in started:
        each.join(SOON_S)
        assert not each.is_alive()
    assert sorted(made) == [0, 1, 2]
