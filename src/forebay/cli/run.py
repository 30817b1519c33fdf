"""The command that takes documents from their files to their outputs: run."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebay.cli import INTERRUPTED, output
from forebay.cli.options import Reading
from forebay.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forebay.app.forebay import Forebay
    from forebay.app.running import Item

_USUAL = Reading()
_SOME_FAILED = 3


def run(
    *files: Annotated[str, Parameter(name="FILES", help="PDFs, images, or folders with some.")],
    out: Annotated[str | None, Parameter(help="The folder for the outputs; beside each document unless given.")] = None,
    formats: Annotated[
        list[str] | None,
        Parameter(
            name=["--format", "-f"], negative="", help="md, txt, json, pdf (searchable); md and json unless given."
        ),
    ] = None,
    processor: Annotated[str, Parameter(help="Who reads the pages.")] = "local",
    language: Annotated[str | None, Parameter(help="Languages of the scans, such as eng+deu.")] = None,
    ocr: Annotated[
        Literal["auto", "always", "never"] | None,
        Parameter(help="auto reads a page's own text where it has some; auto unless given."),
    ] = None,
    option: Annotated[
        list[str] | None, Parameter(negative="", help="An option of the processor, NAME=VALUE; may be given again.")
    ] = None,
    allow_holes: Annotated[
        bool, Parameter(negative="", help="Write outputs although pages are missing; each says which and why.")
    ] = False,
    reuse: Annotated[bool, Parameter(help="Use what is stored of the same pages.")] = True,
    force: Annotated[bool, Parameter(negative="", help="Try again what failed for good.")] = False,
    overwrite: Annotated[bool, Parameter(negative="", help="Write over files that are not Forebay's.")] = False,
    watch: Annotated[bool, Parameter(negative="", help="Follow the folders until Ctrl-C.")] = False,
    app: Annotated[
        str | None, Parameter(help="The application with processors of your own: module:app or path/to/file.py:app.")
    ] = None,
    concurrency: Annotated[int | None, Parameter(help="Chunks that are worked on at once.")] = None,
    tenant: Annotated[str | None, Parameter(help="Whose they are.")] = None,
    common: Reading = _USUAL,
) -> int:
    """Ctrl-C stops cleanly, and the same command goes on; what was read of the same bytes is not read again."""
    from forebay.app.outputs import Outputs
    from forebay.app.running import Run
    from forebay.app.working import awork
    from forebay.app.working import run as run_loop
    from forebay.cli.opening import who
    from forebay.cli.run_files import found
    from forebay.cli.run_progress import Progress
    from forebay.observe.logs import configure

    if not files:
        raise BadInput("There are no FILES.", remedy="Name PDFs, images or folders: forebay run scan.pdf.")
    options = options_of(option, language=language, ocr=ocr)
    application = application_of(app, common)
    with application:
        configure("info" if common.verbose else "error", application.settings.log_format)
        outputs = Outputs(
            application, _formats(formats), folder=None if out is None else Path(out), overwrite=overwrite
        )
        terms: dict[str, Any] = {
            "processor": processor,
            "options": options,
            "allow_holes": allow_holes,
            "reuse": reuse,
        } | ({} if tenant is None else {"tenant": tenant})
        application.documents.pipeline.processor(processor).checked(options)
        with Progress() as progress:
            running = Run(application, outputs, terms=terms, force=force, who=who(), told=progress.told)
            progress.of(running)
            sources = found([Path(file) for file in files], watch=watch)
            run_loop(awork(application, partial(running.follow, sources), concurrency=concurrency))
    _tell(running.items, common)
    return _code(running.items, done=running.done)


def _formats(given: Sequence[str] | None) -> list[str]:
    return [name.strip().lower() for each in given or ["md,json"] for name in each.split(",")]


def options_of(given: Sequence[str] | None, **named: str | None) -> dict[str, str]:
    options = {name: value for name, value in named.items() if value is not None}
    for each in given or ():
        name, mark, value = each.partition("=")
        if not name or not mark:
            raise BadInput(f"--option {each!r} is no NAME=VALUE.", remedy="Write it as in --option dpi=300.")
        options[name] = value
    return options


def application_of(target: str | None, common: Reading) -> Forebay:
    from forebay.app.forebay import Forebay
    from forebay.cli.opening import environment, settings_of
    from forebay.cli.worker import load

    if target is None:
        return Forebay(settings=settings_of(common))
    os.environ.update(environment(common))
    if common.ledger is not None:
        os.environ["FOREBAY_LEDGER"] = common.ledger
    return load(target, verbose=common.verbose)


def _tell(items: Sequence[Item], common: Reading) -> None:
    if common.output == "table":
        return
    output.write([_record(item) for item in items], common.output)


def _record(item: Item) -> dict[str, Any]:
    return {
        "file": str(item.path),
        "job_id": item.job_id,
        "status": str(item.status) if item.ended else "interrupted",
        "page_count": item.page_count,
        "missing_page_count": item.hole_count,
        "outputs": [str(each) for each in item.outputs],
        "error_class": item.error_class,
        "error_text": item.error_text,
        "remedy": item.remedy or None,
    }


def _code(items: Sequence[Item], *, done: bool) -> int:
    if not done:
        return INTERRUPTED
    codes = {item.exit_code for item in items}
    if codes <= {0}:
        return 0
    if 0 in codes:
        return _SOME_FAILED
    return codes.pop() if len(codes) == 1 else 1
