"""Asking for a slot without waiting: places that are kept, doubled deliveries, owners that are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from forebay.errors import BadInput, NeverFits, NotFound, PlaceHeld, StoreUnreachable
from forebay.limits import Limit, Limiter, Slot, Wait, Window
from tests.limits.conftest import Place
from tests.limits.ground import Switchable, until

API = "api"


@pytest.fixture
def limiter(place: Place) -> Iterator[Limiter]:
    with place.limiter() as limiter:
        yield limiter


def granted(answer: Slot | Wait) -> Slot:
    assert isinstance(answer, Slot), answer
    return answer


def refused(answer: Slot | Wait) -> Wait:
    assert isinstance(answer, Wait)
    return answer


def test_an_ask_gets_a_slot_or_is_told_when_to_ask_again(limiter: Limiter) -> None:
    limiter.define(Limit(API, in_flight=1))
    slot = granted(limiter.ask(API, place="job-1", label="page 7"))
    assert slot.held
    wait = refused(limiter.ask(API, place="job-2"))
    assert (wait.limit, wait.place, wait.position, wait.blocked_by) == (API, "job-2", 0, ("in_flight",))
    assert wait.retry_in_s == 3.0
    assert refused(limiter.ask(API, place="job-3")).position == 1
    usage = limiter.usage(API)
    assert (usage.in_flight, usage.waiting) == (1, 2)
    assert [call.label for holder in usage.holders for call in holder.calls] == ["page 7"]
    slot.release()
    with granted(limiter.ask(API, place="job-2")) as mine:
        mine.start()
        assert limiter.usage(API).in_flight == 1
    until(lambda: limiter.usage(API).in_flight == 0)


def test_it_asks_from_an_event_loop(limiter: Limiter) -> None:
    limiter.define(Limit(API, in_flight=1))

    async def run() -> None:
        async with granted(await limiter.aask(API, place="job-1")):
            assert isinstance(await limiter.aask(API, place="job-2"), Wait)
        async with granted(await limiter.aask(API, place="job-2")) as slot:
            await slot.astart()

    asyncio.run(run())


def test_a_second_delivery_gets_no_slot_and_releases_none(place: Place, limiter: Limiter) -> None:
    limiter.define(Limit(API, in_flight=5))
    slot = granted(limiter.ask(API, place="job-1"))
    with place.limiter() if "memory" not in place.address else limiter as other:
        with pytest.raises(PlaceHeld, match="job-1"):
            other.ask(API, place="job-1")
        assert not other.leave(API, place="job-1")
        assert limiter.usage(API).in_flight == 1
        assert slot.held


def test_whoever_has_the_same_token_gets_the_same_slot(limiter: Limiter) -> None:
    limiter.define(Limit(API, in_flight=5))
    slot = granted(limiter.ask(API, place="job-1", holder="request-7"))
    again = granted(limiter.ask(API, place="job-1", holder="request-7"))
    assert limiter.usage(API).in_flight == 1
    again.release()
    slot.release()
    until(lambda: limiter.usage(API).in_flight == 0)


def test_of_deliveries_at_once_one_runs(limiter: Limiter) -> None:
    limiter.define(Limit(API, in_flight=9))
    ran: list[Slot] = []

    def deliver(_: int) -> str:
        try:
            ran.append(granted(limiter.ask(API, place="job-1")))
        except PlaceHeld:
            return "held"
        return "ran"

    with ThreadPoolExecutor(8) as pool:
        found = sorted(pool.map(deliver, range(8)))
    assert found == ["held"] * 7 + ["ran"]
    assert limiter.usage(API).in_flight == 1


def test_a_slot_of_a_place_is_kept_alive(limiter: Limiter) -> None:
    limiter.define(Limit(API, in_flight=1, lease_s=0.6, heartbeat_s=0.1, start_within_s=0.2))
    slot = granted(limiter.ask(API, place="job-1"))
    gives_up_at = time.monotonic() + 1.5
    while time.monotonic() < gives_up_at:
        with pytest.raises(PlaceHeld):
            limiter.ask(API, place="job-1")
        time.sleep(0.05)
    slot.release()
    until(lambda: isinstance(limiter.ask(API, place="job-1"), Slot))


def test_who_leaves_has_no_place_any_more(limiter: Limiter) -> None:
    limiter.define(Limit(API, in_flight=1))
    slot = granted(limiter.ask(API, place="job-1"))
    limiter.ask(API, place="job-2")
    assert limiter.leave(API, place="job-2")
    assert limiter.usage(API).waiting == 0
    assert not limiter.leave(API, place="job-1")
    slot.release()


def test_what_never_fits_is_an_error_and_leaves_no_place(limiter: Limiter) -> None:
    limiter.define(Limit(API, windows=[Window(10, per_s=60, unit="pages")]))
    with pytest.raises(NeverFits):
        limiter.ask(API, place="job-1", units={"pages": 11})
    assert limiter.usage(API).waiting == 0


def test_what_cannot_be_asked_is_refused(limiter: Limiter) -> None:
    limiter.define(Limit(API, in_flight=1))
    with pytest.raises(BadInput):
        limiter.ask(API, place="")
    with pytest.raises(BadInput):
        limiter.ask(API, place="job-1", keep_s=1)
    with pytest.raises(BadInput):
        limiter.ask(API, place="job-1", holder="\n")
    with pytest.raises(NotFound):
        limiter.ask("other", place="job-1")


def test_while_the_store_is_gone_it_says_so() -> None:
    store = Switchable()
    with Limiter(store) as limiter:
        limiter.define(Limit(API, in_flight=1))
        granted(limiter.ask(API, place="job-1")).release()
        store.down = True
        began_at = time.monotonic()
        with pytest.raises(StoreUnreachable):
            limiter.ask(API, place="job-2")
        assert time.monotonic() - began_at < 2
        store.down = False
        granted(limiter.ask(API, place="job-2")).release()


def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    store = Switchable()
    with Limiter(store) as limiter:
        limiter.define(Limit(API, in_flight=1))
        granted(limiter.ask(API, place="job-1")).release()
        store.lost = 1
        with pytest.raises(StoreUnreachable):
            limiter.ask(API, place="job-2", holder="h")
        slot = granted(limiter.ask(API, place="job-2", holder="h"))
        with pytest.raises(PlaceHeld):
            limiter.ask(API, place="job-2")
        assert slot.held


_OWNER = """
import sys, time
from forebay.limits import Limiter, Slot
with Limiter(sys.argv[1], environment=sys.argv[2]) as limiter:
    slot = limiter.ask("api", place="job-1")
    assert isinstance(slot, Slot), slot
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("place", ["sqlite", "redis", "postgres"], indirect=True)
def test_an_owner_that_is_killed_blocks_its_place_for_its_lease(place: Place) -> None:
    with place.limiter() as limiter:
        limiter.define(Limit(API, in_flight=2, lease_s=1.5, heartbeat_s=0.3, call_timeout_s=2))
        command = [sys.executable, "-c", _OWNER, place.address, place.environment]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "held\n"
            with pytest.raises(PlaceHeld):
                limiter.ask(API, place="job-1")
            os.kill(owner.pid, signal.SIGKILL)
            killed_at = time.monotonic()

        def is_mine() -> bool:
            try:
                return isinstance(limiter.ask(API, place="job-1", holder="mine"), Slot)
            except PlaceHeld:
                return False

        until(is_mine)
        assert time.monotonic() - killed_at < 10
        # The call of the one that was killed counts as well, until it is over.
        assert limiter.usage(API).in_flight == 2
        until(lambda: limiter.usage(API).in_flight == 1)


_DELIVERY = """
import sys, time
from forebay.limits import Limiter, PlaceHeld
with Limiter(sys.argv[1], environment=sys.argv[2]) as limiter:
    limiter.usage("api")
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        slot = limiter.ask("api", place="job-1")
    except PlaceHeld:
        print("held", flush=True)
    else:
        print("ran", flush=True)
        sys.stdin.readline()
        slot.release()
"""


@pytest.mark.parametrize("place", ["sqlite", "redis", "postgres"], indirect=True)
def test_of_processes_that_are_delivered_the_same_at_once_one_runs(place: Place) -> None:
    with place.limiter() as limiter, ExitStack() as processes:
        limiter.define(Limit(API, in_flight=9))
        command = [sys.executable, "-c", _DELIVERY, place.address, place.environment]
        opened = [
            processes.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(4)
        ]
        said = [_says(each) for each in opened]
        assert said == ["ready"] * 4
        for each in opened:
            _tells(each)
        outcomes = [_says(each) for each in opened]
        assert sorted(outcomes) == ["held"] * 3 + ["ran"]
        assert limiter.usage(API).in_flight == 1
        _tells(opened[outcomes.index("ran")])
        until(lambda: limiter.usage(API).in_flight == 0)


def _says(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _tells(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
