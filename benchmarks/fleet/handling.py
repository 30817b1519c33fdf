"""What the handler of every engine does: mark that it ran, and then nothing, a sleep, or a call to the provider."""

from __future__ import annotations

import asyncio
import os

from benchmarks.fleet.orders import Orders
from benchmarks.work.marks import Marks
from chaos.limits.lines import AsyncLine

LIMIT = "api"


class Handling:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._call = {"limit": LIMIT, "work_s": orders.work_s, "units": 1, "who": str(os.getpid())}
        self._idle: list[AsyncLine] = []
        self.note = Marks(orders.marks).note
        self.works = orders.work_s > 0

    async def work(self) -> None:
        if not self._orders.provider:
            await asyncio.sleep(self._orders.work_s)
            return
        # A connection has one call at a time.
        line = self._idle.pop() if self._idle else await AsyncLine.to(self._orders.provider)
        answer = await line.ask(self._call)
        self._idle.append(line)
        if answer["status"] != 200:
            raise RuntimeError(f"the provider answered {answer}")
