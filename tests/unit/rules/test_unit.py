from __future__ import annotations

import pytest

from forebay.errors import BadInput, Conflict
from forebay.model.exchange import Usage
from forebay.model.job import Event, Job, member, member_id
from forebay.model.outcome import Canceled, Completed, Failed, Rescheduled
from forebay.model.task import NewTask, Role, Status, WaitReason
from forebay.rules import settlement
from forebay.rules import unit as units
from tests.unit.builders import (
    BLOB,
    JOB_ID,
    NOW,
    SESSION_ID,
    assert_helpful,
    chunk,
    chunks_of,
    follow,
    job,
    made,
    merges_of,
    names_of,
    new_job,
    run,
    settle,
    split_job,
    take,
    task,
    the_job,
)

PENDING, RUNNING, COMPLETED, FAILED, CANCELED = Status
BROKEN = Failed(error_class="invalid_pdf", text="no pages")


def test_a_lone_task_is_a_unit_of_its_own() -> None:
    new = NewTask(
        kind="work",
        payload={"page": 1},
        payload_blob=BLOB,
        tenant="acme",
        limit="adobe",
        priority=5,
        deadline_at=NOW + 60,
        timeout_s=9.0,
        max_retries=1,
        max_reschedules=2,
        idempotency_key="k",
        tags=("a",),
    )
    unit = made(new)
    (task,) = unit.tasks.values()
    assert (unit.job, unit.id, unit.events) == (None, new.id, [])
    assert unit.touched == {new.id: None}
    assert (task.id, task.kind, task.lane, task.tenant) == (new.id, "work", "work@adobe", "acme")
    assert (task.status, task.role, task.job_id, task.generation) == (PENDING, Role.LONE, None, 1)
    assert (task.priority, task.deadline_at, task.timeout_s, task.tags) == (5, NOW + 60, 9.0, ("a",))
    assert (task.max_retries, task.max_reschedules, task.idempotency_key) == (1, 2, "k")
    assert (task.payload, task.payload_blob, task.payload_hash) == ({"page": 1}, BLOB, new.payload_hash)
    assert (task.created_at, task.available_at, task.wait_reason) == (NOW, NOW, None)
    assert (task.flow, task.tag, task.claim_count, task.attempt_count) == ("acme/", None, 0, 0)


@pytest.mark.parametrize("role", [Role.SPLIT, Role.MERGE, Role.FOLLOW])
def test_a_part_of_a_job_cannot_be_submitted_alone(role: Role) -> None:
    with pytest.raises(BadInput, match=f"A {role} task is submitted with its job") as caught:
        made(NewTask(kind="work", role=role))
    assert_helpful(caught.value)


@pytest.mark.parametrize(
    ("delay_s", "available_at", "expected"),
    [
        (0.0, None, NOW),
        (60.0, None, NOW + 60),
        (0.0, NOW + 60, NOW + 60),
        (90.0, NOW + 60, NOW + 90),
        (30.0, NOW + 60, NOW + 60),
        (0.0, NOW - 60, NOW),
    ],
)
def test_a_task_is_due_after_its_delay_and_not_before_its_time(
    delay_s: float, available_at: float | None, expected: float
) -> None:
    (task,) = made(NewTask(kind="work", delay_s=delay_s, available_at=available_at)).tasks.values()
    assert task.available_at == expected
    assert task.wait_reason == (WaitReason.SCHEDULED if expected > NOW else None)


def test_a_job_begins_with_its_chunks_counted() -> None:
    new = new_job(3, tenant="acme", label="scan.pdf", tags=("a",), document=BLOB, idempotency_key="k", allow_holes=True)
    unit = made(new)
    made_job = the_job(unit)
    assert unit.id == made_job.id == new.id
    assert (made_job.status, made_job.generation, made_job.created_at) == (PENDING, 1, NOW)
    assert (made_job.pipeline, made_job.tenant, made_job.label, made_job.tags) == ("ocr", "acme", "scan.pdf", ("a",))
    assert (made_job.document, made_job.idempotency_key, made_job.payload_hash) == (BLOB, "k", new.payload_hash)
    assert (made_job.allow_holes, made_job.merge_json is not None, made_job.started_at) == (True, True, None)
    assert (made_job.chunk_count, made_job.open_count, made_job.pending_count) == (3, 3, 3)
    assert [(event.name, event.number, event.at, dict(event.fields)) for event in unit.events] == [
        ("job_created", 1, NOW, {"chunks": 3})
    ]
    assert {(task.job_id, task.flow, task.tenant) for task in unit.tasks.values()} == {
        (new.id, f"acme/{new.id}", "acme")
    }


def test_a_job_that_has_to_be_split_has_no_chunks_yet() -> None:
    unit = made(split_job())
    assert (the_job(unit).chunk_count, the_job(unit).open_count) == (0, 0)
    assert dict(unit.events[0].fields) == {"chunks": 0}


def test_a_fairness_key_goes_before_the_job() -> None:
    unit = made(new_job(1))
    (own,) = made(NewTask(kind="work", fairness_key="acme")).tasks.values()
    assert own.flow == "acme"
    units.add(unit, [chunk(1, fairness_key="acme")], NOW)
    assert [task.flow for task in unit.tasks.values()] == [f"default/{unit.id}", "acme"]


def test_a_task_that_is_there_already_stays_as_it_is() -> None:
    unit = made(new_job(1))
    (task,) = unit.tasks.values()
    run(unit, task.id, Completed())
    before = dict(unit.tasks)
    units.add(unit, [member(chunk(0), unit.id, tenant="default")], NOW + 5)
    assert unit.tasks == before
    assert the_job(unit).chunk_count == 1


def test_a_claim_grants_a_lease_under_the_next_token() -> None:
    unit = made(NewTask(kind="work", timeout_s=60.0, delay_s=5.0))
    held = units.claim(
        unit, unit.tasks[unit.id]._replace(tag=7, claim_count=4), session_id=SESSION_ID, n=9, grace_s=30.0, now=NOW + 5
    )
    assert unit.tasks[unit.id] == held
    assert (held.status, held.claim_count, held.session_id, held.exchange_n) == (RUNNING, 5, SESSION_ID, 9)
    assert (held.claimed_at, held.attempt_deadline_at) == (NOW + 5, NOW + 95)
    assert (held.wait_reason, held.tag, held.attempt_count) == (None, 7, 0)


def test_a_unit_remembers_how_each_task_was_before_it_was_touched() -> None:
    unit = made(new_job(2))
    unit.touched.clear()
    first, _ = unit.tasks.values()
    run(unit, first.id, Completed(follow_ups=(follow("told"),)))
    told = member_id(unit.id, Role.FOLLOW, "told")
    assert unit.touched == {first.id: first, told: None}


def test_only_a_pending_task_can_be_claimed() -> None:
    unit = made(NewTask(kind="work"))
    take(unit, unit.id)
    with pytest.raises(Conflict, match="that is running cannot be claimed"):
        take(unit, unit.id)


def test_the_first_claim_starts_the_job() -> None:
    unit = made(new_job(2))
    first, second = unit.tasks
    take(unit, first, now=NOW + 1)
    assert (the_job(unit).status, the_job(unit).started_at) == (RUNNING, NOW + 1)
    assert (the_job(unit).running_count, the_job(unit).open_count) == (1, 2)
    take(unit, second, now=NOW + 2)
    assert (the_job(unit).started_at, the_job(unit).running_count) == (NOW + 1, 2)
    assert names_of(unit) == ["job_created", "job_running"]


def test_the_end_of_an_attempt_is_written_into_its_row() -> None:
    unit = made(NewTask(kind="work"))
    unit.tasks[unit.id] = unit.tasks[unit.id]._replace(tag=3)
    run(unit, unit.id, Completed(result_json="17", result_blob=BLOB), now=NOW + 2)
    task = unit.tasks[unit.id]
    assert (task.status, task.finished_at, task.attempt_count, task.tag) == (COMPLETED, NOW + 2, 1, None)
    assert (task.result, task.result_blob, task.error_class) == (17, BLOB, None)


def test_a_failure_is_written_into_the_row_and_the_history() -> None:
    unit = made(NewTask(kind="work"))
    take(unit, unit.id, now=NOW + 1)
    settle(unit, unit.id, Failed(error_class="timeout", text="60 s", traceback="Traceback …", delay_s=9.0), now=NOW + 2)
    task = unit.tasks[unit.id]
    assert (task.status, task.wait_reason, task.available_at) == (PENDING, WaitReason.RETRY, NOW + 11)
    assert (task.retry_count, task.error_class, task.error_text) == (1, "timeout", "60 s")
    (past,) = unit.attempts
    assert (past.task_id, past.token, past.attempt, past.session_id, past.worker) == (unit.id, 1, 1, SESSION_ID, "w1")
    assert (past.claimed_at, past.ended_at, past.available_at) == (NOW + 1, NOW + 2, NOW + 11)
    assert (past.outcome, past.status, past.settled, past.retry_count) == ("retried", PENDING, True, 1)
    assert (past.error_class, past.error_text, past.traceback) == ("timeout", "60 s", "Traceback …")


def test_history_numbers_attempts_by_one_and_shows_no_next_time_after_the_last() -> None:
    unit = made(NewTask(kind="work"))
    for outcome in (Rescheduled(delay_s=5), Failed(error_class="timeout", text="60 s"), BROKEN):
        run(unit, unit.id, outcome)
    assert [(past.attempt, past.token, past.outcome) for past in unit.attempts] == [
        (1, 1, "rescheduled"),
        (2, 2, "retried"),
        (3, 3, "failed"),
    ]
    assert [past.reschedule_count for past in unit.attempts] == [1, 1, 1]
    assert unit.attempts[-1].available_at is None
    assert unit.tasks[unit.id].attempt_count == 3


def test_a_claim_handed_back_unused_leaves_no_attempt_and_keeps_its_place() -> None:
    unit = made(NewTask(kind="work"))
    unit.tasks[unit.id] = unit.tasks[unit.id]._replace(tag=3)
    held = take(unit, unit.id)
    units.end(unit, held, settlement.released(held, NOW, started=False), worker="w1", now=NOW)
    task = unit.tasks[unit.id]
    assert (task.status, task.tag, task.attempt_count, task.claim_count) == (PENDING, 3, 0, 1)
    assert unit.attempts == []


def test_a_lost_attempt_shows_in_the_history_as_not_settled() -> None:
    unit = made(NewTask(kind="work"))
    unit.tasks[unit.id] = unit.tasks[unit.id]._replace(tag=3)
    held = take(unit, unit.id)
    units.end(unit, held, settlement.lost(held, NOW, why="its session ended"), worker="w1", now=NOW)
    assert (unit.tasks[unit.id].tag, unit.tasks[unit.id].lost_count) == (3, 1)
    (past,) = unit.attempts
    assert (past.outcome, past.settled, past.error_text) == ("lost", False, "its session ended")


def test_a_settle_leaves_its_usage_and_its_events_in_order() -> None:
    unit = made(new_job(1))
    (task_id,) = unit.tasks
    used = (Usage("adobe", "calls", 1), Usage("adobe", "pages", 15))
    run(unit, task_id, Completed(usage=used, events=(Event(name="seen", fields={"page": 1}),)), now=NOW + 1)
    assert unit.usage == [(task_id, 1, used[0], NOW + 1), (task_id, 1, used[1], NOW + 1)]
    assert names_of(unit) == ["job_created", "job_running", "seen", "chunk_completed", "all_chunks_completed_merging"]
    assert [event.number for event in unit.events] == [1, 2, 3, 4, 5]
    assert (unit.events[2].at, dict(unit.events[2].fields)) == (NOW + 1, {"page": 1})
    assert the_job(unit).event_count == 5


def test_a_lone_task_has_usage_but_no_events() -> None:
    unit = made(NewTask(kind="work"))
    run(unit, unit.id, Completed(usage=(Usage("adobe", "calls", 1),), events=(Event(name="seen"),)))
    assert (len(unit.usage), unit.events) == (1, [])


def test_the_last_chunk_creates_the_merge_in_the_same_step() -> None:
    unit = made(new_job(2))
    first, second = unit.tasks
    run(unit, first, Completed())
    assert merges_of(unit) == []
    run(unit, second, Completed())
    (merge,) = merges_of(unit)
    assert (merge.id, merge.status, merge.generation) == (member_id(unit.id, Role.MERGE, 1), PENDING, 1)
    assert (merge.id, the_job(unit).status) == (the_job(unit).merge_id, RUNNING)
    run(unit, merge.id, Completed(), now=NOW + 9)
    assert (the_job(unit).status, the_job(unit).finished_at) == (COMPLETED, NOW + 9)


def test_chunks_that_end_are_told_with_their_index_and_class() -> None:
    unit = made(new_job(2))
    first, second = unit.tasks
    run(unit, first, Completed())
    run(unit, second, BROKEN)
    told = [(event.name, dict(event.fields)) for event in unit.events if event.name.startswith("chunk_")]
    assert told == [
        ("chunk_completed", {"index": 0}),
        ("chunk_permanently_failed", {"index": 1, "error_class": "invalid_pdf"}),
    ]


def test_an_attempt_that_goes_on_tells_nothing() -> None:
    unit = made(new_job(1))
    (task_id,) = unit.tasks
    run(unit, task_id, Rescheduled(delay_s=5))
    assert names_of(unit) == ["job_created", "job_running"]
    assert (the_job(unit).running_count, the_job(unit).open_count) == (0, 1)


def test_a_failed_job_names_its_holes_and_leaves_the_rest_alone() -> None:
    unit = made(new_job(3))
    first, second, third = unit.tasks
    run(unit, first, BROKEN)
    assert the_job(unit).status is RUNNING
    run(unit, second, Canceled())
    run(unit, third, Completed())
    assert (the_job(unit).status, the_job(unit).error_class) == (FAILED, "ocr_failed")
    assert the_job(unit).error_text == (
        "2 of 3 chunks failed: chunk 0 (invalid_pdf: no pages); chunk 1 (canceled: Canceled)"
    )


def test_a_failed_follow_up_is_no_hole() -> None:
    unit = made(new_job(2))
    first, second = unit.tasks
    run(unit, first, Completed(follow_ups=(follow("told"),)))
    run(unit, member_id(unit.id, Role.FOLLOW, "told"), BROKEN)
    run(unit, second, Completed())
    assert (the_job(unit).status, len(merges_of(unit))) == (RUNNING, 1)


def test_a_split_brings_its_chunks_and_tells_somebody() -> None:
    unit = made(split_job(tenant="acme"))
    (split,) = unit.tasks
    run(unit, split, Completed(follow_ups=(chunk(0), chunk(1), follow("told"))))
    assert (the_job(unit).chunk_count, the_job(unit).open_count, the_job(unit).status) == (2, 2, RUNNING)
    assert [task.id for task in chunks_of(unit)] == [member_id(unit.id, Role.CHUNK, index) for index in (0, 1)]
    assert {task.tenant for task in unit.tasks.values()} == {"acme"}
    assert merges_of(unit) == []


def test_a_split_without_chunks_goes_on_to_the_merge() -> None:
    unit = made(split_job())
    (split,) = unit.tasks
    run(unit, split, Completed())
    assert len(merges_of(unit)) == 1


def brought(job: Job | None, *, status: Status = COMPLETED) -> list[NewTask]:
    """What a job takes of a chunk and a follow-up, from an attempt that ended so."""
    outcome = Completed(follow_ups=(chunk(0), follow("told")))
    held = task(job_id=JOB_ID)
    decided = settlement.decide(held, outcome, now=NOW, jitter=0.0)
    return units.follow_ups(decided, settlement.settled(held, decided, NOW)._replace(status=status), job)


def test_follow_ups_become_members_of_the_job() -> None:
    taken = brought(job(tenant="acme"))
    assert [new.id for new in taken] == [member_id(JOB_ID, Role.CHUNK, 0), member_id(JOB_ID, Role.FOLLOW, "told")]
    assert {new.tenant for new in taken} == {"acme"}


@pytest.mark.parametrize(
    "changes",
    [
        {"cancel_requested_at": NOW},
        {"merge_id": JOB_ID},
        {"status": COMPLETED},
        {"status": FAILED},
        {"status": CANCELED},
    ],
    ids=["to be canceled", "merging", "completed", "failed", "canceled"],
)
def test_a_job_that_merges_or_ends_takes_no_more_chunks_but_still_tells(changes: dict[str, object]) -> None:
    assert [new.role for new in brought(job(**changes))] == [Role.FOLLOW]


def test_a_lone_task_has_no_job_that_could_take_follow_ups() -> None:
    assert brought(None) == []


def test_what_a_cancel_overtook_brings_nothing_along() -> None:
    assert brought(job(), status=CANCELED) == []


def test_a_canceled_attempt_brings_nothing_along() -> None:
    unit = made(new_job(1))
    (task_id,) = unit.tasks
    held = take(unit, task_id)._replace(cancel_requested_at=NOW)
    unit.put(held)
    settle(unit, task_id, Completed(follow_ups=(chunk(1), follow("told"))))
    assert unit.tasks[task_id].status is CANCELED
    assert list(unit.tasks) == [task_id]
    assert the_job(unit).status is FAILED
