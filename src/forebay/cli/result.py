"""The command that hands out a result: result."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.opening import opened
from forebay.cli.options import Common, Id
from forebay.errors import BadInput, NotCompleted
from forebay.ids import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forebay.app.forebay import Forebay
    from forebay.model.job import Job
    from forebay.model.task import Task

_USUAL = Common()


def result(
    identifier: Annotated[Id, Parameter(name="ID")],
    /,
    *,
    target: Annotated[
        str | None, Parameter(name=["--output", "-o"], help="The file to write to instead of stdout.")
    ] = None,
    form: Annotated[
        str | None, Parameter(name=["--format", "-f"], help="Of a document: md, txt, json or pdf; json unless given.")
    ] = None,
    common: Common = _USUAL,
) -> None:
    """Bytes are written as they are, anything else as JSON."""
    if form is not None:
        _hand_out_document(identifier, form, target, common)
        return
    with opened(common) as app:
        found = app.resolve(identifier)
        _check_ended(app.get(found))
        value = app.result(found)
    raw = value if isinstance(value, bytes) else f"{output.json_text(value, indent=2)}\n".encode()
    if isinstance(value, bytes) and target is None:
        _check_no_terminal(len(value))
    with _opened_target(target) as file:
        file.write(raw)


def _hand_out_document(identifier: str, form: str, target: str | None, common: Common) -> None:
    """What was read of a document, in one of its formats, however large it is."""
    import tempfile

    from forebay.app import exporting

    exporting.checked([form])
    with opened(common) as app, tempfile.TemporaryFile() as draft:
        _export(app, app.resolve(identifier), form, draft)
        size = draft.seek(0, 2)
        draft.seek(0)
        if target is None and output.terminal():
            if form == exporting.SEARCHABLE:
                _check_no_terminal(size)
            for line in draft:
                output.lines(line.decode(), indent="")
            return
        with _opened_target(target) as file:
            shutil.copyfileobj(draft, file)


def _export(app: Forebay, identifier: str, form: str, draft: IO[bytes]) -> None:
    from forebay.app import exporting
    from forebay.app.working import run
    from forebay.model.job import Job

    job = app.get(identifier)
    if not isinstance(job, Job) or job.document is None:
        raise BadInput(f"{identifier} is no job of a document.", remedy="Leave out --format.")
    _check_ended(job)

    async def export(job: Job) -> None:
        try:
            async with exporting.merged(app, job) as merged:
                await exporting.write(app, job, merged, form, draft)
        finally:
            await app.aclose_documents()

    run(export(job))


def _check_ended(found: Task | Job) -> None:
    if not found.status.terminal:
        raise NotCompleted(
            f"{found.id} is {found.status}: it has no result yet.",
            remedy=f"`forebay why {found.id}` says what it waits for.",
        )


def _check_no_terminal(size: int) -> None:
    if output.terminal():
        raise BadInput(
            f"The result is {size} bytes, which a terminal cannot show.", remedy="Give --output FILE, or pipe it."
        )


@contextmanager
def _opened_target(target: str | None) -> Iterator[IO[bytes]]:
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with Path(target).open("wb") as file:
            yield file
    except OSError as error:
        raise BadInput(f"{shown(target)} cannot be written: {error.strerror}.", remedy="Name another file.") from None
