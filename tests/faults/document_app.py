"""An application whose processor writes down each call, for a test that kills it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pypdfium2

from forebay import Chunk, Context, Forebay, Page

app = Forebay()


def note(line: str) -> None:
    with Path(os.environ["NOTED"]).open("a") as log:
        log.write(line)


@app.processor("noted", max_pages=5, version="1")
async def noted(_: Context, chunk: Chunk) -> list[Page]:
    note(f"{chunk.page_start} {time.time()}\n")
    await asyncio.sleep(0.15)
    document = pypdfium2.PdfDocument(chunk.read())
    return [Page.of_text(page.get_textpage().get_text_range(), processor="noted", version="1") for page in document]
