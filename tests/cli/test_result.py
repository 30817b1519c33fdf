from __future__ import annotations

import subprocess
import sys

import pytest

from forebay.model.outcome import Completed
from forebay.testing.workers import lone
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
    assert "is failed: invalid_pdf: no pages. Open it in a viewer" in answer.err


def test_what_has_not_ended_has_no_result_yet(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    answer = here.run("result", identifier)
    assert answer.code == 1
    assert f"`forebay why {identifier}`" in answer.err


def test_a_file_that_cannot_be_written_exits_2(here: Ground) -> None:
    assert here.run("result", completed(here, 1), "-o", "no/such/folder").code == 2


def test_a_result_that_is_nothing_is_null(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    with here.worker() as worker:
        worker.settle(worker.take(), Completed())
    assert here.ok("result", identifier).out == "null\n"
