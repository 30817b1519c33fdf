"""Who goes to a handler child next."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from forebay.engine.children import Bounds
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
