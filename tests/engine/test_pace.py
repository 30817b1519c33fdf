"""When what is done is worth an exchange of its own."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forebay.engine.pace import Pace

FAR = float("inf")


def pace(*, backed_up: bool = False) -> Pace:
    room = SimpleNamespace(blocks=False, has_some=lambda _ready: True)
    quotas = SimpleNamespace(hungry=False, backed_up=backed_up, curious=lambda _ready: True)
    return Pace(cast("Any", room), cast("Any", SimpleNamespace(waits=False)), cast("Any", quotas), 50)


def test_what_is_done_goes_at_once_unless_tasks_wait_for_slots() -> None:
    alone, behind = pace(), pace(backed_up=True)
    for each in (alone, behind):
        each.ended(done=1, in_hand=3)
    assert alone.is_time(FAR, set(), done=1, in_hand=3)
    assert not behind.is_time(FAR, set(), done=1, in_hand=3)
    assert behind.is_time(FAR, set(), done=50, in_hand=3), "a whole batch does not wait"


def test_what_lingers_does_so_from_its_own_end_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("forebay.engine.pace.time", SimpleNamespace(monotonic=lambda: now))
    behind = pace(backed_up=True)
    assert not behind.is_time(FAR, set(), done=0, in_hand=3)
    now = 160.0
    behind.ended(done=1, in_hand=3)
    assert not behind.is_time(FAR, set(), done=1, in_hand=3)
    now = 160.006
    assert behind.is_time(FAR, set(), done=1, in_hand=3)


def test_the_first_that_ends_wakes_a_sleeper_and_the_second_of_a_batch_does_not() -> None:
    async def wakes() -> tuple[bool, bool]:
        behind = pace(backed_up=True)
        sleeping = asyncio.ensure_future(behind.sleep(60, done=0))
        await asyncio.sleep(0)
        behind.ended(done=2, in_hand=3)
        await asyncio.sleep(0)
        by_the_second = sleeping.done()
        behind.ended(done=1, in_hand=3)
        await asyncio.wait_for(sleeping, 5)
        return by_the_second, sleeping.done()

    assert asyncio.run(wakes()) == (False, True)
