"""Hands what several requests want of a store to one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Gathering(Generic[Item, Answer]):
    """Makes one call at a time, and hands it all items that came during the call before.

    Each call begins after its items came, so no answer is older than its question. `run` answers each item, or has an
    error for it. `count` says how many of the first items one call may take.
    """

    def __init__(
        self,
        run: Callable[[list[Item]], Awaitable[Sequence[Answer | Exception]]],
        count: Callable[[Sequence[Item]], int] = len,
    ) -> None:
        self._run = run
        self._count = count
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._running: asyncio.Task[None] | None = None

    async def hand_in(self, item: Item) -> Answer:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = loop.create_task(self._run_all())
        return await future

    async def _run_all(self) -> None:
        try:
            while self._waiting:
                await self._run_first()
        finally:
            self._running = None

    async def _run_first(self) -> None:
        # An item whose caller has left before its turn is dropped.
        waiting = [(item, future) for item, future in self._waiting if not future.done()]
        count = self._count([item for item, _ in waiting]) if waiting else 0
        group, self._waiting = waiting[:count], waiting[count:]
        if not group:
            return
        answers: Sequence[Answer | Exception]
        try:
            answers = await self._run([item for item, _ in group])
        except Exception as error:  # noqa: BLE001 - whoever handed an item in gets it
            answers = [error] * len(group)
        for (_, future), answer in zip(group, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
