"""An application whose jobs tell of themselves."""

from __future__ import annotations

import os

from forebay import Forebay
from forebay.engine.context import Context
from forebay.engine.signals import Permanent

app = Forebay(os.environ["TEST_LEDGER"], blobs=os.environ["TEST_BLOBS"])
words = app.pipeline("words")


@words.split()
async def split(ctx: Context, text: str) -> list[dict[str, str]]:
    return [{"line": line} for line in text.splitlines()]


@words.process(max_retries=0)
async def count(ctx: Context, line: str) -> int:
    if line == "bad":
        raise Permanent("It is bad.")
    return len(line.split())


@words.merge()
async def merge(ctx: Context, text: str) -> int:
    return sum([chunk.result async for chunk in ctx.chunks()])  # type: ignore[misc]  # of count
