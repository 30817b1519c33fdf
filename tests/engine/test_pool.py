"""Who goes to a handler child next, and how children end with their pool."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.engine.children import Bounds, ChildEnded
from forebay.engine.pool import Pool


def test_who_holds_a_slot_goes_before_those_who_hold_none_and_in_the_order_of_their_coming() -> None:
    def attempt(name: str, slot: object = None) -> Any:  # noqa: ANN401 - as much of one as matters while it waits
        return SimpleNamespace(name=name, slot=slot)

    async def scenario() -> list[str]:
        pool = Pool("app", 1, Bounds(), refused=lambda _: None)
        for name in "abc":
            pool.add(attempt(name))
        for name in "xyz":
            pool.add(attempt(name, slot="held"))
        return [vars(each)["name"] for each in pool._waiting]

    assert asyncio.run(scenario()) == list("xyzabc")


class Deaf:
    """As much of a child as a pool sees of one that did not begin, and that takes its time to end."""

    pid = 7
    ended = 0

    def __init__(self, *_: object, **__: object) -> None: ...

    async def connect(self) -> None:
        raise ChildEnded(None, None)

    async def kill(self) -> int:
        await asyncio.sleep(0.1)
        Deaf.ended += 1
        return 0


def test_a_child_that_is_being_ended_has_ended_when_its_pool_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.engine.pool.Child", Deaf)

    async def scenario() -> None:
        pool = Pool("app", 2, Bounds(), refused=lambda _: None)
        pool.start()
        await asyncio.sleep(0.02)
        await pool.close()

    asyncio.run(scenario())
    assert Deaf.ended == 2
