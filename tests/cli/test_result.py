from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from forebay.engine.signals import Retry
from forebay.model.outcome import Completed
from forebay.model.payload import Json
from forebay.pipelines.paged import cpu_s
from forebay.processors.parsers import Parsers
from forebay.testing.workers import lone
from tests.cli.documents import Desk
from tests.cli.ground import Ground

RAW = b"\x00\xff\r\nraw"


def completed(here: Ground, value: object) -> str:
    (identifier,) = here.submit(lone())
    with here.app() as app, here.worker() as worker:
        task = worker.take()
        worker.settle(task, app.content.completed(value, task.tenant))
    return identifier


def test_json_goes_to_stdout(here: Ground) -> None:
    assert here.ok("result", completed(here, {"text": "ü"})).out == '{\n  "text": "ü"\n}\n'


@pytest.mark.slow
def test_bytes_go_out_as_they_are(here: Ground) -> None:
    identifier = completed(here, RAW)
    command = [sys.executable, "-m", "forebay", "result", identifier]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == RAW
    here.ok("result", identifier, "--output", "out.bin")
    assert (here.home.parent / "out.bin").read_bytes() == RAW


def test_bytes_are_not_written_to_a_terminal(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    identifier = completed(here, RAW)
    monkeypatch.setattr("forebay.cli.output.terminal", lambda: True)
    answer = here.run("result", identifier)
    assert (answer.code, answer.out) == (2, "")
    assert "--output FILE" in answer.err


def test_what_failed_has_no_result_and_says_why(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    with here.worker() as worker:
        worker.fail(worker.take())
    answer = here.run("result", identifier)
    assert answer.code == 1
    assert "is failed: internal_error: no pages. Retry later" in answer.err


def test_what_has_not_ended_has_no_result_yet(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    answer = here.run("result", identifier)
    assert answer.code == 1
    assert f"`forebay why {identifier}`" in answer.err


def test_a_file_that_cannot_be_written_exits_2(here: Ground) -> None:
    assert here.run("result", completed(here, 1), "-o", "no/such/folder").code == 2


def test_a_file_that_holds_anything_else_is_not_written_over_unless_asked_for(here: Ground) -> None:
    identifier = completed(here, RAW)
    out = here.home.parent / "out.bin"
    out.write_bytes(b"my own notes")
    answer = here.run("result", identifier, "-o", "out.bin")
    assert (answer.code, "out.bin' is there already, and is not this result." in answer.err) == (1, True)
    assert out.read_bytes() == b"my own notes"
    here.ok("result", identifier, "-o", "out.bin", "--overwrite")
    here.ok("result", identifier, "-o", "out.bin")
    assert out.read_bytes() == RAW
    here.ok("result", identifier, "-o", "/dev/null")


def test_a_result_that_is_nothing_is_null(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    with here.worker() as worker:
        worker.settle(worker.take(), Completed())
    assert here.ok("result", identifier).out == "null\n"


@pytest.fixture
def document(desk: Desk) -> str:
    desk.put("scan.pdf", 1, "Page \\033 {}")
    (record,) = desk.ok("scan.pdf", "-o", "json").json
    return str(record["job_id"])


def test_a_document_is_written_in_the_format_that_is_asked_for(desk: Desk, document: str) -> None:
    for form in ("md", "txt", "json"):
        desk.here.ok("result", document, "-f", form, "-o", f"handed-out.{form}")
    assert desk.read("handed-out.md") == desk.read("scan.md")
    assert desk.read("handed-out.json") == desk.read("scan.json")
    assert desk.calls == ["1-1"]


@pytest.mark.slow
def test_text_may_go_to_a_terminal_but_nothing_that_it_would_obey(
    desk: Desk, document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forebay.cli.output.terminal", lambda: True)
    shown = desk.here.ok("result", document, "-f", "txt").out
    assert shown.startswith("Page ")
    assert "\x1b" not in shown
    answer = desk.here.run("result", document, "-f", "pdf")
    assert (answer.code, answer.out, "a terminal cannot show" in answer.err) == (2, "", True)


def test_a_format_is_for_documents_and_has_to_be_one(here: Ground) -> None:
    identifier = completed(here, 1)
    answer = here.run("result", identifier, "-f", "md")
    assert (answer.code, f"{identifier} is not a job of a document." in answer.err) == (2, True)
    answer = here.run("result", identifier, "-f", "docx")
    assert (answer.code, "There is no format 'docx'." in answer.err) == (2, True)


def test_a_document_that_failed_has_no_result_in_any_format(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.tell("refuse", 1)
    (record,) = desk.run("scan.pdf", "-o", "json").json
    answer = desk.here.run("result", record["job_id"], "-f", "md")
    assert (answer.code, f"Job {record['job_id']} has no result." in answer.err) == (1, True)


@pytest.mark.parametrize(("error_class", "code"), [("parser_timeout", 7), ("service_unavailable", 1)])
def test_an_output_that_cannot_be_made_is_no_bug(
    desk: Desk, document: str, monkeypatch: pytest.MonkeyPatch, error_class: str, code: int
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise Retry("The parser is gone.", error_class=error_class)

    monkeypatch.setattr(Parsers, "call", fails)
    answer = desk.here.run("result", document, "-f", "pdf", "-o", "handed-out.pdf")
    assert (answer.code, "The parser is gone." in answer.err, "bug" in answer.err) == (code, True, False), answer.err


@pytest.mark.slow
def test_a_searchable_document_may_take_longer_the_more_pages_it_has(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float | None] = []
    call = Parsers.call

    async def heard(parsers: Parsers, verb: str, *args: Any, **more: Any) -> Json:  # noqa: ANN401 - as they are
        if verb == "searchable":
            given.append(more.get("cpu_s"))
        return await call(parsers, verb, *args, **more)

    monkeypatch.setattr(Parsers, "call", heard)
    for pages in (1, 3):
        desk.put(f"{pages}.pdf", pages)
        (record,) = desk.ok(f"{pages}.pdf", "-o", "json").json
        desk.here.ok("result", record["job_id"], "-f", "pdf", "-o", f"handed-out-{pages}.pdf")
    assert given == [cpu_s(1), cpu_s(3)]
    assert cpu_s(3) > cpu_s(1)
