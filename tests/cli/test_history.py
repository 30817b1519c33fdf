from __future__ import annotations

import re

import pytest

from forebay.cli.opening import who
from forebay.cli.versions import versions
from forebay.model.outcome import Completed, Failed
from forebay.model.task import Attempt, Role, Status, Task
from forebay.testing.workers import action, job_of, lone
from tests.cli.ground import Ground

AT = re.compile(r"  +20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ$")


def told(here: Ground, identifier: str) -> list[str]:
    return [AT.sub("", line) for line in here.ok("history", identifier).lines]


def test_reschedules_read_as_versions_of_the_task(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    for name, delay_s in (("worker-1", 0.01), ("worker-2", 0.02)):
        with here.worker(name) as worker:
            claims: tuple[Task, ...] = ()
            while not claims:
                claims = worker.claim()
            worker.reschedule(claims[0], delay_s)
    with here.worker() as worker:
        claims = ()
        while not claims:
            claims = worker.claim()
        worker.settle(claims[0], Completed())
    assert told(here, identifier) == [
        "Version 1: pending (created)",
        "Version 2: running (claimed by worker-1)",
        "Version 3: pending (rescheduled, available_at: +0.01s, count: 1)",
        "Version 4: running (claimed by worker-2)",
        "Version 5: pending (rescheduled, available_at: +0.02s, count: 2)",
        "Version 6: running (claimed by worker-1)",
        "Version 7: completed",
    ]
    assert [each["outcome"] for each in here.ok("history", identifier, "-o", "json").json] == [
        "rescheduled",
        "rescheduled",
        "completed",
    ]


def test_what_runs_now_is_told_too(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    with here.worker("worker-9") as worker:
        worker.take()
    assert told(here, identifier)[1:] == ["Version 2: running (claimed by worker-9)"]


def test_failures_name_their_class_and_show_the_traceback_when_verbose(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    with here.worker() as worker:
        worker.settle(worker.take(), Failed(error_class="bug", text="no", traceback="Traceback\n  line\x1b 1"))
    assert told(here, identifier)[2] == "Version 3: failed (bug: no)"
    assert "    Traceback\n      line\\x1b 1\n" in here.ok("history", identifier, "--verbose").out


def test_a_retry_by_hand_and_a_cancel_are_told(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    with here.worker() as worker:
        worker.settle(worker.take(), Failed(error_class="timeout", text="60 s", delay_s=0))
        worker.fail(worker.take())
    here.ok("retry", identifier)
    assert told(here, identifier)[2:] == [
        "Version 3: pending (retried, available_at: +0s, retry 1 of 3, timeout: 60 s)",
        "Version 4: running (claimed by worker-1)",
        "Version 5: failed (internal_error: no pages)",
        f"Version 6: pending (to be run again, asked by {who()})",
    ]
    assert AT.search(here.ok("history", identifier).lines[5])
    here.ok("cancel", identifier)
    assert told(here, identifier)[6:] == ["Version 7: canceled"]


@pytest.mark.slow
def test_who_asked_for_a_retry_is_found_behind_thousands_of_other_actions(here: Ground) -> None:
    (identifier,) = here.submit(lone(max_retries=0))
    with here.worker() as worker:
        worker.fail(worker.take())
    here.ok("retry", identifier)
    with here.app() as app:
        for number in range(1001):
            app.ledger.record_action("set_limit", ["adobe"], action(note=str(number)))
    assert told(here, identifier)[3] == f"Version 4: pending (to be run again, asked by {who()})"


def test_who_asked_for_a_retry_is_found_at_the_end_of_a_bulk(here: Ground) -> None:
    made = here.submit(*(lone(number, max_retries=0) for number in range(120)))
    with here.worker() as worker:
        for claimed in worker.claim(120):
            worker.fail(claimed)
    here.ok("retry", *made)
    assert told(here, made[-1])[3] == f"Version 4: pending (to be run again, asked by {who()})"


def test_lost_attempts_say_why() -> None:
    task = Task(
        id="a" * 26, kind="k", lane="k", tenant="t", status=Status.FAILED, role=Role.LONE, job_id=None,
        chunk_index=None, generation=1, priority=0, flow=None, tag=None, tags=(), idempotency_key=None,
        payload_hash=None, payload_blob=None, timeout_s=60, deadline_at=None, max_retries=3, max_reschedules=None,
        created_at=0, available_at=0,
    )  # fmt: skip
    lost = Attempt(
        task_id=task.id, token=1, attempt=1, session_id="s", worker="w", claimed_at=1, ended_at=2, outcome="lost",
        status=Status.PENDING, retry_count=0, reschedule_count=0, settled=False, error_text="its session ran out",
    )  # fmt: skip
    made = [f"{each.status}: {each.how}" for each in versions(task, [lost], "")]
    assert made[2] == "pending: lost, its session ran out"


def test_the_history_of_a_job_is_its_events(here: Ground) -> None:
    (identifier,) = here.submit(job_of(1))
    here.ok("cancel", identifier)
    assert "cancel_requested" in here.ok("history", identifier).out
    events = here.ok("history", identifier, "-o", "json").json
    assert [each["number"] for each in events] == list(range(1, len(events) + 1))
    assert all(each["at"].endswith("Z") for each in events)
