from __future__ import annotations

import pytest

from forebay.testing import simulator
from tests.cli.documents import Desk


def test_a_paid_processor_that_is_not_set_up_says_how_it_would_be(desk: Desk) -> None:
    desk.put("scan.pdf")
    answer = desk.here.run("run", "scan.pdf", "--processor", "docai")
    assert answer.code == 2
    assert "Processor 'docai' is not set up. Set FOREBAY_DOCAI_PROJECT" in answer.err


def test_a_paid_processor_does_not_start_before_its_limit_is_defined(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PROJECT": "p", "PROCESSOR": "x", "URL": "http://127.0.0.1:9", "TOKEN": "canary-cli"}.items():
        monkeypatch.setenv(f"FOREBAY_DOCAI_{name}", value)
    desk.put("scan.pdf")
    answer = desk.here.run("run", "scan.pdf", "--processor", "docai")
    assert answer.code == 2
    assert "`forebay limits set docai --preset docai`" in answer.err
    shown = desk.here.ok("config", "show").out
    assert "canary-cli" not in shown


def test_options_of_a_paid_processor_are_checked_before_anything_is_stored(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PROJECT": "p", "PROCESSOR": "x", "TOKEN": "canary-cli"}.items():
        monkeypatch.setenv(f"FOREBAY_DOCAI_{name}", value)
    desk.put("scan.pdf")
    answer = desk.here.run("run", "scan.pdf", "--processor", "docai", "--option", "dpi=300")
    assert answer.code == 2
    assert "has no option 'dpi'" in answer.err


@pytest.mark.slow
def test_a_document_that_failed_while_its_provider_was_down_completes_without_force(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PROJECT": "p", "PROCESSOR": "x", "URL": "http://127.0.0.1:9", "TOKEN": "canary-cli"}.items():
        monkeypatch.setenv(f"FOREBAY_DOCAI_{name}", value)
    desk.here.ok("limits", "set", "docai", "--preset", "docai")
    command = ("run", "scan.pdf", "--processor", "docai", "--max-retries", "0")
    desk.put("scan.pdf", 1)
    jobs = set()
    for _ in range(2):
        answer = desk.here.run(*command, "-o", "json")
        assert (answer.code, answer.json[0]["error_class"]) == (1, "network_error"), answer
        jobs.add(answer.json[0]["job_id"])
    (job,) = jobs
    with simulator() as provider:
        monkeypatch.setenv("FOREBAY_DOCAI_URL", provider.environment["FOREBAY_DOCAI_URL"])
        desk.here.ok("retry", job)
        desk.here.ok(*command)
    assert "Page 1" in desk.read("scan.md")
    found = desk.here.ok("get", job, "-o", "json").json
    assert (found["status"], found["pages"]["requested_retry_count"]) == ("completed", 2)
