"""The command that says what documents would take before anything is spent: estimate."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.options import Reading
from forebay.errors import BadInput, ForebayError
from forebay.ids import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forebay.app.estimates import Estimates
    from forebay.pipelines.estimating import Estimate

_USUAL = Reading()
_SOME_FAILED = 3
_COLUMNS = ("file", "pages", "scans", "stored", "notes")


def estimate(
    *files: Annotated[str, Parameter(name="FILES", help="PDFs, images, or folders with some.")],
    processor: Annotated[str, Parameter(help="Who would read the pages.")] = "local",
    language: Annotated[str | None, Parameter(help="Languages of the scans, such as eng+deu.")] = None,
    ocr: Annotated[str | None, Parameter(help="auto, always or never.")] = None,
    option: Annotated[
        list[str] | None, Parameter(negative="", help="An option of the processor, NAME=VALUE; may be given again.")
    ] = None,
    call_time: Annotated[str | None, Parameter(help="How long a call takes: 30, 500ms, 2m.")] = None,
    app: Annotated[
        str | None, Parameter(help="The application with processors of your own: module:app or path/to/file.py:app.")
    ] = None,
    tenant: Annotated[str | None, Parameter(help="Whose they are.")] = None,
    common: Reading = _USUAL,
) -> int:
    """Nothing is stored and nobody is called. What was read of the same bytes before costs nothing."""
    from forebay.app.estimates import Estimates
    from forebay.cli import reading
    from forebay.cli.run import application_of, options_of
    from forebay.cli.run_files import found

    if not files:
        raise BadInput("There are no FILES.", remedy="Name PDFs, images or folders: forebay estimate scan.pdf.")
    call_s = None if call_time is None else reading.duration("--call-time", call_time)
    terms: dict[str, Any] = {
        "processor": processor,
        "options": options_of(option, language=language, ocr=ocr),
        "tenant": tenant,
    }
    with application_of(app, common) as application:
        made = Estimates(application, **{name: value for name, value in terms.items() if value is not None})
        made.look_all([path for path in found([Path(file) for file in files]) if path is not None])
        total = made.total(call_s)
    _tell(made, total, common)
    refused = list(made.refused.values())
    if not refused:
        return 0
    return refused[0].exit_code if not made.looks else _SOME_FAILED


def _tell(made: Estimates, total: Estimate | None, common: Reading) -> None:
    if common.output != "table":
        output.write([_plain(made, total)], common.output, one=True)
        return
    rows: list[Sequence[str]] = [
        (str(path), str(look.page_count), str(look.scan_count), str(look.stored_count), ", ".join(look.notes))
        for path, look in made.looks.items()
    ]
    if rows:
        output.table(_COLUMNS, rows)
    for path, error in made.refused.items():
        output.note(printable(f"{path}: {error}"))
    if total is not None:
        time = "unknown" if total.least_s is None else f"{total.least_s:,.0f} s"
        output.pairs(
            [
                ("pages", f"{total.page_count}, {total.scan_count} of them scans, {total.stored_count} stored already"),
                ("calls", str(total.call_count)),
                ("at least", f"{time} ({total.binds})"),
            ]
        )


def _plain(made: Estimates, total: Estimate | None) -> dict[str, Any]:
    return {
        "files": [
            *({"file": str(path), **asdict(look), "notes": list(look.notes)} for path, look in made.looks.items()),
            *({"file": str(path), **_error(error)} for path, error in made.refused.items()),
        ],
        "total": None if total is None else asdict(total),
    }


def _error(error: ForebayError) -> dict[str, Any]:
    error_class = getattr(error, "error_class", error.code)
    return {"error_class": error_class, "error_text": error.what, "remedy": error.remedy}
