from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forebay.model.exchange import Acted, Action
from forebay.model.job import Job, NewJob
from forebay.model.outcome import Canceled, Completed, Failed, Outcome, Rescheduled
from forebay.model.task import NewTask, Role, Status, Task, WaitReason
from forebay.rules import actions, settlement
from forebay.rules import unit as units
from forebay.rules.settlement import MOVES
from forebay.rules.unit import Unit
from tests.unit.builders import (
    BLOB,
    NOW,
    chunk,
    chunks_of,
    follow,
    made,
    merges_of,
    names_of,
    new_job,
    run,
    settle,
    split_job,
    take,
    the_job,
)

PENDING, RUNNING, COMPLETED, FAILED, CANCELED = Status
LATER = NOW + 60
BROKEN = Failed(error_class="timeout", text="60 s", permanent=True)
HOPELESS = Failed(error_class="invalid_pdf", text="no pages")
LIMIT = "RETRY_LIMIT_EXCEEDED"


def job_with(*outcomes: Outcome | None, **options: object) -> Unit:
    """A job whose chunks ended so; None leaves one waiting."""
    unit = made(new_job(len(outcomes), **options))  # type: ignore[arg-type]  # NewJob checks them
    for task, outcome in zip(list(unit.tasks.values()), outcomes, strict=True):
        if outcome is not None:
            run(unit, task.id, outcome)
    return unit


def statuses(unit: Unit) -> list[Status]:
    return [task.status for task in unit.tasks.values()]


def untouched(unit: Unit) -> tuple[object, ...]:
    return (unit.job, dict(unit.tasks), list(unit.events), list(unit.attempts), unit.deleted)


def lone(outcome: Outcome | None = None, **options: object) -> Unit:
    unit = made(NewTask(**({"kind": "work"} | options)))  # type: ignore[arg-type]  # NewTask checks them
    if outcome is not None:
        run(unit, unit.id, outcome)
    return unit


def test_a_waiting_task_is_canceled_at_once() -> None:
    unit = lone(delay_s=60.0)
    assert actions.cancel(unit, unit.id, LATER) == Acted(unit.id, "done")
    task = unit.tasks[unit.id]
    assert (task.status, task.finished_at, task.cancel_requested_at) == (CANCELED, LATER, LATER)
    assert (task.error_class, task.error_text) == ("canceled", "Canceled")
    assert (task.wait_reason, task.tag, unit.attempts) == (None, None, [])


def test_a_task_that_was_ready_loses_its_place() -> None:
    unit = lone()
    unit.put(unit.tasks[unit.id]._replace(tag=7))
    actions.cancel(unit, unit.id, LATER)
    assert unit.tasks[unit.id].tag is None


def test_a_running_task_is_asked_to_stop_and_the_first_time_is_kept() -> None:
    unit = lone()
    take(unit, unit.id)
    for now in (LATER, LATER + 5):
        assert actions.cancel(unit, unit.id, now).done
        assert unit.tasks[unit.id].status is RUNNING
        assert unit.tasks[unit.id].cancel_requested_at == LATER


@pytest.mark.parametrize("outcome", [Completed(), BROKEN, Canceled()])
def test_what_has_ended_is_not_canceled(outcome: Outcome) -> None:
    for unit in (lone(outcome), job_with(outcome, merge=None)):
        before = untouched(unit)
        status = (unit.job or unit.tasks[unit.id]).status
        answer = actions.cancel(unit, unit.id, LATER)
        assert answer.outcome == f"already_{status}"
        assert unit.id in answer.text
        assert untouched(unit) == before


def test_a_waiting_job_is_canceled_whole() -> None:
    unit = made(new_job(3))
    assert actions.cancel(unit, unit.id, LATER).done
    assert statuses(unit) == [CANCELED] * 3
    job = the_job(unit)
    assert (job.status, job.cancel_requested_at, job.finished_at) == (CANCELED, LATER, LATER)
    assert (job.canceled_count, job.open_count) == (3, 0)
    assert names_of(unit) == ["job_created", "cancel_requested", *["chunk_canceled"] * 3, "job_canceled"]


def test_a_running_job_ends_when_its_attempts_have_ended() -> None:
    unit = made(new_job(3))
    done, running, waiting = unit.tasks
    run(unit, done, Completed())
    take(unit, running)
    actions.cancel(unit, unit.id, LATER)
    assert [unit.tasks[each].status for each in (done, running, waiting)] == [COMPLETED, RUNNING, CANCELED]
    assert unit.tasks[running].cancel_requested_at == LATER
    assert (the_job(unit).status, the_job(unit).cancel_requested_at) == (RUNNING, LATER)
    actions.cancel(unit, unit.id, LATER + 5)
    assert the_job(unit).cancel_requested_at == LATER
    settle(unit, running, Completed(), now=LATER + 9)
    assert (the_job(unit).status, the_job(unit).finished_at) == (CANCELED, LATER + 9)
    assert merges_of(unit) == []


def test_one_canceled_chunk_is_a_hole_and_not_the_end_of_the_job() -> None:
    unit = job_with(Completed(), None)
    assert actions.cancel(unit, chunks_of(unit)[1].id, LATER).done
    assert (the_job(unit).status, the_job(unit).cancel_requested_at) == (FAILED, None)
    assert the_job(unit).error_text == "1 of 2 chunks failed: chunk 1 (canceled: Canceled)"


def test_a_canceled_merge_cancels_its_job() -> None:
    for whole in (True, False):
        unit = job_with(Completed())
        (merge,) = merges_of(unit)
        assert actions.cancel(unit, unit.id if whole else merge.id, LATER).done
        assert (the_job(unit).status, unit.tasks[merge.id].status) == (CANCELED, CANCELED)


def test_follow_ups_go_their_own_way_when_the_job_is_canceled() -> None:
    unit = job_with(Completed(follow_ups=(follow("told"),)), None)
    actions.cancel(unit, unit.id, LATER)
    assert {task.role: task.status for task in unit.tasks.values()} == {Role.CHUNK: CANCELED, Role.FOLLOW: PENDING}
    assert actions.retry(unit, unit.id, LATER).done
    actions.cancel(unit, unit.id, LATER)
    told = next(task for task in unit.tasks.values() if task.role is Role.FOLLOW)
    assert actions.cancel(unit, told.id, LATER).done
    assert unit.tasks[told.id].status is CANCELED


def test_a_split_that_is_overtaken_by_a_cancel_ends_its_job_without_chunks() -> None:
    for whole in (True, False):
        unit = made(split_job())
        (split,) = unit.tasks
        take(unit, split)
        actions.cancel(unit, unit.id if whole else split, LATER)
        settle(unit, split, Completed(follow_ups=(chunk(0), chunk(1))), now=LATER)
        assert (the_job(unit).status, list(unit.tasks)) == (CANCELED, [split])


@pytest.mark.parametrize("outcome", [BROKEN, Canceled()])
def test_a_retry_runs_a_task_again_and_its_own_retries_begin_again(outcome: Outcome) -> None:
    unit = lone(outcome)
    left = {"reschedule_count": 7, "lost_count": 3, "retry_count": 1, "cancel_requested_at": NOW, "tag": 7}
    unit.put(unit.tasks[unit.id]._replace(**left))  # type: ignore[arg-type]  # as they were before it ended
    assert actions.retry(unit, unit.id, LATER) == Acted(unit.id, "done")
    task = unit.tasks[unit.id]
    assert (task.status, task.retry_count, task.generation) == (PENDING, 0, 2)
    assert task.requested_retry_count == (1 if outcome is BROKEN else 0)
    assert (task.error_class, task.error_text) == (None, None)
    assert (task.reschedule_count, task.lost_count, task.tag) == (0, 0, None)
    assert (task.available_at, task.finished_at, task.cancel_requested_at) == (LATER, None, None)
    assert (task.claim_count, task.attempt_count) == (1, 1)


def test_a_retry_drops_what_an_earlier_attempt_left() -> None:
    unit = lone(Completed(result_json="1", result_blob=BLOB))
    unit.put(unit.tasks[unit.id]._replace(status=FAILED))
    actions.retry(unit, unit.id, LATER)
    assert (unit.tasks[unit.id].result_json, unit.tasks[unit.id].result_blob) == (None, None)


@pytest.mark.parametrize("force", [False, True])
def test_what_has_not_failed_is_not_retried(force: bool) -> None:  # noqa: FBT001 - a case
    running = lone()
    take(running, running.id)
    for unit in (lone(), running, lone(Completed()), job_with(Completed()), job_with(None, Completed())):
        before = untouched(unit)
        answer = actions.retry(unit, unit.id, LATER, force=force)
        assert (answer.outcome, untouched(unit)) == ("not_retryable", before)
        assert unit.id in answer.text


def test_a_retry_at_the_limit_is_refused_naming_each_chunk_and_its_count() -> None:
    unit = job_with(BROKEN, Completed(), BROKEN, BROKEN, HOPELESS)
    first, _, third, fourth, _ = chunks_of(unit)
    unit.put(first._replace(requested_retry_count=3))
    unit.put(third._replace(requested_retry_count=3, page_start=61, page_end=80))
    unit.put(fourth._replace(requested_retry_count=2))
    before = untouched(unit)
    answer = actions.retry(unit, unit.id, LATER)
    assert answer.outcome == LIMIT
    assert answer.text == (
        "PERMANENT: chunk 0 (3 of 3 requested retries are used); "
        "chunk 2, pages 61-80 (3 of 3 requested retries are used); chunk 4 (invalid_pdf is not retryable). "
        "Retry it with force to run it anyway."
    )
    assert untouched(unit) == before
    assert actions.retry(unit, fourth.id, LATER).done


def test_an_error_class_that_is_unknown_here_may_be_retried() -> None:
    unit = lone(BROKEN)
    unit.put(unit.tasks[unit.id]._replace(error_class="of_a_later_version"))
    assert actions.retry(unit, unit.id, LATER).done


def test_a_job_that_may_have_holes_is_refused_only_if_nothing_of_it_can_succeed() -> None:
    unit = job_with(Completed(), HOPELESS, BROKEN, allow_holes=True)
    assert actions.retry(unit, unit.id, LATER).done
    assert [task.status for task in chunks_of(unit)] == [COMPLETED, FAILED, PENDING]
    run(unit, chunks_of(unit)[2].id, Completed())
    answer = actions.retry(unit, unit.id, LATER)
    assert (answer.outcome, "chunk 1 (invalid_pdf" in answer.text) == ("not_retryable", True)
    assert actions.retry(unit, chunks_of(unit)[1].id, LATER).outcome == "not_retryable"


def test_what_has_no_index_is_named_by_its_role_and_id() -> None:
    unit = lone(HOPELESS)
    assert f"task {unit.id} (invalid_pdf" in actions.retry(unit, unit.id, LATER).text


def test_a_refusal_is_short_however_many_chunks_it_names() -> None:
    unit = job_with(*[HOPELESS] * 300)
    answer = actions.retry(unit, unit.id, LATER)
    assert answer.outcome == "not_retryable"
    assert len(answer.text) < 4100
    assert answer.text.endswith(" …. Retry it with force to run it anyway.")


def test_force_goes_over_the_limit_and_counts_anew() -> None:
    unit = job_with(BROKEN, HOPELESS)
    first, second = chunks_of(unit)
    unit.put(first._replace(requested_retry_count=3))
    unit.put(second._replace(requested_retry_count=1))
    assert actions.retry(unit, unit.id, LATER, force=True).done
    assert [(task.status, task.requested_retry_count) for task in chunks_of(unit)] == [(PENDING, 0), (PENDING, 0)]


def test_a_retried_job_reopens_under_a_new_generation_and_keeps_what_is_done() -> None:
    unit = job_with(Completed(result_blob=BLOB), BROKEN, Canceled())
    kept = chunks_of(unit)[0]
    assert actions.retry(unit, unit.id, LATER).done
    job = the_job(unit)
    assert (job.status, job.generation, job.finished_at) == (PENDING, 2, None)
    assert (job.error_class, job.error_text, job.cancel_requested_at) == (None, None, None)
    assert (job.open_count, job.completed_count, job.failed_count, job.canceled_count) == (2, 1, 0, 0)
    assert unit.tasks[kept.id] == kept
    assert [task.generation for task in chunks_of(unit)] == [1, 2, 2]
    event = unit.events[-1]
    assert (event.name, dict(event.fields)) == ("retrying_failed_chunks", {"failed": 2, "kept": 1})
    for task in chunks_of(unit)[1:]:
        run(unit, task.id, Completed())
    assert [merge.generation for merge in merges_of(unit)] == [2]


def test_a_job_with_an_attempt_in_hand_stays_running_when_a_chunk_is_retried() -> None:
    unit = job_with(BROKEN, None)
    failed, other = chunks_of(unit)
    take(unit, other.id)
    assert actions.retry(unit, failed.id, LATER).done
    assert (the_job(unit).status, the_job(unit).started_at) == (RUNNING, NOW)
    settle(unit, other.id, Completed())
    assert merges_of(unit) == []


def test_a_retry_after_a_cancel_undoes_the_cancel() -> None:
    unit = made(new_job(2))
    actions.cancel(unit, unit.id, LATER)
    assert actions.retry(unit, unit.id, LATER).done
    for task in chunks_of(unit):
        run(unit, task.id, Completed())
    run(unit, merges_of(unit)[0].id, Completed())
    assert the_job(unit).status is COMPLETED


def test_a_failed_merge_runs_again_alone_and_its_retries_are_counted_over_generations() -> None:
    unit = job_with(Completed())
    for number in range(3):
        merge = merges_of(unit)[-1]
        assert (merge.generation, merge.requested_retry_count) == (number + 1, number)
        run(unit, merge.id, BROKEN)
        assert actions.retry(unit, unit.id, LATER).done
    last = merges_of(unit)[-1]
    run(unit, last.id, BROKEN)
    answer = actions.retry(unit, unit.id, LATER)
    assert (answer.outcome, f"merge {last.id} (3 of 3 requested" in answer.text) == (LIMIT, True)
    assert actions.retry(unit, last.id, LATER, force=True).done
    newest = merges_of(unit)[-1]
    assert (newest.generation, newest.requested_retry_count, the_job(unit).merge_id) == (5, 0, newest.id)
    assert [task.status for task in chunks_of(unit)] == [COMPLETED]
    run(unit, newest.id, Completed())
    assert the_job(unit).status is COMPLETED


def test_a_merge_that_was_replaced_is_not_retried() -> None:
    unit = job_with(Completed())
    (old,) = merges_of(unit)
    run(unit, old.id, BROKEN)
    actions.retry(unit, unit.id, LATER)
    assert actions.retry(unit, old.id, LATER, force=True).outcome == "not_retryable"


def test_with_chunks_to_redo_the_merge_follows_by_itself() -> None:
    unit = job_with(Completed(), BROKEN, allow_holes=True)
    run(unit, merges_of(unit)[0].id, BROKEN)
    assert actions.retry(unit, unit.id, LATER).done
    assert len(merges_of(unit)) == 1
    assert the_job(unit).merge_id is None


@pytest.mark.parametrize("running", [False, True])
def test_a_merge_under_way_is_dropped_when_a_hole_is_retried(running: bool) -> None:  # noqa: FBT001 - a case
    unit = job_with(Completed(), BROKEN, allow_holes=True)
    (merge,) = merges_of(unit)
    unit.put(merge._replace(tag=4, wait_reason=WaitReason.RETRY))
    if running:
        take(unit, merge.id)
    assert actions.retry(unit, chunks_of(unit)[1].id, LATER).done
    old = unit.tasks[merge.id]
    if running:
        assert (old.status, old.cancel_requested_at) == (RUNNING, LATER)
        settle(unit, merge.id, Completed(), now=LATER)
    else:
        assert (old.status, old.finished_at, old.tag, old.wait_reason) == (CANCELED, LATER, None, None)
    assert (the_job(unit).status, the_job(unit).generation, the_job(unit).merge_id) == (PENDING, 2, None)
    run(unit, chunks_of(unit)[1].id, Completed())
    assert [task.generation for task in merges_of(unit)] == [1, 2]


def test_a_merge_that_was_asked_to_stop_before_keeps_the_first_time() -> None:
    unit = job_with(Completed(), BROKEN, allow_holes=True)
    (merge,) = merges_of(unit)
    take(unit, merge.id)
    actions.cancel(unit, merge.id, LATER)
    actions.retry(unit, chunks_of(unit)[1].id, LATER + 5)
    assert unit.tasks[merge.id].cancel_requested_at == LATER


def test_a_failed_split_runs_again() -> None:
    unit = made(split_job())
    (split,) = unit.tasks
    run(unit, split, BROKEN)
    assert actions.retry(unit, unit.id, LATER).done
    assert (unit.tasks[split].status, the_job(unit).status, names_of(unit)[-1]) == (PENDING, PENDING, "retrying")
    assert dict(unit.events[-1].fields) == {"failed": 0, "kept": 0}


def completed_job(**options: object) -> Unit:
    unit = job_with(Completed(result_blob=BLOB), Completed(follow_ups=(follow("told"),)), **options)
    run(unit, merges_of(unit)[0].id, Completed())
    assert the_job(unit).status is COMPLETED
    return unit


@pytest.mark.parametrize("outcome", [BROKEN, Completed()])
def test_redoing_a_follow_up_leaves_its_job_as_it_is(outcome: Outcome) -> None:
    unit = completed_job()
    told = next(task for task in unit.tasks.values() if task.role is Role.FOLLOW)
    run(unit, told.id, outcome)
    before = the_job(unit)
    if outcome == BROKEN:
        assert actions.retry(unit, told.id, LATER).done
    else:
        assert actions.lose_result(unit, told.id, None, LATER).done
    assert unit.tasks[told.id].status is PENDING
    after = the_job(unit)
    assert (after.status, after.generation, after.merge_id) == (before.status, before.generation, before.merge_id)


def test_a_lost_result_is_made_again_under_a_new_generation_and_burns_no_retry() -> None:
    unit = completed_job()
    lost, other = chunks_of(unit)
    (merge,) = merges_of(unit)
    unit.put(lost._replace(retry_count=3))
    assert actions.lose_result(unit, lost.id, BLOB, LATER) == Acted(lost.id, "done")
    task = unit.tasks[lost.id]
    assert (task.status, task.retry_count, task.result_blob, task.generation) == (PENDING, 3, None, 2)
    assert (the_job(unit).status, the_job(unit).generation, the_job(unit).merge_id) == (PENDING, 2, None)
    assert unit.tasks[merge.id] == merge
    assert (unit.events[-1].name, dict(unit.events[-1].fields)) == ("result_lost", {"index": 0})
    run(unit, lost.id, Completed())
    assert [merge.generation for merge in merges_of(unit)] == [1, 2]
    assert unit.tasks[other.id].attempt_count == 1


def test_results_lost_one_after_the_other_are_all_made_again() -> None:
    unit = completed_job()
    first, second = chunks_of(unit)
    assert actions.lose_result(unit, first.id, BLOB, LATER).done
    assert actions.lose_result(unit, second.id, None, LATER).done
    assert (the_job(unit).generation, the_job(unit).open_count) == (3, 2)
    for task in (first, second):
        run(unit, task.id, Completed())
    assert [merge.generation for merge in merges_of(unit)] == [1, 3]


def test_the_lost_result_of_a_lone_task_is_made_again() -> None:
    unit = lone(Completed(result_json="1"))
    assert actions.lose_result(unit, unit.id, None, LATER).done
    task = unit.tasks[unit.id]
    assert (task.status, task.generation, task.result_json) == (PENDING, 2, None)


def test_a_lost_merge_runs_again_alone() -> None:
    unit = completed_job()
    (merge,) = merges_of(unit)
    assert actions.lose_result(unit, merge.id, None, LATER).done
    newest = merges_of(unit)[-1]
    assert (newest.generation, newest.status, newest.retry_count) == (2, PENDING, 0)
    assert (the_job(unit).merge_id, dict(unit.events[-1].fields)) == (newest.id, {})
    assert [task.status for task in chunks_of(unit)] == [COMPLETED, COMPLETED]


@pytest.mark.parametrize("result_blob", [None, "f" * 64])
def test_a_result_that_was_replaced_since_is_not_lost(result_blob: str | None) -> None:
    unit = completed_job()
    before = untouched(unit)
    answer = actions.lose_result(unit, chunks_of(unit)[0].id, result_blob, LATER)
    assert (answer.outcome, untouched(unit)) == ("changed", before)


@pytest.mark.parametrize("outcome", [None, BROKEN, Canceled()])
def test_only_what_is_completed_has_a_result_to_lose(outcome: Outcome | None) -> None:
    unit = lone(outcome)
    before = untouched(unit)
    assert actions.lose_result(unit, unit.id, None, LATER).outcome == "changed"
    assert untouched(unit) == before


def test_a_merge_that_was_replaced_since_is_not_lost() -> None:
    unit = completed_job()
    (merge,) = merges_of(unit)
    actions.lose_result(unit, chunks_of(unit)[0].id, BLOB, LATER)
    before = untouched(unit)
    assert actions.lose_result(unit, merge.id, None, LATER).outcome == "changed"
    assert untouched(unit) == before


def test_a_job_as_such_has_no_result_to_lose() -> None:
    unit = completed_job()
    before = untouched(unit)
    answer = actions.lose_result(unit, unit.id, None, LATER)
    assert (answer.outcome, untouched(unit)) == ("not_found", before)
    assert "name the task" in answer.text


@pytest.mark.parametrize("stops", [False, True], ids=["still canceling", "canceled"])
def test_a_lost_result_does_not_call_off_a_cancel(*, stops: bool) -> None:
    unit = job_with(Completed(result_blob=BLOB, follow_ups=(follow("told"),)), None)
    lost, running, told = unit.tasks.values()
    take(unit, running.id)
    run(unit, told.id, Completed())
    actions.cancel(unit, unit.id, LATER)
    if stops:
        settle(unit, running.id, Canceled(), now=LATER)
    before = untouched(unit)
    answer = actions.lose_result(unit, lost.id, BLOB, LATER)
    assert (answer.outcome, untouched(unit)) == ("not_retryable", before)
    assert "retry it" in answer.text
    assert actions.lose_result(unit, told.id, None, LATER).done
    assert the_job(unit).cancel_requested_at == LATER


def test_a_job_that_completed_in_spite_of_a_cancel_makes_its_lost_results_again() -> None:
    unit = job_with(Completed(result_blob=BLOB))
    (merge,) = merges_of(unit)
    take(unit, merge.id)
    actions.cancel(unit, unit.id, LATER)
    settle(unit, merge.id, Completed(), now=LATER)
    assert (the_job(unit).status, the_job(unit).cancel_requested_at) == (COMPLETED, LATER)
    assert actions.lose_result(unit, chunks_of(unit)[0].id, BLOB, LATER).done
    assert the_job(unit).cancel_requested_at is None


def test_a_canceled_job_makes_its_lost_results_again_once_it_is_retried() -> None:
    unit = job_with(Completed(result_blob=BLOB), None)
    actions.cancel(unit, unit.id, LATER)
    assert actions.retry(unit, unit.id, LATER).done
    assert actions.lose_result(unit, chunks_of(unit)[0].id, BLOB, LATER).done


def test_a_split_is_not_redone_since_its_chunks_are_there() -> None:
    unit = made(split_job())
    (split,) = unit.tasks
    run(unit, split, Completed(follow_ups=(chunk(0),)))
    before = untouched(unit)
    assert actions.lose_result(unit, split, None, LATER).outcome == "not_retryable"
    assert untouched(unit) == before


def test_a_unit_with_a_running_task_is_not_deleted() -> None:
    unit = made(new_job(2))
    take(unit, chunks_of(unit)[1].id)
    answer = actions.delete(unit, unit.id, LATER)
    assert (answer.outcome, unit.deleted) == ("running", False)
    assert "cancel it first" in answer.text


def test_a_part_of_a_job_is_not_deleted_alone() -> None:
    unit = made(new_job(1))
    answer = actions.delete(unit, chunks_of(unit)[0].id, LATER)
    assert (answer.outcome, unit.deleted) == ("part_of_job", False)
    assert unit.id in answer.text


def test_a_unit_that_waits_or_has_ended_is_deleted() -> None:
    for unit in (lone(), lone(Completed()), made(new_job(2)), completed_job()):
        assert actions.delete(unit, unit.id, LATER) == Acted(unit.id, "done")
        assert unit.deleted


def test_an_action_leaves_a_line_that_names_its_first_targets_and_how_many_there_were() -> None:
    asked = Action(who="ann", tenant="acme", note="as agreed")
    line = actions.audited(asked, "cancel", [f"target {number}" for number in range(101)], LATER)
    assert (line.id, line.at, line.who, line.tenant, line.verb) == (asked.id, LATER, "ann", "acme", "cancel")
    assert (line.targets, line.target_count) == (tuple(f"target {number}" for number in range(100)), 101)
    assert line.note == "as agreed"


OPEN = {PENDING, RUNNING}
MAY_FOLLOW = {(before, after) for row in MOVES.values() for before, after in row.items()}
PICK = st.integers(0, 99)
FINAL = st.sampled_from([Completed(), BROKEN, Canceled(), Failed(error_class="bug", text="boom")])
PASSING = st.sampled_from(
    [
        Rescheduled(delay_s=5),
        Failed(error_class="timeout", text="60 s"),
        Failed(error_class="rate_limited", text="HTTP 429"),
        Failed(error_class="parser_crashed", text="signal 11"),
    ]
)
BRINGING = st.lists(st.builds(chunk, st.integers(0, 6)) | st.builds(follow, st.sampled_from("ab")), max_size=3).map(
    lambda follow_ups: Completed(follow_ups=tuple(follow_ups))
)
UNITS = st.one_of(
    st.builds(lambda retries: NewTask(kind="work", max_retries=retries, max_reschedules=3), st.integers(0, 2)),
    st.builds(
        lambda chunks, retries, merges, holes: new_job(
            chunks,
            max_retries=retries,
            merge=NewTask(kind="merge", role=Role.MERGE) if merges else None,
            allow_holes=holes,
        ),
        st.integers(1, 4),
        st.integers(0, 2),
        st.sampled_from([True, True, False]),
        st.booleans(),
    ),
    st.builds(split_job),
)


class AnyUnit(RuleBasedStateMachine):
    """Random steps of workers and people on one unit; what must hold is looked at after each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.unit = made(NewTask(kind="work"))
        self.now = NOW
        self.reopening = ""
        self.seen: dict[str, Task] = {}
        self.seen_job: Job | None = None

    @initialize(new=UNITS)
    def begin(self, new: NewTask | NewJob) -> None:
        self.unit = made(new, now=self.now)

    def pick(self, number: int, *, status: Status | None = None) -> Task:
        chosen = [task for task in self.unit.tasks.values() if status in {None, task.status}]
        return chosen[number % len(chosen)]

    def has(self, status: Status) -> bool:
        return any(task.status is status for task in self.unit.tasks.values())

    def target(self, number: int) -> str:
        everything = [self.unit.id, *self.unit.tasks]
        return everything[number % len(everything)]

    @precondition(lambda self: self.has(PENDING))
    @rule(number=PICK)
    def claim(self, number: int) -> None:
        self.now += 1
        take(self.unit, self.pick(number, status=PENDING).id, now=self.now)

    @precondition(lambda self: self.has(RUNNING))
    @rule(number=PICK, outcome=FINAL | PASSING | BRINGING)
    def settle(self, number: int, outcome: Outcome) -> None:
        self.now += 1
        task = self.pick(number, status=RUNNING)
        if isinstance(outcome, Completed) and task.role not in {Role.SPLIT, Role.CHUNK}:
            # A lone task brings nothing along, and a merge or a follow-up no chunks.
            told = [new for new in outcome.follow_ups if task.job_id and new.role is Role.FOLLOW]
            outcome = Completed(follow_ups=tuple(told))
        settle(self.unit, task.id, outcome, now=self.now)

    @precondition(lambda self: self.has(RUNNING))
    @rule(number=PICK, started=st.booleans())
    def release(self, number: int, started: bool) -> None:  # noqa: FBT001 - drawn
        task = self.pick(number, status=RUNNING)
        ending = settlement.released(task, self.now, started=started)
        units.end(self.unit, task, ending, worker="w1", now=self.now)

    @precondition(lambda self: self.has(RUNNING))
    @rule(number=PICK)
    def lose(self, number: int) -> None:
        task = self.pick(number, status=RUNNING)
        ending = settlement.lost(task, self.now, why="its session ended")
        units.end(self.unit, task, ending, worker="w1", now=self.now)

    @rule(number=PICK)
    def cancel(self, number: int) -> None:
        answer = actions.cancel(self.unit, self.target(number), self.now)
        assert answer.done or answer.outcome.startswith("already_")

    @rule(number=PICK, force=st.booleans())
    def retry(self, number: int, force: bool) -> None:  # noqa: FBT001 - drawn
        target = self.target(number)
        before = dict(self.unit.tasks)
        answer = actions.retry(self.unit, target, self.now, force=force)
        assert answer.outcome in ({"done", "not_retryable"} if force else {"done", "not_retryable", LIMIT})
        self.reopening = "retry" if answer.done else ""
        for task in before.values():
            again = self.unit.tasks[task.id]
            if task.status in {FAILED, CANCELED} and again.status is PENDING:
                assert again.retry_count == 0
                failed = task.status is FAILED
                assert again.requested_retry_count == (0 if force else task.requested_retry_count + failed)
                assert again.requested_retry_count <= 3
                assert force or not failed or task.error_class not in {"invalid_pdf", "poison"}
            else:
                assert (again.retry_count, again.requested_retry_count) == (
                    task.retry_count,
                    task.requested_retry_count,
                )

    @rule(number=PICK)
    def lose_result(self, number: int) -> None:
        task = self.pick(number)
        answer = actions.lose_result(self.unit, task.id, task.result_blob, self.now)
        assert answer.done <= (task.status is COMPLETED)
        self.reopening = "lose_result" if answer.done else ""
        assert self.unit.tasks[task.id].retry_count == task.retry_count

    @rule(number=PICK)
    def delete(self, number: int) -> None:
        target = self.target(number)
        answer = actions.delete(self.unit, target, self.now)
        assert answer.done == (target == self.unit.id and not self.has(RUNNING))
        self.unit.deleted = False

    @invariant()
    def what_changed_was_allowed_to(self) -> None:
        for task_id, before in self.seen.items():
            after = self.unit.tasks[task_id]
            assert before.status is after.status or (before.status, after.status) in MAY_FOLLOW
            assert after.claim_count >= before.claim_count
            assert after.attempt_count >= before.attempt_count
            if before.status.terminal and after.status is not before.status:
                assert self.reopening == ("lose_result" if before.status is COMPLETED else "retry")
        job, was = self.unit.job, self.seen_job
        if job is not None and was is not None:
            assert job.generation - was.generation in ({0, 1} if self.reopening else {0})
            if was.status.terminal and job.status is not was.status:
                assert job.generation == was.generation + 1
        self.seen, self.seen_job, self.reopening = dict(self.unit.tasks), job, ""

    @invariant()
    def rows_are_sound(self) -> None:
        for task in self.unit.tasks.values():
            assert (task.finished_at is not None) == task.status.terminal
            assert task.status is not PENDING or task.cancel_requested_at is None
            history = [past for past in self.unit.attempts if past.task_id == task.id]
            assert [past.attempt for past in history] == list(range(1, task.attempt_count + 1))
            tokens = [past.token for past in history]
            assert tokens == sorted(set(tokens))
            assert not tokens or tokens[-1] <= task.claim_count - (task.status is RUNNING)
            assert task.lost_count <= 5
            if task.max_reschedules is not None:
                assert task.reschedule_count <= task.max_reschedules

    @invariant()
    def counters_are_what_a_recount_finds(self) -> None:
        if self.unit.job is None:
            return
        job = self.unit.job
        rows = Counter(task.status for task in chunks_of(self.unit))
        assert (job.chunk_count, job.open_count) == (rows.total(), rows[PENDING] + rows[RUNNING])
        assert (job.pending_count, job.running_count) == (rows[PENDING], rows[RUNNING])
        assert (job.completed_count, job.failed_count, job.canceled_count) == (
            rows[COMPLETED],
            rows[FAILED],
            rows[CANCELED],
        )

    @invariant()
    def events_are_numbered_without_gaps(self) -> None:
        if self.unit.job is not None:
            numbers = [event.number for event in self.unit.events]
            assert numbers == list(range(1, self.unit.job.event_count + 1))

    @invariant()
    def there_is_one_merge_in_a_generation_and_only_of_closed_chunks(self) -> None:
        if self.unit.job is None:
            return
        job = self.unit.job
        merges = merges_of(self.unit)
        assert max(Counter(task.generation for task in merges).values(), default=0) <= 1
        current = [task for task in merges if task.generation == job.generation]
        assert job.merge_id == (current[0].id if current else None)
        stages = [task for task in self.unit.tasks.values() if task.role in {Role.CHUNK, Role.SPLIT}]
        if current:
            assert not any(task.status in OPEN for task in stages)
        if job.status is COMPLETED and job.merge_json is not None:
            assert [task.status for task in current] == [COMPLETED]

    @invariant()
    def a_job_is_open_while_something_of_it_is(self) -> None:
        if self.unit.job is None:
            return
        job = self.unit.job
        working = [
            task
            for task in self.unit.tasks.values()
            if task.status in OPEN
            and (task.role in {Role.CHUNK, Role.SPLIT} or (task.role is Role.MERGE and task.id == job.merge_id))
        ]
        assert job.status.terminal == (not working)
        assert (job.finished_at is not None) == job.status.terminal
        assert job.status is not RUNNING or job.started_at is not None
        if job.status is FAILED:
            assert job.error_class == "ocr_failed"
            assert job.error_text

    def teardown(self) -> None:
        """Whatever was done, the unit can be brought to an end, and no retry was lost on the way."""
        for _ in range(200):
            open_tasks = [task for task in self.unit.tasks.values() if task.status in OPEN]
            if not open_tasks:
                break
            if open_tasks[0].status is PENDING:
                take(self.unit, open_tasks[0].id, now=self.now)
            settle(self.unit, open_tasks[0].id, Completed(), now=self.now)
        assert all(task.status.terminal for task in self.unit.tasks.values())
        assert self.unit.job is None or self.unit.job.status.terminal


TestAnySequenceOfStepsKeepsAUnitSound = AnyUnit.TestCase
