"""An application whose processors write down each call; files beside them say what they are to do."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pypdfium2

from forebay import Chunk, Context, Forebay, Limit, Page, Permanent, Retry

app = Forebay()
app.limit(Limit("api", in_flight=4))


@app.processor("noted", max_pages=2)
async def noted(_: Context, chunk: Chunk) -> list[Page]:
    with Path("calls").open("a") as log:  # noqa: ASYNC230 - a line
        log.write(f"{chunk.page_start}-{chunk.page_end}\n")
    await asyncio.sleep(_told("sleep"))
    await asyncio.to_thread(time.sleep, _told("block"))
    if chunk.page_start <= _told("refuse") <= chunk.page_end:
        raise Permanent("unreadable", error_class="refused")
    if chunk.page_start <= _told("down") <= chunk.page_end:
        raise Retry("it is down", error_class="service_unavailable", delay_s=0)
    document = pypdfium2.PdfDocument(chunk.read())
    more = " word" * int(_told("words"))
    texts = [page.get_textpage().get_text_range() for page in document]
    return [Page.of_text(text + more, processor="noted", version="1") for text in texts]


@app.processor("paid", max_pages=2, limit="api")
async def paid(ctx: Context, chunk: Chunk) -> list[Page]:
    return await noted(ctx, chunk)


def _told(what: str) -> float:
    file = Path(what)
    return float(file.read_text()) if file.exists() else 0.0
