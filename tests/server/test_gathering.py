import asyncio
from collections.abc import Sequence

import pytest

from forebay.server.gathering import Gathering


class Store:
    """Answers with ten times each item once the gate is open; an item below 0 has an error, 0 fails the whole call."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.gate = asyncio.Event()

    async def run(self, items: Sequence[int]) -> list[int | Exception]:
        self.calls.append([*items])
        await self.gate.wait()
        if 0 in items:
            raise OSError("the disk is full")
        return [ValueError(f"{item}") if item < 0 else 10 * item for item in items]


def test_items_that_come_during_a_call_are_handed_to_the_next_one() -> None:
    async def use() -> None:
        store = Store()
        gathering = Gathering(store.run)
        first = asyncio.create_task(gathering.hand_in(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        later = [asyncio.create_task(gathering.hand_in(item)) for item in (2, 3, 4)]
        await asyncio.sleep(0.01)
        assert store.calls == [[1]]
        store.gate.set()
        assert await asyncio.gather(first, *later) == [10, 20, 30, 40]
        assert store.calls == [[1], [2, 3, 4]]
        assert await gathering.hand_in(5) == 50

    asyncio.run(use())


def test_an_error_of_one_item_is_its_own_and_one_of_the_call_is_everybodys() -> None:
    async def use() -> None:
        store = Store()
        store.gate.set()
        gathering = Gathering(store.run)
        fine, wrong = await asyncio.gather(gathering.hand_in(1), gathering.hand_in(-2), return_exceptions=True)
        assert (fine, repr(wrong)) == (10, "ValueError('-2')")
        answers = await asyncio.gather(*map(gathering.hand_in, (0, 1)), return_exceptions=True)
        assert [type(each) for each in answers] == [OSError, OSError]
        assert await gathering.hand_in(7) == 70

    asyncio.run(use())


def test_a_call_takes_no_more_items_than_it_may() -> None:
    async def use() -> None:
        store = Store()
        store.gate.set()
        gathering = Gathering(store.run, lambda items: min(2, len(items)))
        assert await asyncio.gather(*map(gathering.hand_in, range(1, 6))) == [10, 20, 30, 40, 50]
        assert store.calls == [[1, 2], [3, 4], [5]]

    asyncio.run(use())


def test_who_leaves_takes_only_their_own_item_along() -> None:
    async def use() -> None:
        store = Store()
        gathering = Gathering(store.run)
        first = asyncio.create_task(gathering.hand_in(1))
        await asyncio.sleep(0.01)
        second, third = (asyncio.create_task(gathering.hand_in(item)) for item in (2, 3))
        await asyncio.sleep(0.01)
        first.cancel()  # under way
        second.cancel()  # not yet
        store.gate.set()
        assert await third == 30
        assert store.calls == [[1], [3]]
        for left in (first, second):
            with pytest.raises(asyncio.CancelledError):
                await left

    asyncio.run(use())
