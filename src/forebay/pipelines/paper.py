"""Makes the Markdown of a document from what was read of its pages."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import IO

from forebay.pipelines import reading
from forebay.pipelines.cutting import Order
from forebay.pipelines.exports.markdown import page_text
from forebay.pipelines.merging import merged
from forebay.pipelines.ocr import piece
from forebay.pipelines.whole import Result


def markdown_of(order: Order, page_count: int, found: Iterable[Result], output: IO[bytes]) -> list[int]:
    """Blocking. Writes it, and returns the character that each page begins with; raises Lost."""
    starts: list[int] = []
    at = 0
    with tempfile.TemporaryFile() as whole:
        whole.writelines(merged({"sha256": order.document}, page_count, map(piece, found)))
        for page in reading.pages(whole):
            starts.append(at)
            text = page_text(page).strip("\n")
            if text.strip():
                text += "\n\n"
                output.write(text.encode())
                at += len(text)
    output.flush()
    return starts
