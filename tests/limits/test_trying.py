"""Slots that are tried for once, by many at the same time: none is lost, and nobody is told of another's error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from forebay.errors import Busy
from forebay.limits import Limit, Limiter
from tests.limits.conftest import Place
from tests.limits.ground import until

_THREADS = 8
_ROUNDS = 40


@pytest.fixture
def limiter(place: Place) -> Iterator[Limiter]:
    with place.limiter() as made:
        made.define(Limit("api", in_flight=2, call_timeout_s=30))
        yield made


def test_threads_that_try_once_lose_no_slot_and_end_no_thread(limiter: Limiter) -> None:
    strange: list[BaseException] = []

    def work() -> None:
        for _ in range(_ROUNDS):
            try:
                with limiter.slot("api", timeout_s=0):
                    pass
            except Busy:
                pass
            except BaseException as error:  # noqa: BLE001 - the point of the test
                strange.append(error)

    threads = [threading.Thread(target=work) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not strange
    until(lambda: limiter.usage("api").in_flight == 0)

    async def later() -> None:
        async with limiter.slot("api", timeout_s=5):
            pass

    asyncio.run(later())
