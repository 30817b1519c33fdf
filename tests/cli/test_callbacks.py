from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.callbacks.target import Target
from forebay.testing.workers import callback, job_of
from tests.cli.ground import Ground

URL = "https://example.com/hook"


def _failed(here: Ground) -> str:
    """A job whose callback to a known endpoint failed for good; the id of that callback."""
    endpoint = here.ok("callbacks", "test", URL, "-o", "json").json["id"]
    known = here.ok("callbacks", "list", "-o", "json").json[0]["id"]
    where = replace(callback(), endpoint=known, url=URL, host=Target.of(URL).lane("default"))
    new = replace(job_of(1, merge=False), callback=where)
    here.submit(new)
    with here.worker() as worker:
        worker.complete(worker.take())
        told = {task.id: task for task in worker.claim(5, "callback")}
        worker.complete(told.pop(endpoint))
        (mine,) = told.values()
        worker.fail(mine, "refused", "it answered 410")
    return mine.id


def test_an_endpoint_is_made_by_a_test_and_shown_with_what_was_sent_to_it(here: Ground) -> None:
    dead = _failed(here)
    (row,) = here.ok("callbacks", "list", "-o", "json").json
    assert (row["url"], row["tenant"], row["disabled_at"]) == (URL, "default", None)
    assert URL in here.ok("callbacks", "list").out
    shown = here.ok("callbacks", "show", row["id"][:8], "-o", "json").json
    assert {each["status"] for each in shown["callbacks"]} == {"completed", "failed"}
    assert "secret" not in shown
    table = here.ok("callbacks", "show", URL).out
    assert ("job.completed" in table, dead in table, "whsec_" in table) == (True, True, False)


def test_a_secret_is_shown_when_it_is_asked_for_and_changed_by_rotate(here: Ground) -> None:
    here.ok("callbacks", "test", URL)
    first = here.ok("callbacks", "show", URL, "--secret", "-o", "json").json["secret"]
    assert first.startswith("whsec_")
    assert first in here.ok("callbacks", "show", URL, "--secret").out
    second = here.ok("callbacks", "rotate", URL).out.strip()
    assert second.startswith("whsec_")
    assert second != first
    assert here.ok("callbacks", "show", URL, "--secret", "-o", "json").json["secret"] == second
    third = here.ok("callbacks", "rotate", URL, "-o", "json").json
    assert (third["generation"], third["secret"] not in {first, second}) == (3, True)
    with here.app() as app:
        lines = app.ledger.audit()
    assert [(line.verb, line.who.startswith("cli:")) for line in lines] == [("rotate", True)] * 2


def test_what_failed_for_good_is_sent_again_by_id_or_all_of_it(here: Ground) -> None:
    dead = _failed(here)
    assert f"{dead} to be sent again" in here.ok("callbacks", "resend", dead[:12]).out
    assert here.ok("get", dead, "-o", "json").json["status"] == "pending"
    with here.worker() as worker:
        worker.fail(worker.take("callback"), "refused", "again")
    assert [each["outcome"] for each in here.ok("callbacks", "resend", "--all", "-o", "json").json] == ["done"]


def test_nothing_known_and_nothing_said_are_told_apart(here: Ground) -> None:
    here.ok("callbacks", "test", URL)
    assert here.run("callbacks", "show", "https://example.com/other").code == 4
    assert here.run("callbacks", "rotate", "abc").code == 4
    assert here.run("callbacks", "resend").code == 2
    assert here.run("callbacks", "test", "http://169.254.169.254/").code == 2


@pytest.mark.parametrize("words", [("list",), ("show", URL), ("resend", "--all")])
def test_looking_makes_no_ledger(here: Ground, words: tuple[str, ...]) -> None:
    assert here.run("callbacks", *words).code == 5
    assert not here.ledger.exists()


@pytest.mark.parametrize("url", ["https://./", "https://a..b.invalid/", f"https://{'a' * 64}.invalid/"])
def test_a_url_whose_host_can_be_none_is_refused(here: Ground, url: str) -> None:
    done = here.run("callbacks", "test", url)
    assert (done.code, "no proper host name" in done.err) == (2, True)
    assert here.ok("callbacks", "list", "-o", "json").json == []
