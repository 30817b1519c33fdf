from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from forebay.bridge import MAX_GROUP, Call, StoreThread
from forebay.errors import StoreClosed

SOON_S = 10.0


class Store:
    """Answers each step with what it returns; stands still inside a group while `gate` is closed."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.inside = threading.Event()
        self.thread: StoreThread[Store] = StoreThread("the store", self._run)

    def _run(self, group: Sequence[Call[Store]]) -> None:
        self.groups.append(len(group))
        self.inside.set()
        assert self.gate.wait(SOON_S)
        for call in group:
            call.future.set_result(call.step(self))

    def busy(self) -> Future[str]:
        """Keep the thread inside a group of one until the gate opens."""
        self.gate.clear()
        self.inside.clear()
        first = self.thread.submit(lambda _: "first")
        assert self.inside.wait(SOON_S)
        return first


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.gate.set()
    store.thread.close()


def numbered(number: int) -> Callable[[object], int]:
    return lambda _: number


def noted(seen: list[int], number: int) -> Callable[[object], None]:
    return lambda _: seen.append(number)


def test_a_submitted_step_runs_on_the_stores_own_thread_with_its_answer_brought_back(store: Store) -> None:
    name, given = store.thread.submit(lambda given: (threading.current_thread().name, given)).result()
    assert (name, given) == ("the store", store)


def test_a_call_that_finds_nothing_under_way_runs_where_it_was_made(store: Store) -> None:
    name, given = store.thread.call(lambda given: (threading.current_thread().name, given))
    assert (name, given) == (threading.current_thread().name, store)


def test_a_call_that_finds_a_step_under_way_waits_for_its_turn(store: Store) -> None:
    began, may_end, order = threading.Event(), threading.Event(), []

    def slow(_: Store) -> None:
        began.set()
        may_end.wait(10)
        order.append("slow")

    first = threading.Thread(target=store.thread.call, args=(slow,))
    first.start()
    assert began.wait(10)
    second = store.thread.submit(lambda _: order.append("second"))
    may_end.set()
    second.result(10)
    first.join(10)
    assert order == ["slow", "second"]


def test_what_arrives_while_the_thread_is_busy_runs_as_one_group(store: Store) -> None:
    first = store.busy()
    rest = [store.thread.submit(numbered(number)) for number in range(20)]
    store.gate.set()
    assert first.result(SOON_S) == "first"
    assert [future.result(SOON_S) for future in rest] == list(range(20))
    assert store.groups == [1, 20]


def test_a_group_has_a_bound_and_keeps_the_order_of_arrival(store: Store) -> None:
    store.busy()
    seen: list[int] = []
    rest = [store.thread.submit(noted(seen, number)) for number in range(2 * MAX_GROUP + 5)]
    store.gate.set()
    for future in rest:
        future.result(SOON_S)
    assert store.groups == [1, MAX_GROUP, MAX_GROUP, 5]
    assert seen == list(range(2 * MAX_GROUP + 5))


def test_a_call_cancelled_while_it_waits_is_not_run(store: Store) -> None:
    store.busy()
    ran: list[str] = []
    kept = store.thread.submit(lambda _: ran.append("kept"))
    dropped = store.thread.submit(lambda _: ran.append("dropped"))
    assert dropped.cancel()
    store.gate.set()
    kept.result(SOON_S)
    assert ran == ["kept"]
    assert store.groups == [1, 1]


def test_a_group_of_cancelled_calls_does_not_bother_the_store(store: Store) -> None:
    first = store.busy()
    assert store.thread.submit(numbered(1)).cancel()
    store.gate.set()
    first.result(SOON_S)
    assert store.thread.call(numbered(2)) == 2
    assert store.groups == [1, 1]


def test_a_call_that_was_taken_can_no_longer_be_cancelled(store: Store) -> None:
    first = store.busy()
    assert not first.cancel()
    store.gate.set()
    assert first.result(SOON_S) == "first"


@pytest.mark.parametrize(
    "error", [ValueError("broken"), SystemExit(3), KeyboardInterrupt()], ids=lambda e: type(e).__name__
)
def test_an_error_of_a_group_reaches_every_caller_in_it(error: BaseException) -> None:
    gate, inside = threading.Event(), threading.Event()
    sizes = []

    def run(group: Sequence[Call[None]]) -> None:
        sizes.append(len(group))
        inside.set()
        assert gate.wait(SOON_S)
        raise error

    thread = StoreThread("breaks", run)
    futures = [thread.submit(numbered(0))]
    assert inside.wait(SOON_S)
    futures += [thread.submit(numbered(number)) for number in range(1, 4)]
    gate.set()
    assert [future.exception(SOON_S) for future in futures] == [error] * 4
    assert sizes == [1, 3]
    thread.close()


def test_an_error_after_some_answers_leaves_those_as_they_are() -> None:
    gate, inside = threading.Event(), threading.Event()

    def run(group: Sequence[Call[None]]) -> None:
        inside.set()
        assert gate.wait(SOON_S)
        group[0].future.set_result("answered")
        raise OSError("disk full")

    thread = StoreThread("breaks half way", run)
    head = thread.submit(numbered(0))
    assert inside.wait(SOON_S)
    one, other = thread.submit(numbered(1)), thread.submit(numbered(2))
    gate.set()
    answers: list[object] = [head.result(SOON_S), one.result(SOON_S)]
    assert answers == ["answered", "answered"]
    with pytest.raises(OSError, match="disk full"):
        other.result(SOON_S)
    thread.close()


def test_the_thread_goes_on_after_an_error() -> None:
    def run(group: Sequence[Call[None]]) -> None:
        for call in group:
            call.future.set_result(call.step(None))

    thread = StoreThread("goes on", run)
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda _: 1 // 0)
    assert thread.call(numbered(7)) == 7
    thread.close()


def test_close_waits_for_what_was_handed_in_before(store: Store) -> None:
    store.busy()
    futures = [store.thread.submit(numbered(number)) for number in range(MAX_GROUP + 3)]
    closing = threading.Thread(target=store.thread.close)
    closing.start()
    while not store.thread._closed:
        assert not futures[0].done()
    store.gate.set()
    closing.join(SOON_S)
    assert not closing.is_alive()
    assert [future.result(0) for future in futures] == list(range(MAX_GROUP + 3))
    assert not store.thread._thread.is_alive


def test_a_program_that_ends_does_not_hang_on_its_store(store: Store) -> None:
    assert store.thread._thread._thread.daemon


def test_close_gives_up_on_a_store_that_hangs(store: Store) -> None:
    first = store.busy()
    store.thread.close(timeout_s=0.01)
    assert not first.done()


def test_a_closed_thread_takes_no_more_calls(store: Store) -> None:
    store.thread.close()
    store.thread.close()
    for use in (store.thread.submit, store.thread.call):
        with pytest.raises(StoreClosed) as caught:
            use(numbered(1))
        assert caught.value.remedy
    assert store.groups == []


def test_a_step_may_close_its_own_thread(store: Store) -> None:
    store.thread.call(lambda given: given.thread.close())
    with pytest.raises(StoreClosed):
        store.thread.submit(numbered(1))


def test_many_threads_each_get_their_own_answers(store: Store) -> None:
    total = 0

    def step(number: int) -> Callable[[object], int]:
        def add(_: object) -> int:
            nonlocal total
            total += 1
            return number

        return add

    def caller(first: int) -> list[int]:
        return [store.thread.call(step(number)) for number in range(first, first + 200)]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(caller, range(0, 1600, 200)))
    assert [number for each in answers for number in each] == list(range(1600))
    assert total == sum(store.groups) == 1600


def test_every_call_against_a_closing_thread_is_answered_or_refused(store: Store) -> None:
    def caller(_: int) -> int:
        answered = 0
        try:
            while True:
                answered += store.thread.call(numbered(1))
        except StoreClosed:
            return answered

    with ThreadPoolExecutor(4) as pool:
        callers = [pool.submit(caller, number) for number in range(4)]
        while len(store.groups) < 20:
            assert not any(each.done() for each in callers)
        store.thread.close()
        assert sum(each.result(SOON_S) for each in callers) == sum(store.groups)
