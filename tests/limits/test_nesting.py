"""A slot inside a slot of the same limit could wait for itself, and is refused at once; other patterns are not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from forebay.errors import AlreadyHeld, Conflict
from forebay.limits import Limit, Limiter, Window, acquire_slot, release_slot, use

SOON_S = 10.0


@pytest.fixture
def limiter() -> Iterator[Limiter]:
    with Limiter("memory://") as made:
        made.define(Limit("api", in_flight=3))
        made.define(Limit("other", in_flight=1))
        made.define(Limit("rate", windows=[Window(100, per_s=1)]))
        yield made


def test_the_same_thread_is_refused_at_once(limiter: Limiter) -> None:
    began_at = time.monotonic()
    with limiter.slot("api"):
        with pytest.raises(AlreadyHeld, match="'api'"), limiter.slot("api", timeout_s=SOON_S):
            raise AssertionError("it was let in")
        with limiter.slot("other"):
            pass
    assert time.monotonic() - began_at < SOON_S
    with limiter.slot("api"):
        pass


def test_the_same_task_is_refused_and_others_are_not(limiter: Limiter) -> None:
    async def another() -> None:
        async with limiter.slot("api", timeout_s=SOON_S):
            pass

    async def work() -> None:
        async with limiter.slot("api"):
            with pytest.raises(AlreadyHeld):
                async with limiter.slot("api"):
                    raise AssertionError("it was let in")
            await asyncio.gather(another(), another())

    asyncio.run(work())


def test_a_thread_that_was_started_inside_is_another(limiter: Limiter) -> None:
    entered = threading.Event()

    def work() -> None:
        with limiter.slot("api", timeout_s=SOON_S):
            entered.set()

    with limiter.slot("api"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(SOON_S)
    assert entered.is_set()


def test_what_does_not_wait_for_itself_may_be_nested(limiter: Limiter) -> None:
    with limiter.slot("rate"), limiter.slot("rate"):
        pass
    with limiter.slot("api"), limiter.slot("api", timeout_s=0):
        held = limiter.try_slot("api")
        assert held is not None
        held.release()


def test_slots_without_a_block_may_be_several(limiter: Limiter) -> None:
    use(limiter)
    try:
        for _ in range(3):
            acquire_slot("api")
        assert limiter.usage("api").in_flight == 3
        assert [release_slot("api") for _ in range(4)] == [True, True, True, False]
    finally:
        use(None)


def test_a_slot_that_was_tried_for_is_given_back_by_its_block(limiter: Limiter) -> None:
    slot = limiter.try_slot("other")
    assert slot is not None
    with slot:
        assert limiter.try_slot("other") is None
    assert not slot.held
    with pytest.raises(Conflict), slot:
        pass


def test_a_slot_that_nobody_has_any_more_refuses_nothing(limiter: Limiter) -> None:
    limiter.slot("api").__enter__()
    with limiter.slot("api", timeout_s=SOON_S):
        pass
