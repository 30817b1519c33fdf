from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from forebay.errors import BadInput, Busy, NotFound
from forebay.limits import (
    Limit,
    Limiter,
    Slot,
    Window,
    aacquire_slot,
    acquire_slot,
    get_current_in_flight,
    get_current_usage,
    plain,
    release_slot,
    use,
)
from tests.unit.builders import assert_helpful


@pytest.fixture(autouse=True)
def limiter() -> Iterator[Limiter]:
    with Limiter("memory://") as made:
        made.define(Limit("adobe", in_flight=2, windows=(Window(100, 60),)))
        use(made)
        yield made
        while release_slot("adobe"):
            pass
    use(None)


def becomes(count: int) -> None:
    """A release is not waited for, so its store hears of it a moment later."""
    ends_at = time.monotonic() + 30
    while get_current_in_flight("adobe") != count:
        assert time.monotonic() < ends_at
        time.sleep(0.001)


def test_a_slot_is_true_and_counts_until_it_is_released() -> None:
    slot = acquire_slot("adobe")
    assert bool(slot) is True
    assert get_current_in_flight("adobe") == 1
    assert release_slot(slot)
    becomes(0)


def test_releasing_twice_is_harmless() -> None:
    slot, other = acquire_slot("adobe"), acquire_slot("adobe")
    assert [release_slot(slot), release_slot(slot), release_slot(slot)] == [True, False, False]
    becomes(1)
    assert release_slot(other)
    assert not release_slot("adobe")


def test_an_api_type_releases_the_newest_slot_of_it() -> None:
    first, second = acquire_slot("adobe"), acquire_slot("adobe")
    assert release_slot("adobe")
    assert (first.held, second.held) == (True, False)
    assert release_slot("adobe")
    assert not release_slot("adobe")


def test_being_refused_is_busy() -> None:
    acquire_slot("adobe")
    acquire_slot("adobe")
    with pytest.raises(Busy) as caught:
        acquire_slot("adobe", 0)
    assert caught.value.limit == "adobe"


def test_an_api_type_releases_nothing_of_another_thread() -> None:
    slot = acquire_slot("adobe")
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(release_slot("adobe")))
    thread.start()
    thread.join()
    assert (answers, slot.held) == ([False], True)


def test_a_slot_may_be_released_by_another_thread() -> None:
    slot = acquire_slot("adobe")
    thread = threading.Thread(target=release_slot, args=(slot,))
    thread.start()
    thread.join()
    assert not slot.held
    assert not release_slot("adobe")


def test_many_threads_never_hold_more_than_allowed() -> None:
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            acquire_slot("adobe")
            most.append(get_current_in_flight("adobe"))
            release_slot("adobe")

    threads = [threading.Thread(target=work) for _ in range(5)]
    plain._default().configure("adobe", windows=())
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 100
    assert max(most) <= 2
    becomes(0)


async def _hold(entered: asyncio.Event, go: asyncio.Event) -> Slot:
    slot = await aacquire_slot("adobe")
    entered.set()
    await go.wait()
    return slot


def test_an_api_type_releases_nothing_of_another_task() -> None:
    async def main() -> None:
        entered, go = asyncio.Event(), asyncio.Event()
        outer = await aacquire_slot("adobe")
        task = asyncio.create_task(_hold(entered, go))
        await entered.wait()
        assert release_slot("adobe")  # the newest of all is the other task's
        assert not outer.held
        assert not release_slot("adobe")
        go.set()
        slot = await task
        assert slot.held
        release_slot(slot)

    asyncio.run(main())


def test_a_child_task_does_not_release_what_its_parent_holds() -> None:
    async def child() -> bool:
        return release_slot("adobe")

    async def main() -> None:
        slot = acquire_slot("adobe", 0)
        assert not await asyncio.create_task(child())
        assert slot.held
        assert release_slot("adobe")

    asyncio.run(main())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_holds_nothing_of_its_parents() -> None:
    slot = acquire_slot("adobe")
    child = os.fork()
    if child == 0:
        os._exit(int(release_slot("adobe")))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert slot.held


def test_usage_has_both_bounds_in_percent() -> None:
    acquire_slot("adobe")
    usage = get_current_usage("adobe")
    assert usage["in_flight"] == 1
    assert (usage["max_in_flight"], usage["in_flight_utilization"], usage["in_flight_available"]) == (2, 50.0, 1)
    assert (usage["rpm"], usage["max_rpm"], usage["rpm_utilization"], usage["rpm_available"]) == (1, 100, 1.0, 99)
    assert (usage["waiting"], usage["paused"], usage["cooldown_s"], usage["next_in_s"]) == (0, False, 0.0, 0.0)


def test_usage_of_what_is_not_bounded_is_none(limiter: Limiter) -> None:
    limiter.define(Limit("five", in_flight=5))
    usage = get_current_usage("five")
    assert usage["rpm"] is usage["max_rpm"] is usage["rpm_utilization"] is None
    limiter.define(Limit("rate", windows=(Window(10, 10), Window(9, 5, "pages"))))
    usage = get_current_usage("rate")
    assert usage["max_in_flight"] is usage["in_flight_utilization"] is None
    assert usage["max_rpm"] == 60


def test_one_limit_serves_every_api_type_which_labels_its_slots(limiter: Limiter) -> None:
    acquire_slot("autotag")
    acquire_slot("extract", label="scan.pdf")
    with pytest.raises(Busy):
        acquire_slot("autotag", 0)
    assert get_current_in_flight() == get_current_in_flight("extract") == 2
    assert get_current_usage()["max_in_flight"] == 2
    labels = {call.label for holder in limiter.usage("adobe").holders for call in holder.calls}
    assert labels == {"autotag", "extract: scan.pdf"}
    assert release_slot("extract")
    assert not release_slot("extract")
    becomes(1)
    assert release_slot("autotag")


def test_an_api_type_in_an_event_loop_takes_from_the_only_limit() -> None:
    async def main() -> None:
        slot = await aacquire_slot("autotag")
        assert slot.limit == "adobe"
        assert release_slot("autotag")

    asyncio.run(main())


def test_a_limit_of_that_name_goes_before_the_only_one_and_the_accounts_before_both(limiter: Limiter) -> None:
    limiter.define(Limit("extract", in_flight=1))
    assert acquire_slot("extract").limit == "extract"
    assert release_slot("extract")
    with pytest.raises(NotFound, match="several limits") as caught:
        acquire_slot("autotag")
    assert_helpful(caught.value)
    with pytest.raises(NotFound):
        get_current_in_flight()
    use(limiter, limit="adobe")
    assert acquire_slot("extract").limit == acquire_slot("autotag").limit == "adobe"
    becomes(2)
    assert get_current_usage()["in_flight"] == 2
    assert release_slot("extract")
    assert release_slot("autotag")


def test_a_limit_that_nobody_defined_is_not_found(limiter: Limiter) -> None:
    limiter.define(Limit("another", in_flight=1))
    with pytest.raises(NotFound) as caught:
        acquire_slot("nobody")
    assert_helpful(caught.value)
    with pytest.raises(NotFound):
        get_current_usage("nobody")


def test_what_is_no_slot_is_refused() -> None:
    with pytest.raises(BadInput) as caught:
        release_slot(None)  # type: ignore[arg-type]
    assert_helpful(caught.value)


def test_without_a_limiter_of_ones_own_it_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    use(None)
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.delenv("FOREBAY_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FOREBAY_LIMITS", "memory://")
    monkeypatch.setenv("FOREBAY_LIMIT_ADOBE_IN_FLIGHT", "3")
    slot = acquire_slot("adobe")
    assert get_current_usage("adobe")["max_in_flight"] == 3
    assert plain._default() is plain._default()
    release_slot(slot)
    plain._default().close()
