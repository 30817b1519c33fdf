"""The last step of a document: merge what was read of it, whole or with its holes named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from forebay.blobs import BlobRef
from forebay.engine.context import Context
from forebay.engine.signals import Permanent
from forebay.errors import NotFound, ResultCorrupt
from forebay.model import payload as json_text
from forebay.model.job import Event, member_id
from forebay.model.outcome import Canceled, Completed
from forebay.model.payload import Json
from forebay.model.task import Role, Status, Task
from forebay.pipelines.cutting import Order
from forebay.pipelines.facts import Summed
from forebay.pipelines.ground import Ground
from forebay.pipelines.merging import Hole, Piece, merged
from forebay.pipelines.part import Part
from forebay.rules.verdict import ErrorClass


async def merge(ground: Ground, ctx: Context, order: Order) -> Completed | Canceled:
    """A result that is gone or damaged has its chunk run again: this merge is over, and another will follow."""
    return await asyncio.to_thread(_merge, ground, ctx, order)


def _merge(ground: Ground, ctx: Context, order: Order) -> Completed | Canceled:
    if ctx.job_id is None:
        raise Permanent("A merge is part of a job.", error_class=ErrorClass.BUG)
    split = ground.ledger().get(member_id(ctx.job_id, Role.SPLIT, 1))
    said = split.result if split else None
    if not isinstance(said, dict):
        raise Permanent("The document was not split.", error_class=ErrorClass.BUG)
    result = merged(
        {"sha256": order.document, "media_type": order.media_type},
        int(said["pages"]),  # type: ignore[arg-type]  # written by our own split
        _pieces(ground, ctx),
        repaired=bool(said["repaired"]),
        notes=[str(note) for note in said["notes"]],  # type: ignore[union-attr]  # same
    )
    whole = Summed(result)
    try:
        ref = ground.blobs().put(ctx.tenant, whole)
    except _Lost as lost:
        ctx.lost(lost.task)
        return Canceled(text=f"The result of chunk {lost.task.chunk_index} is lost", events=(lost.event,))
    return Completed(result_json=json_text.encode(whole.summary), result_blob=ref.sha256)


class _Lost(Exception):
    """A stored result that cannot be read, and how its job tells of it."""

    def __init__(self, task: Task, name: str, fields: dict[str, Json]) -> None:
        super().__init__(name)
        self.task = task
        self.event = Event(name=name, fields={"index": task.chunk_index, "expected": task.result_blob, **fields})


def _pieces(ground: Ground, ctx: Context) -> Iterator[Piece]:
    """Chunks that were replanned have no pages of their own; their pieces have."""
    for task in ctx.chunks().tasks():
        payload = task.payload
        if not isinstance(payload, dict):
            raise Permanent(f"Chunk {task.chunk_index} has no pages.", error_class=ErrorClass.BUG)
        lines: Callable[[], list[bytes]] | Hole
        if task.status is not Status.COMPLETED:
            lines = Hole(task.error_class or "unknown", task.error_text or "")
        elif task.result_blob is not None:
            lines = _reader(ground, task, task.result_blob)
        else:
            continue
        part = Part.of(payload)
        yield Piece(document=part.order.document, page_start=part.pages[0], page_end=part.pages[1], lines=lines)


def _reader(ground: Ground, task: Task, blob: str) -> Callable[[], list[bytes]]:
    def read() -> list[bytes]:
        try:
            return ground.blobs().get(BlobRef(task.tenant, blob)).splitlines(keepends=True)
        except ResultCorrupt as error:
            raise _Lost(task, "chunk_result_checksum_mismatch", {"computed": error.computed}) from None
        except NotFound:
            raise _Lost(task, "chunk_result_load_failed", {}) from None

    return read
