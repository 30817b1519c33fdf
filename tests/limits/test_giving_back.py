"""A slot that was given back is free for others, also when its process ends in the next moment."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay.errors import StoreUnreachable
from forebay.limits import Limit, Limiter
from forebay.limits.returns import Returns
from forebay.model.limit_record import Answer, Ask
from forebay.stores.memory.limits import MemoryLimits
from tests.limits.ground import Switchable, until
from tests.servers.fresh import fresh_name, fresh_schema
from tests.servers.server import Server

ROOT = Path(__file__).parents[2]
STORES = ("sqlite", "valkey", "postgres")
CHILDREN = 4
_FORKING = """
    import asyncio, os, sys, threading
    from forebay.limits import Limit, Limiter
    address, environment, how, children = sys.argv[1:]
    limiter = Limiter(address, environment=environment)
    limiter.define(Limit("api", in_flight=1000))
    if "used before" in how:
        with limiter.slot("api"):
            pass
    if "not sent" in how:
        from forebay.limits.returns import Returns
        Returns.give_back = lambda *_, **__: None

    def block():
        with limiter.slot("api"):
            pass

    async def ablock():
        async with limiter.slot("api"):
            pass

    def two_of_three():
        slots = [limiter.slot("api").take() for _ in range(3)]
        for slot in slots:
            slot.release()

    def work():
        if "loop" in how:
            asyncio.run(ablock())
        elif "thread" in how:
            thread = threading.Thread(target=block)
            thread.start()
            thread.join()
        elif "three" in how:
            two_of_three()
        else:
            block()

    for _ in range(int(children)):
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
"""


@contextmanager
def address_of(store: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    if store == "sqlite":
        yield f"sqlite:///{folder}/limits.db"
    elif store == "postgres":
        with fresh_schema(request.getfixturevalue("postgres_server")) as address:
            yield address
    else:
        yield request.getfixturevalue(f"{store}_server").url


@pytest.fixture(params=STORES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with address_of(request.param, request, tmp_path) as found:
        yield found


def lost_by(how: str, address: str, children: int = CHILDREN) -> int:
    """Slots that are held after children took one each, gave it back and ended by os._exit."""
    environment = fresh_name()
    script = textwrap.dedent(_FORKING)
    arguments = (address, environment, how, str(children))
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    with Limiter(address, environment=environment) as limiter:
        return limiter.usage("api").in_flight


@pytest.mark.parametrize("how", ["block", "used before the fork", "thread", "loop", "three"])
def test_a_child_that_ends_right_after_the_block_loses_no_slot(how: str, address: str) -> None:
    assert lost_by(how, address) == 0


def test_a_release_that_is_not_sent_is_found_lost(tmp_path: Path) -> None:
    """The negative control."""
    assert lost_by("not sent", f"sqlite:///{tmp_path}/limits.db", 4) > 0


def test_a_process_that_is_killed_right_after_the_block_loses_no_slot(address: str) -> None:
    environment = fresh_name()
    script = """
        import sys, time
        from forebay.limits import Limit, Limiter
        limiter = Limiter(sys.argv[1], environment=sys.argv[2])
        limiter.define(Limit("api", in_flight=10))
        with limiter.slot("api"):
            pass
        print("left", flush=True)
        time.sleep(60)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), address, environment],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "left\n"
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    with Limiter(address, environment=environment) as limiter:
        assert limiter.usage("api").in_flight == 0


class Counting(Switchable):
    """Counts what it is asked, by verb; `slow` is how long it takes to store a return."""

    def __init__(self) -> None:
        super().__init__()
        self.exchanges = 0
        self.returned: list[list[int]] = []
        self.slow = threading.Event()
        self.slow.set()

    def exchange(self, limit: str, ask: Ask) -> Answer:
        self.exchanges += 1
        return super().exchange(limit, ask)

    def give_back(self, limit: str, ask: Ask) -> Answer:
        self.slow.wait(5)
        answer = super().give_back(limit, ask)
        self.returned.append([done["call_id"] for done in ask["ended_calls"]])
        return answer


@pytest.fixture
def store() -> Counting:
    return Counting()


@pytest.fixture
def limiter(store: Counting) -> Iterator[Limiter]:
    with Limiter(store) as made:
        made.define(Limit("api", in_flight=3))
        yield made


def test_the_last_call_of_a_process_is_given_back_before_the_block_is_left(limiter: Limiter, store: Counting) -> None:
    with limiter.slot("api"):
        assert limiter.usage("api").in_flight == 1
    assert limiter.usage("api").in_flight == 0
    assert store.returned == [[1]]


def test_others_ride_with_the_next_request(limiter: Limiter, store: Counting) -> None:
    kept, *others = [limiter.slot("api").take() for _ in range(3)]
    for slot in others:
        slot.release()
    assert store.returned == []
    until(lambda: limiter.usage("api").in_flight == 1)
    kept.release()
    assert limiter.usage("api").in_flight == 0


def test_the_last_one_brings_those_along_that_still_wait_for_a_request(limiter: Limiter, store: Counting) -> None:
    first, second = limiter.slot("api").take(), limiter.slot("api").take()
    first.release()
    second.release()
    assert limiter.usage("api").in_flight == 0
    assert store.returned[-1][-1] == 2


def test_where_callers_wait_the_request_for_them_gives_back(limiter: Limiter, store: Counting) -> None:
    """So that a process that is busy sends one request, and not two."""
    limiter.configure("api", in_flight=1)
    held = limiter.slot("api").take()
    entered = threading.Event()

    def work() -> None:
        with limiter.slot("api"):
            entered.set()

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: limiter.usage("api").waiting == 1)
    held.release()
    assert entered.wait(5)
    thread.join()
    assert store.returned == [[2]]


def test_calls_that_are_shorter_than_the_wait_for_a_request_ride(
    limiter: Limiter, store: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a tight loop sends one request a call, and not two."""
    monkeypatch.setattr("forebay.limits.line.LINGER_S", 60.0)
    for _ in range(20):
        with limiter.slot("api"):
            pass
    assert store.returned == [[1]]
    assert store.exchanges <= 21


def test_an_event_loop_turns_while_its_return_is_stored(limiter: Limiter, store: Counting) -> None:
    async def work() -> int:
        turns = 0
        slot = await limiter.slot("api").__aenter__()
        store.slow.clear()
        leaving = asyncio.create_task(slot.__aexit__(None, None, None))
        while turns < 20:
            await asyncio.sleep(0)
            turns += 1
        assert not leaving.done()
        store.slow.set()
        await leaving
        return limiter.usage("api").in_flight

    assert asyncio.run(work()) == 0


def test_a_return_that_fails_is_said_again_by_the_next_request(limiter: Limiter, store: Counting) -> None:
    with limiter.slot("api"):
        store.down = True
    assert limiter.usage("api").in_flight == 1
    store.down = False
    until(lambda: limiter.usage("api").in_flight == 0)


def test_a_return_whose_answer_is_lost_is_said_again_and_counts_once(limiter: Limiter, store: Counting) -> None:
    with limiter.slot("api"):
        store.lost = 1
    assert limiter.usage("api").in_flight == 0
    limiter.flush()
    with limiter.slot("api"):
        assert limiter.usage("api").in_flight == 1


def test_a_store_that_is_known_to_be_gone_keeps_nobody_waiting(limiter: Limiter, store: Counting) -> None:
    limiter.configure("api", lease_s=0.6)
    with limiter.slot("api"):
        store.down = True
        until(lambda: limiter._desks["api"].degraded)
        asked = store.asked
        store.slow.clear()  # were it asked, the block would hang
    assert store.asked >= asked
    store.slow.set()
    store.down = False
    until(lambda: limiter.usage("api").in_flight == 0)


def test_threads_that_give_back_at_once_leave_nothing(limiter: Limiter) -> None:
    def work() -> None:
        for _ in range(50):
            with limiter.slot("api"):
                pass

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    limiter.flush()
    assert limiter.usage("api").in_flight == 0


def test_flush_waits_until_all_is_stored(limiter: Limiter, store: Counting) -> None:
    kept = limiter.slot("api").take()
    with limiter.slot("api"):
        pass
    limiter.flush()
    assert limiter.usage("api").in_flight == 1
    with limiter.slot("api"):
        pass
    asyncio.run(limiter.aflush())
    assert limiter.usage("api").in_flight == 1
    kept.release()


def test_flush_says_when_the_store_does_not_answer(limiter: Limiter, store: Counting) -> None:
    with limiter.slot("api"):
        store.down = True
    with pytest.raises(StoreUnreachable):
        limiter.flush(timeout_s=0.2)
    store.down = False
    limiter.flush()
    assert limiter.usage("api").in_flight == 0


def test_flush_of_nothing_is_at_once() -> None:
    with Limiter(MemoryLimits()) as limiter:
        limiter.flush()


def quick(measure: Callable[[], float], bound_s: float, tries: int = 20) -> bool:
    """Whether it is so quick at least once: a busy machine makes it slower, nothing makes it faster."""
    return any(measure() < bound_s for _ in range(tries))


@pytest.mark.parametrize("store_name", ["sqlite", "valkey"])
def test_a_second_client_sees_the_slot_free_within_5_ms(
    store_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    environment = fresh_name()
    with (
        address_of(store_name, request, tmp_path) as address,
        Limiter(address, environment=environment) as one,
        Limiter(address, environment=environment) as other,
    ):
        one.define(Limit("api", in_flight=1))

        def measure() -> float:
            with one.slot("api"):
                pass
            left_at = time.perf_counter()
            while other.usage("api").in_flight:
                pass
            return time.perf_counter() - left_at

        assert quick(measure, 0.005)


def test_a_slot_that_is_given_back_and_whose_process_ends_goes_to_the_head_of_the_line(
    valkey_server: Server,
) -> None:
    environment = fresh_name()
    script = """
        import os, sys
        from forebay.limits import Limiter
        limiter = Limiter(sys.argv[1], environment=sys.argv[2])
        with limiter.slot("api"):
            print("holds", flush=True)
            sys.stdin.readline()
        os._exit(0)
    """
    with Limiter(valkey_server.url, environment=environment) as limiter:
        limiter.define(Limit("api", in_flight=1))
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), valkey_server.url, environment],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        entered = threading.Event()

        def work() -> None:
            with limiter.slot("api", timeout_s=3):  # less than a heartbeat, and than the poll of those who wait
                entered.set()

        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "holds\n"
            thread = threading.Thread(target=work)
            thread.start()
            until(lambda: limiter.usage("api").waiting == 1)
            child.communicate("go\n", timeout=10)
            thread.join()
        finally:
            child.kill()
            child.wait()
        assert entered.is_set()


def test_the_thread_for_returns_ends_with_its_limiter() -> None:
    def running() -> int:
        return sum(thread.name == "forebay-limits-returns" for thread in threading.enumerate())

    before = running()
    with Limiter(Switchable()) as limiter:
        limiter.define(Limit("api", in_flight=1))
        with limiter.slot("api"):
            pass
        assert running() == before + 1
    until(lambda: running() == before)


def test_a_signal_that_raises_while_the_main_thread_waits_leaves_the_slot_free(
    limiter: Limiter, store: Counting
) -> None:
    class Now(Exception):
        pass

    def strike(*_: object) -> None:
        raise Now

    before = signal.signal(signal.SIGALRM, strike)
    try:
        slot = limiter.slot("api").take()
        store.slow.clear()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Now):
            slot.release()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        store.slow.set()
    assert isinstance(limiter._pump.returns, Returns)
    until(lambda: limiter.usage("api").in_flight == 0)
    assert not slot.held
