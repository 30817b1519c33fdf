"""Remembers what a chunk was cut into that could not be read whole, so that nobody pays to find it out again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forebay.engine.context import Context
from forebay.model import payload as json_text
from forebay.model.exchange import Remembered
from forebay.model.outcome import Failed
from forebay.model.payload import Json
from forebay.pipelines.cutting import stored
from forebay.pipelines.ground import Ground
from forebay.pipelines.part import Part
from forebay.rules import chunks as rules


def keep(ground: Ground, ctx: Context, part: Part, failed: Failed, pieces: Sequence[tuple[int, int]]) -> None:
    """Blocking. What it was cut into, and why."""
    ranges: list[Json] = [list(pages) for pages in pieces]
    entry: dict[str, Json] = {"pieces": ranges, "error_class": failed.error_class, "error_text": failed.text}
    ground.ledger().remember(
        [
            Remembered(
                tenant=ctx.tenant,
                key=_key(ground, part, part.pages),
                document=part.order.document,
                result_json=json_text.encode(entry),
            )
        ]
    )


def known(ground: Ground, ctx: Context, part: Part) -> Failed | None:
    """Blocking. Why it was cut, if something of its pieces is stored; if nothing is, the whole may do this time."""
    if not part.order.reuse:
        return None
    why: dict[str, Any] | None = None
    level = [part.pages]
    while level:
        found = ground.ledger().recall(ctx.tenant, [_key(ground, part, pages) for pages in level])
        cuts: list[Any] = [json_text.parse(each.result_json or "null") for each in found]
        level = [(first, last) for cut in cuts for first, last in cut["pieces"]]
        why = why or next(iter(cuts), None)
        if why is not None and stored(ground, part.order, ctx.tenant, level):
            return Failed(error_class=why["error_class"], text=why["error_text"])
    return None


def _key(ground: Ground, part: Part, pages: tuple[int, int]) -> str:
    return rules.cut_key(part.order.result_key(pages, ground.processors[part.order.processor]))
