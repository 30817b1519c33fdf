"""Decides what people and checks may ask of a unit: cancel, retry, and redo of a result that was lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forebay.errors import NotFound, NotRetryable, RetryLimitExceeded
from forebay.model.exchange import PERMANENT, Acted, Action, Audit, Session
from forebay.model.job import Event, Job
from forebay.model.key import ApiKey
from forebay.model.payload import clean_text
from forebay.model.task import Role, Status, Task, WaitReason
from forebay.rules import rollup, verdict
from forebay.rules import unit as units
from forebay.rules.settlement import MAX_REQUESTED_RETRIES, Move, after
from forebay.rules.unit import Unit
from forebay.rules.verdict import ErrorClass

DONE = "done"
ROTATE = "rotate"
_OPEN = {Status.PENDING, Status.RUNNING}
_UNDONE = {Status.FAILED, Status.CANCELED}


def draining(session: Session, now: float) -> Session:
    """Asked to end; the first time stands, and one that has ended is left as it is."""
    return session if session.ended_at is not None else replace(session, drain_at=session.drain_at or now)


def drained(session_id: str, session: Session | None) -> Acted:
    if session is None or session.ended_at is not None:
        return Acted(session_id, NotFound.code, f"There is no worker with the session {session_id}.")
    return Acted(session_id, DONE)


def revoked(key_id: str, key: ApiKey | None) -> Acted:
    """Once is enough: to end a key that has ended is done as well."""
    return Acted(key_id, DONE) if key else Acted(key_id, NotFound.code, f"There is no key {key_id}.")


def cancel(unit: Unit, target: str, now: float) -> Acted:
    """Cancel a whole unit, or one task of a job: what waits ends at once, what runs is asked to stop."""
    chosen = [task for task in _chosen(unit, target) if task.status in _OPEN]
    if unit.job is not None and target == unit.job.id:
        if unit.job.status.terminal:
            return Acted(target, f"already_{unit.job.status}", f"Job {target} is {unit.job.status} already.")
        unit.job = replace(unit.job, cancel_requested_at=unit.job.cancel_requested_at or now)
        unit.note(Event(name="cancel_requested"), now)
    elif not chosen:
        status = unit.tasks[target].status
        return Acted(target, f"already_{status}", f"Task {target} is {status} already.")
    for task in chosen:
        if task.status is Status.RUNNING:
            unit.put(task._replace(cancel_requested_at=task.cancel_requested_at or now))
        else:
            _cancel_pending(unit, task, now)
    return Acted(target, DONE)


def _canceled(task: Task, now: float) -> Task:
    """Return a pending task as it is once it is canceled."""
    return task._replace(
        status=after(Move.CANCEL, task.status),
        cancel_requested_at=now,
        finished_at=now,
        tag=None,
        wait_reason=None,
        error_class=ErrorClass.CANCELED,
        error_text="Canceled",
    )


def _cancel_pending(unit: Unit, task: Task, now: float) -> None:
    ended = _canceled(task, now)
    unit.put(ended)
    units.roll(unit, task.status, ended, now)


def retry(unit: Unit, target: str, now: float, *, force: bool = False) -> Acted:
    """Run again what failed or was canceled; what is completed stays, and is not paid for again.

    The task's own retries begin again. Without `force` a task that failed is run again at most
    MAX_REQUESTED_RETRIES times, and only if the class of its error is retryable.
    What waits for a budget may start at once, should it have been raised.
    """
    undone, held_back = _undone(unit, target), _held_back(unit, target, now)
    if not undone and not held_back:
        return Acted(target, NotRetryable.code, f"Nothing of {target} has failed: there is nothing to run again.")
    refused = {} if force else {task.id: refusal for task in undone if (refusal := _refusal(task))}
    chosen = [task for task in undone if task.id not in refused]
    if refused and not (_goes_without(unit, target) and chosen):
        return _refused(target, [task for task in undone if task.id in refused], set(refused.values()))
    for task in held_back:
        unit.put(task._replace(available_at=now, wait_reason=None))
    job = _new_generation(unit, chosen, now) if chosen else None
    if job is not None:
        chunks = sum(task.role is Role.CHUNK for task in chosen)
        fields = {"failed": chunks, "kept": job.completed_count}
        unit.note(Event(name="retrying_failed_chunks" if chunks else "retrying", fields=fields), now)
    for task in chosen:
        requested = 0 if force else task.requested_retry_count + (task.status is Status.FAILED)
        _reopen(unit, task._replace(retry_count=0, requested_retry_count=requested), Move.REVIVE, now)
    return Acted(target, DONE)


def _refusal(task: Task) -> str | None:
    """The code that a plain retry of the task is refused with, if it is."""
    if task.status is Status.CANCELED:
        return None
    if not verdict.may_be_requested(task.error_class):
        return NotRetryable.code
    return RetryLimitExceeded.code if task.requested_retry_count >= MAX_REQUESTED_RETRIES else None


def _goes_without(unit: Unit, target: str) -> bool:
    """Whether the job of that id may end without some of its chunks."""
    return unit.job is not None and target == unit.job.id and unit.job.allow_holes


def _refused(target: str, tasks: Sequence[Task], codes: set[str]) -> Acted:
    named = []
    for task in tasks:
        if verdict.may_be_requested(task.error_class):
            why = f"{task.requested_retry_count} of {MAX_REQUESTED_RETRIES} requested retries are used"
        else:
            why = f"{task.error_class} is not retryable"
        named.append(f"{task.title} ({why})")
    text = clean_text(f"{PERMANENT}{'; '.join(named)}")
    code = NotRetryable.code if codes == {NotRetryable.code} else RetryLimitExceeded.code
    return Acted(target, code, f"{text}. Retry it with force to run it anyway.")


def _held_back(unit: Unit, target: str, now: float) -> list[Task]:
    waiting = [task for task in _chosen(unit, target) if task.status is Status.PENDING and task.available_at > now]
    return [task for task in waiting if task.wait_reason is WaitReason.BUDGET]


def _undone(unit: Unit, target: str) -> list[Task]:
    undone = [task for task in _chosen(unit, target) if task.status in _UNDONE]
    before_merge = [task for task in undone if task.role is not Role.MERGE]
    # With chunks to redo, the merge follows by itself; a merge of an older generation was replaced by a later one.
    return before_merge or [task for task in undone if unit.job and task.generation == unit.job.generation]


def lose_result(unit: Unit, target: str, result_blob: str | None, now: float, told: Event | None = None) -> Acted:
    """Redo a completed task whose stored result is missing or differs from its sha256; burns no retry."""
    task = unit.tasks.get(target)
    if task is None:
        return Acted(target, NotFound.code, f"{target} is a job: name the task whose result is lost.")
    if task.status is not Status.COMPLETED or task.result_blob != result_blob:
        return Acted(target, "changed", f"Task {target} no longer holds that result.")
    if task.role is Role.MERGE and unit.job is not None and task.generation != unit.job.generation:
        return Acted(target, "changed", f"Merge {target} was replaced by a later one.")
    if task.role is Role.SPLIT:
        return Acted(target, NotRetryable.code, f"Split {target} is done: its chunks carry what it found.")
    if task.role is not Role.FOLLOW and _ends_canceled(unit.job):
        return Acted(target, NotRetryable.code, f"Job {unit.id} was asked to cancel: retry it to have its results.")
    _new_generation(unit, [task], now)
    index = {} if task.chunk_index is None else {"index": task.chunk_index}
    unit.note(Event(name="result_lost", fields=index), now)
    if told is not None:
        unit.note(told, now)
    _reopen(unit, task, Move.RESULT_LOST, now)
    return Acted(target, DONE)


def _ends_canceled(job: Job | None) -> bool:
    """Whether a cancel is still to be heeded: a job that completed all the same is past it."""
    return job is not None and job.cancel_requested_at is not None and job.status is not Status.COMPLETED


def delete(unit: Unit, target: str, now: float) -> Acted:  # noqa: ARG001 - the shape of all actions
    """Mark a whole unit for deletion; its store then drops all but what it used."""
    if target != unit.id:
        return Acted(target, "part_of_job", f"Task {target} is part of job {unit.id}: delete the job.")
    if any(task.status is Status.RUNNING for task in unit.tasks.values()):
        return Acted(target, "running", f"{target} is running: cancel it first.")
    unit.deleted = True
    return Acted(target, DONE)


def _reopen(unit: Unit, task: Task, move: Move, now: float) -> None:
    if task.role is Role.MERGE and unit.job is not None:
        merge = rollup.merge_task(unit.job)
        units.add(unit, [merge], now)
        unit.put(unit.tasks[merge.id]._replace(requested_retry_count=task.requested_retry_count))
        unit.job = replace(unit.job, merge_id=merge.id)
        return
    opened = task._replace(
        status=after(move, task.status),
        generation=unit.job.generation if unit.job else task.generation + 1,
        reschedule_count=0,
        lost_count=0,
        available_at=now,
        tag=None,
        finished_at=None,
        cancel_requested_at=None,
        error_class=None,
        error_text=None,
        result_blob=None,
        result_json=None,
    )
    unit.put(opened)
    units.roll(unit, task.status, opened, now)


def _new_generation(unit: Unit, reopened: Sequence[Task], now: float) -> Job | None:
    """Open the job again under a new generation, so that its merge runs again and an older one counts for nothing."""
    # Nothing would ever close a job that was opened for the sake of a follow-up.
    if unit.job is None or all(task.role is Role.FOLLOW for task in reopened):
        return None
    for task in list(unit.tasks.values()):
        if task.role is Role.MERGE and task.status in _OPEN:
            if task.status is Status.PENDING:
                unit.put(_canceled(task, now))
            else:
                unit.put(task._replace(cancel_requested_at=task.cancel_requested_at or now))
    unit.job = replace(
        unit.job,
        status=Status.RUNNING if unit.job.running_count else Status.PENDING,
        generation=unit.job.generation + 1,
        merge_id=None,
        finished_at=None,
        cancel_requested_at=None,
        error_class=None,
        error_text=None,
    )
    return unit.job


def _chosen(unit: Unit, target: str) -> list[Task]:
    if unit.job is None or target != unit.job.id:
        return [unit.tasks[target]]
    # Follow-ups, such as callbacks, go their own way whatever becomes of the job.
    return [task for task in unit.tasks.values() if task.role is not Role.FOLLOW]


def audited(action: Action, verb: str, targets: Sequence[str], now: float) -> Audit:
    """The line that an action leaves; a bulk names its first targets and how many there were."""
    return Audit(
        id=action.id,
        at=now,
        who=action.who,
        tenant=action.tenant,
        verb=verb,
        targets=tuple(targets[:100]),
        target_count=len(targets),
        note=action.note,
    )
