"""Remembers each answer that was paid for by itself, so that what fails after it never buys it again."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from forebay.engine.context import Context
from forebay.model import payload as json_text
from forebay.model.exchange import Remembered
from forebay.model.payload import Json
from forebay.stores.base import Ledger


@dataclass(frozen=True, slots=True)
class Answers:
    """Of one tenant, each known by its question; deleting a document deletes what is remembered of it.

    Without `reuse` they are the task's own: those of others are not looked for.
    """

    ledger: Callable[[], Ledger]

    async def given(
        self, ctx: Context, document: str, question: list[Json], ask: Callable[[], Awaitable[Json]], *, reuse: bool
    ) -> Json:
        """The answer that is known, else the one that is asked for now."""
        asked = [*question, None if reuse else ctx.task_id]
        key = hashlib.sha256(json.dumps(["answer", *asked], ensure_ascii=False).encode()).hexdigest()
        known = await asyncio.to_thread(self.ledger().recall, ctx.tenant, [key])
        if known and known[0].result_json is not None:
            return json_text.parse(known[0].result_json)
        answer = await ask()
        entry = Remembered(tenant=ctx.tenant, key=key, document=document, result_json=json_text.encode(answer))
        # Whoever is canceled now has paid already.
        await asyncio.shield(asyncio.to_thread(self.ledger().remember, [entry]))
        return answer
