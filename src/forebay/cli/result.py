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
    from forebay.model.payload import Json

_USUAL = Common()


def result(
    identifier: Annotated[Id, Parameter(name="ID")],
    /,
    *,
    target: Annotated[
        str | None, Parameter(name=["--output", "-o"], help="The file to write to instead of stdout.")
    ] = None,
    common: Common = _USUAL,
) -> None:
    """Bytes are written as they are, anything else as JSON."""
    with opened(common) as app:
        value = _value(app, app.resolve(identifier))
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
    status = app.get(identifier).status
    if not status.terminal:
        raise NotCompleted(
            f"{identifier} is {status}: it has no result yet.",
            remedy=f"`forebay why {identifier}` says what it waits for.",
        )
    return app.result(identifier)


def _save(target: Path, raw: bytes) -> None:
    try:
        target.write_bytes(raw)
    except OSError as error:
        raise BadInput(
            f"{shown(str(target))} cannot be written: {error.strerror}.", remedy="Name another file."
        ) from None
