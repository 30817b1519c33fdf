from __future__ import annotations

import json

import pytest

from forebay.model.exchange import Progress
from forebay.model.outcome import Completed
from forebay.testing.workers import job_of, lone
from tests.cli.ground import Ground


def test_get_shows_counters_and_the_remedy_of_the_last_error(here: Ground) -> None:
    (identifier,) = here.submit(lone({"n": 1}))
    with here.worker() as worker:
        worker.fail(worker.take(), "invalid_pdf", text="torn\n\x1b[2Jpage")
    out = here.ok("get", identifier).out
    for expected in (
        "retry_count:      0 (max_retries: 3)",
        "requested:        0 retries (max_requested_retries: 3)",
        "reschedule_count: 0 (max_reschedules: none)",
        "error_class:      invalid_pdf",
        "error_text:       torn\\n\\x1b[2Jpage",
        "remedy:           Open it in a viewer",
        'payload:          {"n": 1}',
    ):
        assert expected in out


def test_get_shows_what_a_running_task_reported(here: Ground) -> None:
    (identifier,) = here.submit(lone(1))
    with here.worker() as worker:
        task = worker.take()
        for share, note, expected in ((0.99999, "page 9\x1b[2J", "99%, page 9\\x1b[2J"), (0.29, "", "29%")):
            worker.ledger.renew(worker.id, [], [Progress(task.id, task.claim_count, share, note)])
            lines = here.ok("get", identifier).lines
            assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("progress")] == [expected]
        found = here.ok("get", identifier, "-o", "json").json
        assert (found["progress"], found["progress_note"]) == (0.29, "")
        worker.complete(task)
    found = here.ok("get", identifier, "-o", "json").json
    assert (found["progress"], found["progress_note"]) == (None, None)
    assert not any(line.startswith("progress") for line in here.ok("get", identifier).lines)
    assert "progress" not in here.ok("list", "-o", "json").json[0]


def test_get_of_a_job_shows_its_chunks_and_progress(here: Ground) -> None:
    (identifier,) = here.submit(job_of(3, label="scan.pdf"))
    with here.worker() as worker:
        worker.settle(worker.take(), Completed(result_json="1"))
    out = here.ok("get", identifier).out
    assert " 3: 1 completed, 0 failed, 0 canceled, 0 running, 2 pending" in out
    assert "progress:          25%" in out
    found = here.ok("get", identifier, "-o", "json").json
    assert (found["progress"], found["chunk_count"], found["pending_count"]) == (0.25, 3, 2)


def test_a_large_payload_is_not_printed(here: Ground) -> None:
    (identifier,) = here.submit(lone("x" * 5000))
    assert "5002 characters of JSON" in here.ok("get", identifier).out
    assert len(here.ok("get", identifier, "-o", "json").json["payload"]) == 5000


def test_an_id_may_be_shortened_as_long_as_it_is_the_only_one(here: Ground) -> None:
    first = "a" * 26
    here.submit(lone(id=first), lone(id="ab" + "a" * 24))
    assert here.ok("get", "aa", "-o", "json").json["id"] == first
    assert here.run("get", "a").code == 2
    assert here.run("get", "b").code == 4
    assert here.run("get", "A!").code == 2


def test_list_has_the_newest_first_and_whole_ids_in_a_pipe(here: Ground) -> None:
    ids = [here.submit(lone(n))[0] for n in range(3)]
    lines = here.ok("list").lines
    assert lines[0].split() == ["ID", "KIND", "PAGES", "STATUS", "WAITS", "RETRIES", "CREATED", "ERROR"]
    assert [line.split()[0] for line in lines[1:]] == ids[::-1]
    assert "\x1b" not in "".join(lines)


def test_list_filters(here: Ground) -> None:
    here.submit(lone(kind="a", tags=("x",)), lone(kind="b", tenant="ann"))

    def kinds(*arguments: str) -> list[str]:
        return [each["kind"] for each in here.ok("list", "-o", "json", *arguments).json]

    assert kinds("--kind", "a") == ["a"]
    assert kinds("--tenant", "ann") == ["b"]
    assert kinds("--tag", "x") == ["a"]
    assert kinds("--status", "running") == []
    assert here.run("list", "--status", "odd").code == 2


def test_list_of_jobs_and_of_the_tasks_of_one(here: Ground) -> None:
    (identifier,) = here.submit(job_of(2, label="scan.pdf"))
    assert "scan.pdf" in here.ok("list", "--jobs").out
    chunks = here.ok("list", "--job", identifier[:8], "-o", "json").json
    assert [each["chunk_index"] for each in chunks] == [0, 1]


def test_list_says_that_there_is_more(here: Ground) -> None:
    here.submit(*(lone(n) for n in range(700)))
    answer = here.ok("list", "--limit", "2", "-o", "ndjson")
    assert len([json.loads(line) for line in answer.lines]) == 2
    assert "--all" in answer.err
    answer = here.ok("list", "--all", "-o", "ndjson")
    assert (len({json.loads(line)["id"] for line in answer.lines}), answer.err) == (700, "")
    assert here.run("list", "--limit", "0").code == 2


def test_an_empty_list_is_empty_json(here: Ground) -> None:
    here.ok("store", "init")
    assert here.ok("list", "-o", "json").json == []
    assert here.ok("list", "-o", "ndjson").out == ""
    assert here.ok("list").out == ""


def test_control_characters_never_leave_as_they_are(here: Ground) -> None:
    here.submit(lone("\x9b31m\u202e"))
    out = here.ok("list", "-o", "json").out + here.ok("get", here.ok("list", "-o", "json").json[0]["id"]).out
    assert "\x9b" not in out
    assert "\u202e" not in out


def test_why_names_the_first_thing_to_look_at(here: Ground) -> None:
    (identifier,) = here.submit(lone(delay_s=60))
    lines = here.ok("why", identifier).lines
    assert lines[0].startswith("1. scheduled: was submitted to start later, until 20")
    assert "(in " in lines[0]
    assert lines[1].startswith("2. no_worker:")
    assert lines[2:] == ["starts: nobody can say when", "more workers would help"]
    found = here.ok("why", identifier, "-o", "json").json
    assert [each["code"] for each in found["reasons"]] == ["scheduled", "no_worker"]
    assert (found["wait_reason"], found["eta_s"], found["more_workers_help"]) == ("scheduled", None, True)


@pytest.mark.parametrize("command", ["list", "dead list"])
def test_limit_and_all_exclude_each_other(command: str, here: Ground) -> None:
    answer = here.run(*command.split(), "--limit", "5", "--all")
    assert (answer.code, "Leave out one of them" in answer.err) == (2, True)
