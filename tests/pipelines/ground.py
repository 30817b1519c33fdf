"""Documents, an application that reads them, and a processor whose every call is written down."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2

from forebay import Context, Forebay
from forebay.model.document import Page
from forebay.model.job import Job, member_id
from forebay.model.query import Query
from forebay.model.task import Role, Status, Task
from forebay.processors.base import Chunk
from forebay.processors.function import FunctionProcessor
from tests.pipelines.works import Works

Answer = Callable[[Chunk], Sequence[Page]]


def pdf(page_count: int, text: str = "Page {}") -> bytes:
    """A document whose page n says "Page n"."""
    made = pikepdf.new()
    font = made.make_indirect(
        pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
    )
    for number in range(1, page_count + 1):
        page = made.add_blank_page(page_size=(595, 842))
        page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
        page.Contents = made.make_stream(f"BT /F1 24 Tf 72 700 Td ({text.format(number)}) Tj ET".encode())
    raw = io.BytesIO()
    made.save(raw, static_id=True)
    return raw.getvalue()


def texts(chunk: Chunk) -> list[str]:
    document = pypdfium2.PdfDocument(chunk.read())
    return [page.get_textpage().get_text_range() for page in document]


def as_pages(chunk: Chunk) -> list[Page]:
    return [Page.of_text(text, processor="noted", version="1") for text in texts(chunk)]


@dataclass
class Ground(Works):
    app: Forebay
    folder: Path
    calls: list[tuple[int, int]] = field(default_factory=list)
    answer: Answer = as_pages

    def register(self, *, max_pages: int = 2, **options: Any) -> None:  # noqa: ANN401 - of FunctionProcessor
        self.app.documents.pipeline.add(
            FunctionProcessor(name="noted", function=self._noted, max_pages=max_pages, **options)
        )

    async def _noted(self, ctx: Context, chunk: Chunk) -> Sequence[Page]:
        self.calls.append((chunk.page_start, chunk.page_end))
        await asyncio.sleep(0)
        return self.answer(chunk)

    def submit(self, raw: bytes, **terms: Any) -> str:  # noqa: ANN401 - of app.process
        return self.app.process(io.BytesIO(raw), name="scan.pdf", processor="noted", **terms).id

    def run(self, raw: bytes, **terms: Any) -> Job:  # noqa: ANN401 - same
        job_id = self.submit(raw, **terms)
        self.work()
        return self.job(job_id)

    def chunks(self, job_id: str) -> list[Task]:
        listed = self.app.ledger.list_tasks(Query(job_id=job_id, role=Role.CHUNK, size=500)).items
        found = [self.app.ledger.get(task.id) for task in listed]
        return [task for task in found if task is not None]

    def chunk(self, job_id: str, index: int) -> Task:
        found = self.app.ledger.get(member_id(job_id, Role.CHUNK, index))
        assert found is not None
        return found

    def result(self, job_id: str) -> dict[str, Any]:
        raw = self.app.result(job_id)
        assert isinstance(raw, bytes)
        whole: dict[str, Any] = json.loads(raw)
        return whole

    def events(self, job_id: str) -> list[tuple[str, dict[str, Any]]]:
        return [(event.name, dict(event.fields)) for event in self.app.ledger.events(job_id)]

    def blob_file(self, sha256: str) -> Path:
        (found,) = (self.folder / "blobs").rglob(sha256)
        return found

    def wait_for(self, condition: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + 90
        while not condition():
            assert time.monotonic() < ends_at
            time.sleep(0.01)


def page_texts(result: dict[str, Any]) -> list[str]:
    return [page["text"] for page in result["pages"]]


COMPLETED = Status.COMPLETED
FAILED = Status.FAILED
