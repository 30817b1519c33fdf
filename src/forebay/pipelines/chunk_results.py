"""Reads the stored result of one chunk of pages, with the names that programs know such results by."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from forebay.blobs import BlobRef, Blobs
from forebay.errors import BadInput, NotCompleted
from forebay.model.document import BETWEEN_PAGES
from forebay.model.payload import Json
from forebay.model.task import Status, Task
from forebay.pipelines.pipeline import OCR


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkResult:
    """What was read of a chunk's pages.

    `bounding_boxes` has one entry for each word: its text, its page in the document, its box in shares of the page
    (left, top, right, bottom) and its confidence. `checksum` is the sha256 of the stored bytes, checked on reading.
    """

    chunk_index: int
    page_start: int
    page_end: int
    page_count: int
    full_text: str
    bounding_boxes: tuple[dict[str, Json], ...]
    overall_confidence: float | None
    checksum: str


def read(blobs: Blobs, task: Task) -> ChunkResult:
    """Blocking. ResultCorrupt or NotFound if the stored bytes are not what they were."""
    if task.status is not Status.COMPLETED:
        raise NotCompleted(f"The {task.title} is {task.status}.", remedy="Wait for it, or retry its job.")
    payload: Any = task.payload
    pages: Any = payload.get("pages") if isinstance(payload, dict) else None
    if pages is None or "article" in payload or not task.kind.startswith(f"{OCR}."):
        raise BadInput(f"The {task.title} is not a chunk of pages of `ocr`.", remedy="Read it by `app.result`.")
    if task.result_blob is None:
        raise NotCompleted(
            f"The {task.title} was cut into smaller chunks.", remedy="Read those: `replanned` in its result names them."
        )
    lines = blobs.get(BlobRef(task.tenant, task.result_blob)).splitlines()
    texts: list[str] = []
    boxes: list[dict[str, Json]] = []
    first = int(pages[0])
    for number, line in enumerate(lines, first):
        page = json.loads(line)
        texts.append(page["text"])
        boxes += [
            {"text": word["text"], "page": number, "box": word["box"], "confidence": word["confidence"]}
            for block in page["blocks"]
            for row in block["lines"]
            for word in row["words"]
        ]
    known: list[Any] = [box["confidence"] for box in boxes]
    return ChunkResult(
        chunk_index=task.chunk_index or 0,
        page_start=first,
        page_end=int(pages[1]),
        page_count=len(lines),
        full_text=BETWEEN_PAGES.join(texts),
        bounding_boxes=tuple(boxes),
        overall_confidence=round(sum(known) / len(known), 4) if known else None,
        checksum=task.result_blob,
    )
