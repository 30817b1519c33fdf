"""A process whose callers come quickly has slots in hand, and gives back those that nobody uses."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.limits import Limit, Limiter, Window, telling
from forebay.limits.in_hand import HOLD_S
from forebay.limits.line import Line
from forebay.model.limit_record import Answer, Ask
from tests.limits.conftest import Place
from tests.limits.ground import Switchable, until
from tests.limits.test_giving_back import address_of
from tests.servers.fresh import fresh_name

ROOT = Path(__file__).parents[2]
QUICK = 12
"""Calls in a row after which a process has slots in hand."""


class Counting(Switchable):
    """Counts exchanges, and how many slots in hand they asked for; `others` wait elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.others = 0
        self.exchanges = 0
        self.in_hand: list[int] = []

    def exchange(self, limit: str, ask: Ask) -> Answer:
        self.exchanges += 1
        self.in_hand += [wish.get("in_hand_count", 0) for wish in ask["runs"]]
        answer = super().exchange(limit, ask)
        answer["other_caller_count"] += self.others
        return answer


@pytest.fixture
def store() -> Counting:
    return Counting()


@pytest.fixture
def limiter(store: Counting) -> Iterator[Limiter]:
    with Limiter(store) as made:
        made.define(Limit("api", in_flight=200, windows=[Window(100_000, per_s=60)]))
        yield made


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots in hand wait for longer than a busy machine takes between two calls."""
    monkeypatch.setattr("forebay.limits.in_hand.HOLD_S", 2.0)


@pytest.fixture(params=["sqlite", "valkey", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with address_of(request.param, request, tmp_path) as found:
        yield found


def call_quickly(limiter: Limiter, count: int = QUICK, **options: str) -> None:
    for _ in range(count):
        with limiter.slot("api", **options):  # type: ignore[arg-type]  # key and label
            pass


def line_of(limiter: Limiter) -> Line:
    return limiter._desk("api").main


@pytest.mark.usefixtures("patient")
def test_calls_in_quick_succession_share_requests(limiter: Limiter, store: Counting) -> None:
    call_quickly(limiter, 640)
    assert store.exchanges < 640 / 3
    assert max(store.in_hand) == 31


@pytest.mark.usefixtures("patient")
def test_tasks_of_a_loop_share_requests(limiter: Limiter, store: Counting) -> None:
    async def call() -> None:
        for _ in range(640):
            async with limiter.slot("api"):
                pass

    asyncio.run(call())
    assert store.exchanges < 640 / 3


def test_calls_that_come_slowly_get_a_slot_each(limiter: Limiter, store: Counting) -> None:
    for _ in range(6):
        call_quickly(limiter, 1)
        time.sleep(2 * HOLD_S)
    assert {*store.in_hand} == {0}
    assert limiter.usage("api").in_flight == 0


def test_slots_that_nobody_uses_go_back(place: Place) -> None:
    with place.limiter() as limiter:
        limiter.define(Limit("api", in_flight=200, windows=[Window(100_000, per_s=60)]))
        call_quickly(limiter, 100)
        until(lambda: limiter.usage("api").in_flight == 0)
        assert line_of(limiter).in_hand_count == 0
        until(lambda: limiter.usage("api").windows[0].used == 100)


@pytest.mark.usefixtures("patient")
def test_flush_gives_slots_in_hand_back(limiter: Limiter) -> None:
    call_quickly(limiter)
    assert line_of(limiter).in_hand_count > 0
    assert limiter.usage("api").in_flight > 0
    limiter.flush()
    assert limiter.usage("api").in_flight == 0


@pytest.mark.usefixtures("patient")
def test_a_limiter_that_is_closed_gives_slots_in_hand_back(address: str) -> None:
    environment = fresh_name()
    with Limiter(address, environment=environment) as limiter:
        limiter.define(Limit("api", in_flight=200))
        call_quickly(limiter)
        assert line_of(limiter).in_hand_count > 0
    with Limiter(address, environment=environment) as other:
        assert other.usage("api").in_flight == 0


@pytest.mark.usefixtures("patient")
def test_callers_with_another_key_get_slots_of_their_own(limiter: Limiter, store: Counting) -> None:
    call_quickly(limiter)
    before = store.exchanges
    with limiter.slot("api", key="tenant"):
        assert store.exchanges == before + 1
        record, _ = store.read("api")
        assert record is not None
        [seat] = record["sessions"].values()
        assert [call["key"] for call in seat["calls"] if "key" in call] == ["tenant"]


@pytest.mark.usefixtures("patient")
def test_a_refusal_gives_slots_in_hand_back(limiter: Limiter) -> None:
    call_quickly(limiter)
    with limiter.slot("api") as slot:
        assert line_of(limiter).in_hand_count > 0
        slot.throttled(30)
        assert line_of(limiter).in_hand_count == 0


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("how", ["paused", "changed", "crowded"])
def test_news_of_the_limit_gives_slots_in_hand_back(how: str, limiter: Limiter, store: Counting) -> None:
    call_quickly(limiter)
    assert line_of(limiter).in_hand_count > 0
    with Limiter(store.store) as other:
        if how == "paused":
            other.pause("api")
        elif how == "changed":
            other.configure("api", in_flight=100)
        else:
            store.others = 1
        with line_of(limiter).lock:
            line_of(limiter).again()
        limiter._pump.poke(limiter._desk("api"))
        until(lambda: line_of(limiter).in_hand_count == 0)


def test_a_forked_process_has_none_in_hand(limiter: Limiter, store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may end by os._exit after any of its calls."""
    monkeypatch.setattr("forebay.limits.returns._forked", True)
    call_quickly(limiter, 50)
    assert {*store.in_hand} == {0}
    assert limiter.usage("api").in_flight == 0


@pytest.mark.usefixtures("patient")
def test_events_do_not_count_slots_in_hand(limiter: Limiter) -> None:
    call_quickly(limiter)
    line = line_of(limiter)
    assert line.used == line.in_hand_count > 0
    assert telling.standing(limiter._desk("api"))["in_flight"] == "0/200"


_WORKING = """
    import os, sys, threading, time
    from forebay.limits import Limit, Limiter, Window, in_hand
    in_hand.HOLD_S = 0.5
    address, environment = sys.argv[1:]
    limiter = Limiter(address, environment=environment)
    call = lambda number: os.write(1, f"{number} {time.monotonic_ns()} {line.in_hand_count}\\n".encode())
    line = limiter._desk("api").main

    def work():
        while time.monotonic() < float(ends):
            for _ in range(60):
                with limiter.slot("api", timeout_s=30):
                    call(1)
                    call(-1)
            time.sleep(1.5)  # until the window is empty

    with limiter.slot("api", timeout_s=30):
        print("ready", flush=True)
    ends = sys.stdin.readline()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_processes_with_slots_in_hand_keep_to_the_limit(address: str) -> None:
    """Counted by their own clock, which all of a machine share; one of them is killed in between."""
    environment, in_flight, window = fresh_name(), 10, 200
    with Limiter(address, environment=environment) as limiter:
        limiter.define(Limit("api", in_flight=in_flight, windows=[Window(window, per_s=1)], call_timeout_s=1))
        command = [sys.executable, "-c", textwrap.dedent(_WORKING), address, environment]
        workers = [
            subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        ends = time.monotonic() + 4
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{ends}\n")
            worker.stdin.flush()
        time.sleep(2.5)
        os.kill(workers[0].pid, signal.SIGKILL)
        told = [worker.communicate(timeout=60)[0].splitlines() for worker in workers]
        seen = sorted((int(at), int(number)) for lines in told for number, at, _ in map(str.split, lines))
        until(lambda: limiter.usage("api").in_flight == 0, within_s=60)
    level = peak = 0
    for _, number in seen:
        level += number
        peak = max(peak, level)
    starts = [at for at, number in seen if number > 0]
    assert len(starts) > window
    assert any(int(line.split()[2]) for lines in told for line in lines), "nobody had a slot in hand"
    assert peak <= in_flight
    assert all(later - first >= 1e9 for first, later in zip(starts, starts[window:], strict=False))


def test_a_process_that_is_killed_with_slots_in_hand_holds_them_until_they_are_over(address: str) -> None:
    """The negative control of the above: what it had in hand is counted."""
    environment = fresh_name()
    script = """
        import sys, time
        from forebay.limits import Limit, Limiter, in_hand
        in_hand.HOLD_S = 60.0
        limiter = Limiter(sys.argv[1], environment=sys.argv[2])
        limiter.define(Limit("api", in_flight=100, call_timeout_s=1, lease_s=2, heartbeat_s=0.5))
        for _ in range(50):
            with limiter.slot("api"):
                pass
        print(limiter._desk("api").main.in_hand_count, flush=True)
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
        count = int(child.stdout.readline())
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    with Limiter(address, environment=environment) as limiter:
        assert limiter.usage("api").in_flight >= count > 0
        until(lambda: limiter.usage("api").in_flight == 0)
