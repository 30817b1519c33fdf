"""The command that hands out a result: result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.opening import opened
from forebay.cli.options import Common, Id
from forebay.errors import BadInput, NotCompleted
from forebay.ids import shown

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay
    from forebay.model.job import Job
    from forebay.model.payload import Json
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
    with opened(common) as app:
        found = app.resolve(identifier)
        value = _value(app, found) if form is None else _written(app, found, form)
    raw = value if isinstance(value, bytes) else f"{output.json_text(value, indent=2)}\n".encode()
    if target is not None:
        _save(Path(target), raw)
    elif isinstance(value, bytes) and output.terminal():
        raise BadInput(
            f"The result is {len(value)} bytes, which a terminal cannot show.", remedy="Give --output FILE, or pipe it."
        )
    else:
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()


def _value(app: Forebay, identifier: str) -> Json | bytes:
    _check_ended(app.get(identifier))
    return app.result(identifier)


def _check_ended(found: Task | Job) -> None:
    if not found.status.terminal:
        raise NotCompleted(
            f"{found.id} is {found.status}: it has no result yet.",
            remedy=f"`forebay why {found.id}` says what it waits for.",
        )


def _written(app: Forebay, identifier: str, form: str) -> bytes:
    """What was read of a document, in one of its formats."""
    import tempfile

    from forebay.app.outputs import Outputs
    from forebay.app.working import run
    from forebay.model.job import Job

    job = app.get(identifier)
    if not isinstance(job, Job) or job.document is None:
        raise BadInput(f"{identifier} is no job of a document.", remedy="Leave out --format.")
    _check_ended(job)
    with tempfile.TemporaryDirectory() as folder:
        outputs = Outputs(app, [form], folder=Path(folder))

        async def write() -> list[Path]:
            try:
                return await outputs.write(Path("result"), job)
            finally:
                await app.aclose_documents()

        (file,) = run(write())
        return file.read_bytes()


def _save(target: Path, raw: bytes) -> None:
    try:
        target.write_bytes(raw)
    except OSError as error:
        raise BadInput(
            f"{shown(str(target))} cannot be written: {error.strerror}.", remedy="Name another file."
        ) from None
