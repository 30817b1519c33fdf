"""Decides what the end of an attempt does to its task: every status and every legal move is in this file."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from forebay.errors import BadInput, Conflict
from forebay.ids import shown
from forebay.model.exchange import PERMANENT, Settle
from forebay.model.outcome import Canceled, Completed, Failed, Outcome, Rescheduled
from forebay.model.task import Role, Status, Task, WaitReason
from forebay.rules import backoff, verdict
from forebay.rules.verdict import ErrorClass, Verdict

MAX_LOST = 5
MAX_REQUESTED_RETRIES = 3
MAX_OUTAGE_RESCHEDULES = 50
"""So often an outage of the provider reschedules a task; after that each failure costs a retry again."""


_SUSPECT = 3


class Move(StrEnum):
    """Whatever can happen to a task; those that end an attempt are the outcomes in its history."""

    CLAIM = "claimed"
    COMPLETE = "completed"
    RETRY = "retried"
    RESCHEDULE = "rescheduled"
    RELEASE = "released"
    LOSE = "lost"
    FAIL = "failed"
    CANCEL = "canceled"
    REVIVE = "revived"
    RESULT_LOST = "result_lost"


MOVES: dict[Move, dict[Status, Status]] = {
    Move.CLAIM: {Status.PENDING: Status.RUNNING},
    Move.COMPLETE: {Status.RUNNING: Status.COMPLETED},
    Move.RETRY: {Status.RUNNING: Status.PENDING},
    Move.RESCHEDULE: {Status.RUNNING: Status.PENDING},
    Move.RELEASE: {Status.RUNNING: Status.PENDING},
    Move.LOSE: {Status.RUNNING: Status.PENDING},
    Move.FAIL: {Status.RUNNING: Status.FAILED},
    Move.CANCEL: {Status.RUNNING: Status.CANCELED, Status.PENDING: Status.CANCELED},
    Move.REVIVE: {Status.FAILED: Status.PENDING, Status.CANCELED: Status.PENDING},
    Move.RESULT_LOST: {Status.COMPLETED: Status.PENDING},
}


def after(move: Move, status: Status) -> Status:
    """The status that follows; a move that the table does not have is refused."""
    try:
        return MOVES[move][status]
    except KeyError:
        raise Conflict(
            f"A task that is {status} cannot be {move}.", remedy="Read it again: its status has changed."
        ) from None


_NO_ERROR = (None, 0.0, None, None, None, None)  # of a settle, from wait_reason to traceback
_COMPLETED = after(Move.COMPLETE, Status.RUNNING)


def decide(task: Task, outcome: Outcome, *, now: float, jitter: float) -> Settle:
    """Turn the outcome of a claimed task's attempt into what is to be written; `jitter` is in [0, 1]."""
    if isinstance(outcome, Completed):
        _check_brought(task, outcome)
        if outcome.result_blob is None and not outcome.follow_ups:
            # Most end like this, with nothing in it that could be wrong.
            counts = (task.retry_count, task.reschedule_count, task.lost_count)
            known = (task.id, task.job_id, task.claim_count, _COMPLETED, Move.COMPLETE, *counts, *_NO_ERROR)
            return Settle._make((*known, outcome.result_json, None, outcome.usage, outcome.events, ()))
        return _settle(
            task,
            outcome,
            Move.COMPLETE,
            result_json=outcome.result_json,
            result_blob=outcome.result_blob,
            follow_ups=outcome.follow_ups,
        )
    if isinstance(outcome, Canceled):
        return _settle(task, outcome, Move.CANCEL, error_class=ErrorClass.CANCELED, error_text=outcome.text)
    if isinstance(outcome, Rescheduled):
        return _reschedule(task, outcome, now)
    if isinstance(outcome, Failed):
        return _failed(task, outcome, now=now, jitter=jitter)
    raise BadInput(f"{shown(outcome)} is not an outcome.", remedy="Use Completed, Failed, Rescheduled or Canceled.")


def _check_brought(task: Task, outcome: Completed) -> None:
    if not outcome.follow_ups:
        return
    chunks = sum(new.role is Role.CHUNK for new in outcome.follow_ups)
    # By then the chunks are closed, or may be at any moment: more of them would be part of no result.
    if chunks and task.role in {Role.MERGE, Role.FOLLOW}:
        raise BadInput(
            f"The {task.role} task {task.id} brings {chunks} chunks along.",
            remedy="Let the split or a chunk bring them; others may bring tasks of the role follow.",
        )


def _failed(task: Task, outcome: Failed, *, now: float, jitter: float) -> Settle:
    """What the error's class says: fail, wait for the provider, or retry while there are retries left."""
    ruling = verdict.of(verdict.parse(outcome.error_class))
    if ruling.verdict is Verdict.CANCEL:
        return _settle(task, outcome, Move.CANCEL, error_class=ErrorClass.CANCELED, error_text=outcome.text)
    if not outcome.permanent and (
        ruling.verdict in {Verdict.RESCHEDULE, Verdict.STOP_LANE} or _waits_out(task, outcome)
    ):
        delay_s = backoff.cooldown_s(task.reschedule_count, jitter) if outcome.delay_s is None else outcome.delay_s
        return _reschedule(
            task,
            Rescheduled(
                delay_s=delay_s,
                error_class=outcome.error_class,
                text=outcome.text,
                usage=outcome.usage,
                events=outcome.events,
            ),
            now,
        )
    ceiling = task.max_retries if ruling.max_retries is None else min(task.max_retries, ruling.max_retries)
    if outcome.permanent or ruling.verdict is not Verdict.RETRY or task.retry_count >= ceiling:
        return _fail(task, outcome)
    delay_s = backoff.retry_delay_s(task.retry_count, jitter) if outcome.delay_s is None else outcome.delay_s
    if _past_deadline(task, now + delay_s):
        return _fail(task, outcome)
    return _settle(
        task,
        outcome,
        Move.RETRY,
        retry_count=task.retry_count + 1,
        wait_reason=WaitReason.RETRY,
        delay_s=delay_s,
        error_class=outcome.error_class,
        error_text=outcome.text,
        traceback=outcome.traceback,
    )


def _waits_out(task: Task, outcome: Failed) -> bool:
    """Return whether an outage of the provider costs no retry.

    Bounded, since the task itself may be what breaks the provider. An attempt that ran out of its own time always costs
    one: nobody can tell an outage from a document that takes too long, and each try may be paid for. A time-out that
    the provider answered, such as a gateway's 504, is part of the outage.
    """
    if outcome.error_class == ErrorClass.TIMEOUT and (outcome.call is None or outcome.call.kind == "cut_off"):
        return False
    most = MAX_OUTAGE_RESCHEDULES if task.max_reschedules is None else task.max_reschedules
    return outcome.provider_down and task.reschedule_count < min(most, MAX_OUTAGE_RESCHEDULES)


def _reschedule(task: Task, outcome: Rescheduled, now: float) -> Settle:
    if task.max_reschedules is not None and task.reschedule_count >= task.max_reschedules:
        text = f"Max reschedules ({task.max_reschedules}) exceeded"
        if outcome.error_class is not None:
            text = f"{text}: {outcome.error_class}: {outcome.text}"
        return _settle(task, outcome, Move.FAIL, error_class=ErrorClass.RESCHEDULES_EXCEEDED, error_text=text)
    start_at = max(outcome.until or 0.0, now + (outcome.delay_s or 0.0))
    if _past_deadline(task, start_at):
        text = f"It would start again after its deadline: {outcome.text or 'rescheduled'}"
        return _settle(task, outcome, Move.FAIL, error_class=ErrorClass.DEADLINE, error_text=text)
    return _settle(
        task,
        outcome,
        Move.RESCHEDULE,
        reschedule_count=task.reschedule_count + 1,
        wait_reason=outcome.wait_reason,
        delay_s=outcome.delay_s or 0.0,
        available_at=outcome.until,
        error_class=outcome.error_class,
        error_text=outcome.text,
    )


def _fail(task: Task, outcome: Failed) -> Settle:
    return _settle(
        task,
        outcome,
        Move.FAIL,
        error_class=outcome.error_class,
        error_text=outcome.text,
        traceback=outcome.traceback,
    )


def _past_deadline(task: Task, start_at: float) -> bool:
    return task.deadline_at is not None and start_at >= task.deadline_at


def _settle(task: Task, outcome: Outcome, move: Move, **fields: object) -> Settle:
    fields.setdefault("retry_count", task.retry_count)
    fields.setdefault("reschedule_count", task.reschedule_count)
    if move is Move.FAIL and task.requested_retry_count >= MAX_REQUESTED_RETRIES:
        fields["error_text"] = (
            f"{PERMANENT}{fields['error_text']} "
            f"({task.requested_retry_count} of {MAX_REQUESTED_RETRIES} requested retries are used)"
        )
    return Settle(
        task_id=task.id,
        job_id=task.job_id,
        token=task.claim_count,
        status=after(move, Status.RUNNING),
        outcome=move,
        lost_count=task.lost_count,
        usage=outcome.usage,
        events=outcome.events,
        **fields,
    )


class Held(Protocol):
    """What of a running task's row an ending depends on."""

    @property
    def retry_count(self) -> int: ...
    @property
    def reschedule_count(self) -> int: ...
    @property
    def lost_count(self) -> int: ...
    @property
    def available_at(self) -> float: ...
    @property
    def cancel_requested_at(self) -> float | None: ...


class Ending(NamedTuple):
    """What a store writes into the row of a task whose attempt ends.

    `keeps_place`: back to where it stood in line. `counted`: an attempt that history shows.
    `settled`: ended by the holder's own settle, so that a repeat of it is answered alike.
    """

    outcome: str
    status: Status
    retry_count: int
    reschedule_count: int
    lost_count: int
    available_at: float
    finished_at: float | None
    wait_reason: WaitReason | None = None
    error_class: str | None = None
    error_text: str | None = None
    traceback: str | None = None
    result_json: str | None = None
    result_blob: str | None = None
    keeps_place: bool = False
    counted: bool = True
    settled: bool = False


def settled(held: Held, settle: Settle, now: float) -> Ending:
    # A split that a cancel has overtaken ends canceled: completed without its chunks, it could not be retried.
    goes_on = settle.status is Status.PENDING or any(task.role is Role.CHUNK for task in settle.follow_ups)
    if goes_on and held.cancel_requested_at is not None:
        return _canceled(held, now, settled=True)
    waits = settle.status is Status.PENDING
    # An instant in the past is a delay of 0: it must not stand before those that came meanwhile.
    start_at = max(settle.available_at or 0.0, now + settle.delay_s)
    return Ending(
        outcome=settle.outcome,
        status=settle.status,
        retry_count=settle.retry_count,
        reschedule_count=settle.reschedule_count,
        lost_count=settle.lost_count,
        available_at=start_at if waits else held.available_at,
        finished_at=None if waits else now,
        wait_reason=settle.wait_reason,
        error_class=settle.error_class,
        error_text=settle.error_text,
        traceback=settle.traceback,
        result_json=settle.result_json,
        result_blob=settle.result_blob,
        settled=True,
    )


def repeats(settle: Settle, written: str) -> bool:
    """Whether a settle is the one that was written under its token; a cancel may have overruled it then."""
    return written in {settle.outcome, Move.CANCEL}


def released(held: Held, now: float, *, started: bool) -> Ending:
    if held.cancel_requested_at is not None:
        return _canceled(held, now)
    return _back_in_line(held, Move.RELEASE, lost_count=held.lost_count, counted=started)


def lost(held: Held, now: float, *, why: str) -> Ending:
    """A claim whose session or time ran out: not the task's fault, but five of them make it poison."""
    if held.cancel_requested_at is not None:
        return _canceled(held, now)
    lost_count = held.lost_count + 1
    if lost_count < MAX_LOST:
        return _back_in_line(held, Move.LOSE, lost_count=lost_count, error_text=why)
    return Ending(
        outcome=Move.LOSE,
        status=Status.FAILED,
        retry_count=held.retry_count,
        reschedule_count=held.reschedule_count,
        lost_count=lost_count,
        available_at=held.available_at,
        finished_at=now,
        error_class=ErrorClass.POISON,
        error_text=f"{lost_count} attempts were lost with their workers, the last one because {why}",
    )


def suspect(task: Task) -> bool:
    """Whether so many attempts were lost that the next one should run alone: the task may be what ends workers."""
    return task.lost_count >= _SUSPECT


def _back_in_line(
    held: Held, move: Move, *, lost_count: int, counted: bool = True, error_text: str | None = None
) -> Ending:
    return Ending(
        outcome=move,
        status=after(move, Status.RUNNING),
        retry_count=held.retry_count,
        reschedule_count=held.reschedule_count,
        lost_count=lost_count,
        available_at=held.available_at,
        finished_at=None,
        error_text=error_text,
        keeps_place=True,
        counted=counted,
    )


def _canceled(held: Held, now: float, *, settled: bool = False) -> Ending:
    return Ending(
        outcome=Move.CANCEL,
        status=Status.CANCELED,
        retry_count=held.retry_count,
        reschedule_count=held.reschedule_count,
        lost_count=held.lost_count,
        available_at=held.available_at,
        finished_at=now,
        error_class=ErrorClass.CANCELED,
        error_text="Canceled",
        settled=settled,
    )
