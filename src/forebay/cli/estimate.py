"""The command that says what documents would take before anything is spent: estimate."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.cells import span
from forebay.cli.options import Reading
from forebay.errors import ForebayError
from forebay.ids import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forebay.app.estimates import Estimates
    from forebay.pipelines.estimating import Estimate

_USUAL = Reading()
_SOME_FAILED = 3
_REFUSED = 7
_COLUMNS = ("file", "pages", "scans", "stored", "notes")


def estimate(
    *files: Annotated[str, Parameter(name="FILES", help="PDFs, images, or folders with some.")],
    processor: Annotated[str, Parameter(help="Who would read the pages.")] = "local",
    language: Annotated[str | None, Parameter(help="Languages of the scans, such as eng+deu.")] = None,
    ocr: Annotated[
        Literal["auto", "always", "never"] | None,
        Parameter(help="auto reads a page's own text where it has some (default: auto)."),
    ] = None,
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
    from forebay.cli.run import application_of, check_files, check_processor, options_of, tenant_of
    from forebay.cli.run_files import found

    check_files(files, "estimate")
    call_s = None if call_time is None else reading.duration("--call-time", call_time)
    options = options_of(option, language=language, ocr=ocr)
    with application_of(app, common) as application:
        check_processor(application, None, processor, options)
        made = Estimates(application, processor=processor, options=options, **tenant_of(tenant))
        made.look_all([source.path for source in found(files)])
        total = made.total(call_s)
    _tell(made, total, common)
    codes = {error.exit_code for error in made.refused.values()}
    if not codes:
        return 0
    if made.looks:
        return _SOME_FAILED
    return codes.pop() if len(codes) == 1 else _REFUSED


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
        output.pairs(
            [
                ("pages", f"{total.page_count}, {total.scan_count} of them scans, {total.stored_count} stored already"),
                ("calls", str(total.call_count)),
                ("takes", ", ".join(f"{count} {unit}" for unit, count in total.units.items())),
                ("at least", f"{_time(total.least_s)} ({total.binds})"),
            ]
        )


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return span(seconds) if seconds >= 1 or not seconds else "a moment"


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
