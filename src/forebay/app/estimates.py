"""Looks into documents without storing anything, and says what they would take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebay.app.documents import opened
from forebay.app.working import run
from forebay.engine.signals import Permanent, Retry
from forebay.errors import BadDocument, BadInput, ForebayError, StoreError
from forebay.model.payload import Json
from forebay.model.task import DEFAULT_TENANT
from forebay.pipelines.cutting import Order
from forebay.pipelines.estimating import Estimate, Look, estimate
from forebay.pipelines.pipeline import Paged
from forebay.rules import verdict

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay


class Estimates:
    """What was found of each file: `looks`, or in `refused` why it cannot be processed."""

    def __init__(
        self,
        app: Forebay,
        *,
        processor: str = "local",
        options: dict[str, Any] | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        self._app = app
        self._processor = app.documents.pipeline.processor(processor)
        self._pipeline = app.documents.pipeline.pipeline_of(processor)
        if not isinstance(self._pipeline, Paged):
            raise BadInput(
                f"What {self._pipeline.name!r} takes depends on its articles, which only a run can count.",
                remedy="Estimate the pages alone, with the processor that reads them.",
            )
        self._options = self._processor.checked(options or {})
        self._tenant = tenant
        self.looks: dict[Path, Look] = {}
        self.refused: dict[Path, ForebayError] = {}

    def look_all(self, paths: Sequence[Path]) -> None:
        run(self._look_all(paths))

    async def _look_all(self, paths: Sequence[Path]) -> None:
        room = asyncio.Semaphore(self._app.settings.processes)

        async def look(path: Path) -> Look | ForebayError:
            async with room:
                try:
                    return await self._look(path)
                except StoreError:
                    raise
                except ForebayError as error:
                    return error

        try:
            said = await asyncio.gather(*map(look, paths))
        finally:
            await self._app.aclose_documents()
        for path, each in zip(paths, said, strict=True):
            if isinstance(each, Look):
                self.looks[path] = each
            else:
                self.refused[path] = each

    async def _look(self, path: Path) -> Look:
        documents = self._app.documents
        with opened(path) as file:
            document = await asyncio.to_thread(documents.look, file, str(path), self._pipeline)
            file.seek(0)
            asked: dict[str, Json] = {
                "media_type": document.media_type,
                "max_pages": self._app.settings.document_max_pages,
            }
            try:
                said: Any = await documents.parsers().call("inspect", asked, files=[file.fileno()])
            except (Permanent, Retry) as error:
                remedy = verdict.of(verdict.parse(error.error_class)).remedy
                raise BadDocument(error.text, remedy=remedy, error_class=error.error_class) from None
        order = Order(
            document=document.sha256,
            media_type=document.media_type,
            processor=self._processor.name,
            options=self._options,
        )
        pages: int = said["pages"]
        stored = await asyncio.to_thread(self._stored, order, pages)
        sampled = max(1, int(said["sampled"]))
        return Look(
            page_count=pages,
            scan_count=round(said["scan_pages"] * pages / sampled) if sampled < pages else said["scan_pages"],
            stored_count=sum(last - first + 1 for first, last in stored),
            stored_chunk_count=len(stored),
            repaired=said["repaired"],
            notes=tuple(said["notes"]),
        )

    def _stored(self, order: Order, page_count: int) -> list[tuple[int, int]]:
        """The chunks that were read before, as far as pages alone decide how a document is cut."""
        if not self._app.has_ledger():
            return []
        size = self._processor.max_pages
        ranges = [(first, min(first + size - 1, page_count)) for first in range(1, page_count + 1, size)]
        keys = {order.result_key(pages, self._processor): pages for pages in ranges}
        return [keys[each.key] for each in self._app.ledger.recall(self._tenant, list(keys))]

    def total(self, call_s: float | None) -> Estimate | None:
        """A call takes what was said, else what its limit has measured."""
        if not self.looks:
            return None
        limit, mean_s = (None, None) if self._processor.limit is None else self._app.limits.known(self._processor.limit)
        cores = self._app.settings.processes
        return estimate(
            self.looks.values(), self._processor, limit, call_s=mean_s if call_s is None else call_s, cores=cores
        )
