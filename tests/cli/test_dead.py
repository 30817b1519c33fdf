from __future__ import annotations

import pytest

from forebay.model.outcome import Failed
from forebay.testing.workers import job_of, lone
from tests.cli.ground import Ground


def fail_all(here: Ground, error_class: str = "timeout", kind: str = "work") -> None:
    with here.worker() as worker:
        failure = Failed(error_class=error_class, text="torn", permanent=True)
        while claims := worker.claim(500, kind):
            worker.exchange(settles=[worker.ending(task, failure) for task in claims])


def test_only_failed_tasks_are_dead_letters(here: Ground) -> None:
    (dead,) = here.submit(lone(kind="a"))
    fail_all(here, kind="a")
    (alive,) = here.submit(lone(kind="a"))
    assert [each["id"] for each in here.ok("dead", "list", "-o", "json").json] == [dead]
    assert here.run("dead", "show", alive).code == 1
    assert here.run("dead", "requeue", alive).code == 1


def test_show_has_the_record_and_the_history(here: Ground) -> None:
    (dead,) = here.submit(lone())
    fail_all(here)
    out = here.ok("dead", "show", dead).out
    assert "error_class:      timeout" in out
    assert "Version 3: failed (timeout: torn)" in out


def test_show_as_json_has_the_history_with_tracebacks(here: Ground) -> None:
    (dead,) = here.submit(lone())
    with here.worker() as worker:
        worker.settle(worker.take(), Failed(error_class="bug", text="torn", permanent=True, traceback="line 1\nline 2"))
    found = here.ok("dead", "show", dead, "-o", "json").json
    assert (found["id"], found["error_class"]) == (dead, "bug")
    assert [each["traceback"] for each in found["history"]] == ["line 1\nline 2"]


def test_requeue_by_id(here: Ground) -> None:
    (dead,) = here.submit(lone())
    fail_all(here)
    here.ok("dead", "requeue", dead)
    assert here.ok("dead", "list", "-o", "json").json == []


@pytest.mark.slow
def test_requeue_of_all_goes_on_until_none_is_left(here: Ground) -> None:
    here.submit(*(lone(n) for n in range(1200)))
    fail_all(here)
    assert here.ok("dead", "requeue", "--all").out == "1200 to be run again, 0 refused\n"
    assert here.ok("dead", "list", "-o", "json").json == []


def test_requeue_of_all_keeps_to_kind_and_error_class(here: Ground) -> None:
    here.submit(lone(kind="a"), lone(kind="b"))
    fail_all(here, "timeout", "a")
    fail_all(here, "bad_response", "b")
    assert here.ok("dead", "requeue", "--all", "--error-class", "bad_response").out.startswith("1 to be")
    assert here.ok("dead", "requeue", "--all", "--kind", "b", "-o", "json").json["done_count"] == 0
    assert [each["kind"] for each in here.ok("dead", "list", "-o", "json").json] == ["a"]
    assert here.run("dead", "requeue", "--all", "--error-class", "odd").code == 2


def test_a_kind_or_an_error_class_says_which_are_meant(here: Ground) -> None:
    here.submit(lone(kind="a"), lone(kind="b"))
    fail_all(here, "timeout", "a")
    fail_all(here, "bad_response", "b")
    assert here.ok("dead", "requeue", "--error-class", "bad_response").out.startswith("1 to be")
    assert here.ok("dead", "drop", "--kind", "a", "--yes").out == "1 dropped, 0 refused\n"
    assert here.ok("dead", "list", "-o", "json").json == []


def test_what_is_out_of_retries_is_counted_and_needs_force(here: Ground) -> None:
    here.submit(lone())
    for _ in range(3):
        fail_all(here)
        here.ok("dead", "requeue", "--all")
    fail_all(here)
    answer = here.run("dead", "requeue", "--all")
    assert (answer.code, answer.out) == (1, "0 to be run again, 1 refused\n")
    assert "3 of 3 requested retries are used" in answer.err
    here.ok("dead", "requeue", "--all", "--force")


def test_ids_and_all_exclude_each_other(here: Ground) -> None:
    here.submit(lone())
    assert here.run("dead", "requeue").code == 2
    both = here.run("dead", "requeue", "aaaa", "--all")
    assert (both.code, "Give ids or --all, not both." in both.err) == (2, True)
    assert here.run("dead", "drop", "aaaa", "--kind", "a").code == 2


def test_drop_deletes_when_it_is_told_to(here: Ground) -> None:
    here.submit(lone(1), lone(2))
    fail_all(here)
    assert here.run("dead", "drop", "--all").code == 2
    assert here.ok("dead", "drop", "--all", "--yes").out == "2 dropped, 0 refused\n"


def test_a_failed_chunk_is_requeued_alone_but_dropped_with_its_job(here: Ground) -> None:
    (job,) = here.submit(job_of(1))
    fail_all(here)
    (dead,) = here.ok("dead", "list", "-o", "json").json
    answer = here.run("dead", "drop", dead["id"], "--yes")
    assert answer.code == 1
    assert f"is part of job {job}: delete the job" in answer.err
    here.ok("dead", "requeue", dead["id"])
    assert here.ok("get", job, "-o", "json").json["status"] == "pending"


def test_a_job_is_no_dead_letter(here: Ground) -> None:
    (job,) = here.submit(job_of(1))
    answer = here.run("dead", "requeue", job)
    assert (answer.code, f"forebay retry {job}" in answer.err) == (2, True)
