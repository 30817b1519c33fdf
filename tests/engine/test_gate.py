"""Who runs next where so many may run at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from forebay.engine.gate import Gate


class Attempt:
    ends_at = math.inf

    def __init__(self, name: str, began: list[str]) -> None:
        self._name = name
        self._began = began

    def go(self) -> None:
        self._began.append(self._name)

    def overdue_now(self) -> None:
        raise AssertionError("it has all the time there is")


def began(fill: Callable[[Gate, Callable[[str], Attempt]], None], size: int = 1) -> list[str]:
    """Who began, in which order, as one after the other ends."""
    order: list[str] = []
    attempts: dict[str, Attempt] = {}

    def named(name: str) -> Attempt:
        return attempts.setdefault(name, Attempt(name, order))

    async def scenario() -> None:
        gate = Gate(size)
        fill(gate, named)
        ended = 0
        while ended < len(order):
            gate.freed(named(order[ended]))
            ended += 1

    asyncio.run(scenario())
    return order


def test_first_come_first_served() -> None:
    def fill(gate: Gate, named: Callable[[str], Attempt]) -> None:
        for name in "abcd":
            gate.add(named(name))

    assert began(fill) == began(fill, size=2) == list("abcd")


def test_who_holds_a_slot_goes_before_those_who_hold_none_and_in_the_order_of_their_coming() -> None:
    def fill(gate: Gate, named: Callable[[str], Attempt]) -> None:
        for name in "abc":
            gate.add(named(name))
        for name in "xyz":
            gate.add(named(name), first=True)

    assert began(fill) == list("axyzbc")


def test_who_is_taken_back_does_not_begin_and_who_runs_cannot_be() -> None:
    def fill(gate: Gate, named: Callable[[str], Attempt]) -> None:
        for name in "ab":
            gate.add(named(name))
        gate.add(named("x"), first=True)
        assert gate.waits
        assert gate.take_back(named("x"))
        assert gate.take_back(named("b"))
        assert not gate.take_back(named("a"))
        assert not gate.waits

    assert began(fill) == ["a"]
