"""Remembers what a provider does for a chunk, so that whoever comes next goes on with it and pays for nothing again."""

from __future__ import annotations

import asyncio
from typing import Any

from forebay.engine.context import Context
from forebay.model import payload as json_text
from forebay.model.exchange import Remembered
from forebay.model.payload import Json
from forebay.pipelines.budgeting import book
from forebay.pipelines.ground import Ground
from forebay.pipelines.part import Part
from forebay.processors.base import UnderWay
from forebay.rules import chunks as rules

_AT_ONCE = 8


class Recorded(UnderWay):
    """Entries in the ledger, one after the other, each under a key that follows from the chunk's own.

    The first under a key stays: of two workers that begin, the second finds out and goes on with the first one's.
    """

    def __init__(self, ground: Ground, ctx: Context, part: Part, key: str) -> None:
        super().__init__()
        self._ground = ground
        self._ctx = ctx
        self._part = part
        self._key = key
        self._written = 0

    def recall(self) -> None:
        """Blocking; all that was written up to now."""
        while True:
            keys = [rules.entry_key(self._key, self._written + n) for n in range(_AT_ONCE)]
            known = {each.key: each.result_json for each in self._ground.ledger().recall(self._ctx.tenant, keys)}
            for key in keys:
                if key not in known:
                    return
                self._take(known[key] or "{}")

    def _take(self, entry_json: str) -> None:
        self._written += 1
        entry: Any = json_text.parse(entry_json)
        self.job = None if rules.is_over(entry_json) else entry
        self.count += self.job is not None

    async def begin(self, job: dict[str, Json]) -> dict[str, Json]:
        book(self._ctx, self._part, self._ground.processors[self._part.order.processor])
        await self._append(job)
        return self.job or job

    async def end(self, why: str) -> None:
        await self._append({rules.OVER: why})

    async def _append(self, entry: dict[str, Json]) -> None:
        entry_of = Remembered(
            tenant=self._ctx.tenant,
            key=rules.entry_key(self._key, self._written),
            document=self._part.order.document,
            result_json=json_text.encode(entry),
        )

        def write() -> None:
            self._ground.ledger().remember([entry_of])
            self.recall()

        # Whoever is canceled now has paid already.
        await asyncio.shield(asyncio.to_thread(write))


def recalled(ground: Ground, ctx: Context, part: Part, key: str) -> Recorded:
    """Blocking."""
    found = Recorded(ground, ctx, part, key)
    found.recall()
    return found
