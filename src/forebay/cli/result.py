"""The command that hands out a result: result."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.opening import opened
from forebay.cli.options import Common, Id
from forebay.errors import BadInput, Conflict, NotCompleted
from forebay.ids import shown

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.model.job import Job
    from forebay.model.task import Task
    from forebay.pipelines.pipeline import Output

_USUAL = Common()
_PIECE = 1 << 20


def result(
    identifier: Annotated[Id, Parameter(name="ID")],
    /,
    *,
    target: Annotated[
        str | None, Parameter(name=["--output", "-o"], help="The file to write to instead of stdout.")
    ] = None,
    form: Annotated[
        str | None, Parameter(name=["--format", "-f"], help="Of a document: md, txt, json or pdf (default: json).")
    ] = None,
    overwrite: Annotated[bool, Parameter(negative="", help="Write over a file that holds anything else.")] = False,
    common: Common = _USUAL,
) -> None:
    """Bytes are written as they are, anything else as JSON."""
    if form is not None:
        _hand_out_document(identifier, form, target, common, overwrite=overwrite)
        return
    with opened(common) as app:
        found = app.resolve(identifier)
        _check_ended(app.get(found))
        value = app.result(found)
    raw = value if isinstance(value, bytes) else f"{output.json_text(value, indent=2)}\n".encode()
    if isinstance(value, bytes) and target is None:
        _check_no_terminal(len(value))
    _write(io.BytesIO(raw), target, overwrite=overwrite)


def _hand_out_document(identifier: str, form: str, target: str | None, common: Common, *, overwrite: bool) -> None:
    """What was read of a document, in one of its formats, however large it is."""
    import tempfile

    from forebay.app import exporting

    with opened(common) as app, tempfile.TemporaryFile() as draft:
        job, output_form = exporting.output_of(app.get(app.resolve(identifier)), form)
        _check_ended(job)
        _export(app, job, output_form, draft)
        size = draft.seek(0, 2)
        draft.seek(0)
        if target is None and output.terminal():
            if not output_form.is_text:
                _check_no_terminal(size)
            for line in draft:
                output.lines(line.decode(), indent="")
            return
        _write(draft, target, overwrite=overwrite)


def _export(app: Forebay, job: Job, form: Output, draft: IO[bytes]) -> None:
    from forebay.app import exporting
    from forebay.app.working import run

    async def export() -> None:
        try:
            async with exporting.merged(app, job) as merged:
                await exporting.write(app, job, merged, form, draft)
        finally:
            await app.aclose_documents()

    run(export())


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


def _write(content: IO[bytes], target: str | None, *, overwrite: bool) -> None:
    if target is None:
        shutil.copyfileobj(content, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        if not overwrite and _holds_anything_else(Path(target), content):
            raise Conflict(
                f"{shown(target)} is there already, and is not this result.",
                remedy="Name another file, or give --overwrite.",
            )
        content.seek(0)
        with Path(target).open("wb") as file:
            shutil.copyfileobj(content, file)
    except OSError as error:
        raise BadInput(f"{shown(target)} cannot be written: {error.strerror}.", remedy="Name another file.") from None


def _holds_anything_else(target: Path, content: IO[bytes]) -> bool:
    """A device or a pipe holds nothing, and is there to be written to."""
    if not target.is_file() or target.stat().st_size == 0:
        return False
    with target.open("rb") as file:
        while piece := file.read(_PIECE):
            if content.read(len(piece)) != piece:
                return True
    return bool(content.read(1))
