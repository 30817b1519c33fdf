"""The command that takes documents from their files to their outputs: run."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebay.cli import INTERRUPTED, output
from forebay.cli.options import Reading
from forebay.cli.streams import discard_answer
from forebay.errors import BadInput, NotFound
from forebay.ids import printable, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from forebay.app.forebay import Forebay
    from forebay.app.item import Item
    from forebay.app.running import Run
    from forebay.cli.run_progress import Progress
    from forebay.model.payload import Json
    from forebay.processors.parser_child import ParserChild

_USUAL = Reading()
_SOME_FAILED = 3
_REFUSED = 7
_OVER_BUDGET = 8
_MAX_CONCURRENCY = 1000
_HURRY_S = 3.0


def run(
    *files: Annotated[str, Parameter(name="FILES", help="Documents, or folders with some.")],
    pipeline: Annotated[
        str | None, Parameter(help="What becomes of them: ocr, autotag or segment; ocr unless a processor says else.")
    ] = None,
    out: Annotated[str | None, Parameter(help="The folder for the outputs (default: beside each document).")] = None,
    formats: Annotated[
        list[str] | None,
        Parameter(
            name=["--format", "-f"],
            negative="",
            help="md, txt, json, pdf (default: what the processor is for).",
        ),
    ] = None,
    processor: Annotated[
        str | None, Parameter(help="The processor (default by pipeline: local, adobe, llm or keywords).")
    ] = None,
    language: Annotated[str | None, Parameter(help="Languages of the scans, such as eng+deu.")] = None,
    ocr: Annotated[
        Literal["auto", "always", "never"] | None,
        Parameter(help="auto reads a page's own text where it has some (default: auto)."),
    ] = None,
    option: Annotated[
        list[str] | None, Parameter(negative="", help="An option of the processor, NAME=VALUE; may be given again.")
    ] = None,
    allow_holes: Annotated[
        bool, Parameter(negative="", help="Write outputs although pages are missing; each says which and why.")
    ] = False,
    reuse: Annotated[bool, Parameter(help="Use what is stored of the same pages, or read them again.")] = True,
    force: Annotated[bool, Parameter(negative="", help="Try again what failed for good.")] = False,
    overwrite: Annotated[
        bool, Parameter(negative="", help="Write over files that are not outputs of the same document.")
    ] = False,
    watch: Annotated[bool, Parameter(negative="", help="Follow the folders until Ctrl-C.")] = False,
    app: Annotated[
        str | None, Parameter(help="The application with processors of your own: module:app or path/to/file.py:app.")
    ] = None,
    concurrency: Annotated[int | None, Parameter(help="Chunks that are worked on at once.")] = None,
    timeout: Annotated[float | None, Parameter(help="Seconds that an attempt at a chunk may take.")] = None,
    max_retries: Annotated[int | None, Parameter(help="Retries of each chunk after failures.")] = None,
    max_reschedules: Annotated[int | None, Parameter(help="Reschedules of each chunk.")] = None,
    tenant: Annotated[str | None, Parameter(help="Whose they are.")] = None,
    common: Reading = _USUAL,
) -> int:
    """Ctrl-C stops cleanly, and the same command goes on; what was read of the same bytes is not read again."""
    check_files(files, "run")
    options = options_of(option, language=language, ocr=ocr)
    with _parser_ahead() as parser:
        from forebay.app import exporting
        from forebay.app.outputs import Outputs
        from forebay.app.running import Run
        from forebay.app.working import awork
        from forebay.app.working import run as run_loop
        from forebay.cli.opening import who
        from forebay.cli.run_files import followed, found
        from forebay.cli.run_progress import Progress
        from forebay.model.names import check_count
        from forebay.observe.logs import configure

        if concurrency is not None:
            check_count("concurrency", concurrency, least=1, most=_MAX_CONCURRENCY)
        with application_of(app, common) as application:
            configure("info" if common.verbose else "error", application.settings.log_format)
            chosen = check_processor(application, pipeline, processor, options)
            application.documents.begin_with(parser)
            works = application.documents.pipeline.pipeline_of(chosen)
            named = [name.strip().lower() for each in formats or () for name in each.split(",")]
            forms = exporting.checked(works, named if formats else works.usual)
            terms = {"processor": chosen, "options": options, "allow_holes": allow_holes, "reuse": reuse}
            terms |= tenant_of(tenant)
            of_chunks = {"timeout_s": timeout, "max_retries": max_retries, "max_reschedules": max_reschedules}
            terms |= {name: value for name, value in of_chunks.items() if value is not None}
            outputs = Outputs(application, forms, folder=None if out is None else Path(out), overwrite=overwrite)
            looks = followed(files, works.suffixes) if watch else iter([found(files, works.suffixes)])
            outputs.prepare()
            with Progress(_record_now if common.output == "ndjson" else None) as progress:
                running = Run(
                    application,
                    outputs,
                    terms=terms,
                    force=force,
                    who=who(),
                    told=progress.told,
                    noted=progress.say,
                )
                progress.of(running)
                stop = _Stop(progress, partial(_answer, running, common))
                beside = partial(running.follow, looks)
                needs = works.kind(chosen)
                run_loop(awork(application, beside, on_signal=stop.asked, concurrency=concurrency, needs=needs))
    stop.over()
    return _answer(running, common)


@contextmanager
def _parser_ahead() -> Iterator[ParserChild | None]:
    """A child that imports what it needs while we do; the two take about as long."""
    from forebay.processors.parser_child import ParserChild

    try:
        child = ParserChild()
    except OSError:
        yield None  # whoever needs one tries again, and says why there is none
        return
    try:
        yield child
    finally:
        child.end()


class _Stop:
    """Says what signals do; after the second, threads of a processor that cannot be stopped are not waited for."""

    def __init__(self, progress: Progress, answer: Callable[[], int]) -> None:
        self._progress = progress
        self._answer = answer
        self._count = 0
        self._end: threading.Timer | None = None

    def asked(self) -> None:
        self._count += 1
        if self._count == 1:
            self._progress.say("stopping when what runs has ended, in drain_grace_s at most; once more to stop at once")
        elif self._end is None:
            self._end = threading.Timer(_HURRY_S, self._leave)
            self._end.daemon = True
            self._end.start()

    def over(self) -> None:
        if self._end is not None:
            self._end.cancel()

    def _leave(self) -> None:
        self._progress.close()
        code = self._answer()
        sys.stdout.flush()
        os._exit(code)


def check_files(files: Sequence[str], command: str) -> None:
    if not files:
        raise BadInput("There are no FILES.", remedy=f"Name documents or folders: forebay {command} scan.pdf.")


def options_of(given: Sequence[str] | None, **named: str | None) -> dict[str, Json]:
    """A value that reads as JSON, such as a number, is that; any other is text."""
    options: dict[str, Json] = {name: value for name, value in named.items() if value is not None}
    for each in given or ():
        name, mark, value = each.partition("=")
        if not name or not mark:
            raise BadInput(f"--option {shown(each)} is not NAME=VALUE.", remedy="Write it as in --option dpi=300.")
        if name in options:
            raise BadInput(f"The option {shown(name)} is given twice.", remedy="Give it once.")
        options[name] = _value(value)
    return options


def _value(text: str) -> Json:
    from forebay.errors import BadPayload
    from forebay.model.payload import parse

    try:
        return parse(text)
    except BadPayload:
        return text


def tenant_of(tenant: str | None) -> dict[str, Any]:
    from forebay.model.names import check_name

    return {} if tenant is None else {"tenant": check_name("tenant", tenant)}


def application_of(target: str | None, common: Reading) -> Forebay:
    from forebay.app.forebay import Forebay
    from forebay.cli.opening import settings_of
    from forebay.cli.worker import application

    return Forebay(settings=settings_of(common)) if target is None else application(target, common)


def check_processor(app: Forebay, pipeline: str | None, name: str | None, options: Mapping[str, Json]) -> str:
    """The processor that is meant; a wrong word on the command line is that, whatever it names."""
    try:
        chosen = app.documents.chosen(pipeline, name)
        app.documents.pipeline.checked(chosen, options)
    except NotFound as error:
        raise BadInput(error.what, remedy=error.remedy) from None
    return chosen


def _answer(running: Run, common: Reading) -> int:
    items = running.items
    if common.output == "json":
        output.write([_record(item) for item in items], common.output)
    elif common.output == "ndjson":
        output.write([_record(item) for item in items if not item.ended], common.output)
    if running.done:
        return _code(items)
    ended = sum(item.ended for item in items)
    so_far = f"{ended} of {len(items)} documents are done. The same command goes on."
    if running.held_back:
        output.note(printable(f"forebay: the rest {running.held_back}: {so_far}"))
        return _OVER_BUDGET
    output.note(f"forebay: interrupted: {so_far}")
    return INTERRUPTED


def _record_now(item: Item) -> None:
    try:
        output.write([_record(item)], "ndjson")
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read it has heard enough; the documents are to be read all the same.
        discard_answer()


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
        "exit_code": item.exit_code if item.ended else INTERRUPTED,
    }


def _code(items: Sequence[Item]) -> int:
    codes = {item.exit_code for item in items}
    if codes <= {0}:
        return 0
    if 0 in codes:
        return _SOME_FAILED
    if len(codes) == 1:
        return codes.pop()
    return _REFUSED if all(item.status == "refused" for item in items) else 1
