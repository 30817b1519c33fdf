from __future__ import annotations

import io
import json
import sys

import pytest

from forebay.cli.acting import confirmed
from forebay.testing.workers import lone
from tests.cli.ground import Ground, program


def failed(here: Ground, error_class: str = "timeout") -> str:
    (identifier,) = here.submit(lone())
    fail(here, error_class)
    return identifier


def fail(here: Ground, error_class: str = "timeout") -> None:
    with here.worker() as worker:
        worker.fail(worker.take(), error_class)


def status(here: Ground, identifier: str) -> str:
    return str(here.ok("get", identifier, "-o", "json").json["status"])


def test_retry_runs_again_what_failed(here: Ground) -> None:
    identifier = failed(here)
    assert here.ok("retry", identifier[:10]).out == f"{identifier} to be run again\n"
    assert status(here, identifier) == "pending"


@pytest.mark.parametrize("command", [("retry",), ("dead", "requeue")])
def test_a_verbose_retry_logs_who_asked_for_what(here: Ground, command: tuple[str, ...]) -> None:
    identifier = failed(here)
    answer = program(*command, identifier, "--verbose")
    assert (answer.returncode, answer.stdout) == (0, f"{identifier} to be run again\n")
    (line,) = map(json.loads, answer.stderr.splitlines())
    assert (line["event"], line["targets"], line["done_count"]) == ("retry_requested", [identifier], 1)
    assert line["who"].startswith("cli:")


def test_retry_without_retries_left_needs_force(here: Ground) -> None:
    identifier = failed(here)
    for _ in range(3):
        here.ok("retry", identifier)
        fail(here)
    answer = here.run("retry", identifier, "-o", "json")
    assert (answer.code, answer.json[0]["outcome"]) == (1, "RETRY_LIMIT_EXCEEDED")
    assert "--force" in answer.err
    assert "requested:        3 retries (max_requested_retries: 3)" in here.ok("get", identifier).out
    here.ok("retry", identifier, "--force")


def test_retry_of_what_cannot_succeed_needs_force(here: Ground) -> None:
    identifier = failed(here, "invalid_pdf")
    answer = here.run("retry", identifier, "-o", "json")
    assert (answer.code, answer.json[0]["outcome"]) == (1, "not_retryable")
    assert "invalid_pdf" in answer.err
    assert "--force" in answer.err
    here.ok("retry", identifier, "--force")


def test_a_retry_of_what_has_not_failed_does_not_suggest_force(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    answer = here.run("retry", identifier)
    assert (answer.code, "--force" in answer.err) == (1, False)


def test_nothing_is_done_if_one_of_the_ids_is_unknown(here: Ground) -> None:
    identifier = failed(here)
    assert here.run("retry", identifier, "zzzz").code == 4
    assert status(here, identifier) == "failed"


def test_an_action_needs_an_id(here: Ground) -> None:
    here.submit(lone())
    assert here.run("cancel").code == 2


def test_cancel_ends_what_waits_and_refuses_what_has_ended(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    assert here.ok("cancel", identifier, "--wait").out == f"{identifier} canceled\n"
    assert status(here, identifier) == "canceled"
    answer = here.run("cancel", identifier)
    assert (answer.code, "is canceled already" in answer.err) == (1, True)


def test_cancel_says_whether_it_has_ended_or_still_runs(here: Ground) -> None:
    (running,) = here.submit(lone())
    with here.worker() as worker:
        worker.take()
    (waiting,) = here.submit(lone())
    assert here.ok("cancel", running, waiting).lines == [f"{running} asked to stop", f"{waiting} canceled"]


def test_cancel_refuses_a_wait_that_cannot_be_before_it_cancels(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    assert here.run("cancel", identifier, "--wait", "--wait-timeout", "-1").code == 2
    assert here.run("cancel", identifier, "--wait-timeout", "1").code == 2
    assert status(here, identifier) == "pending"


def test_cancel_waits_no_longer_than_it_is_told(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    with here.worker() as worker:
        worker.take()
    assert here.run("cancel", identifier, "--wait", "--wait-timeout", "0.05").code == 6


def test_who_acted_is_in_the_audit_trail(here: Ground) -> None:
    here.ok("retry", failed(here))
    with here.app() as app:
        assert app.ledger.audit()[0].who.startswith("cli")


def test_delete_asks_nobody_in_a_script_and_so_refuses(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    answer = here.run("delete", identifier)
    assert (answer.code, "--yes" in answer.err) == (2, True)
    assert here.ok("delete", identifier, "--yes").out == f"{identifier} deleted\n"
    assert here.run("get", identifier).code == 4


def test_delete_refuses_what_runs(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    with here.worker() as worker:
        worker.take()
    answer = here.run("delete", identifier, "--yes")
    assert (answer.code, "cancel it first" in answer.err) == (1, True)


@pytest.mark.parametrize(
    ("typed", "agreed"), [("y\n", True), ("YES\n", True), ("\n", False), ("", False), ("n\n", False)]
)
def test_on_a_terminal_a_person_is_asked(typed: str, agreed: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a table
    answer = io.StringIO(typed)
    monkeypatch.setattr(answer, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", answer)
    assert confirmed("Sure?", yes=False) is agreed
