"""Says what became of an attempt, once the ledger has recorded it."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.engine.exchanger import Ended
from forebay.model.exchange import Reply, Settle
from forebay.model.task import Task
from forebay.observe import emit, wanted
from forebay.rules.settlement import Move


def tell(ended: Sequence[Ended], reply: Reply) -> int:
    """How many of them were recorded; the others were fenced."""
    count = 0
    heard = wanted("task_completed")
    for (settle, task, run_s), settled in zip(ended, reply.settled, strict=True):
        if settled.fenced:
            _tell_error(task, settle)
            emit("task_fenced", task_id=task.id, kind=task.kind, token=settle.token)
        else:
            count += 1
            if heard or settle.outcome != Move.COMPLETE:
                _tell(task, settle, run_s, reply.now)
    return count


def _tell_error(task: Task, settle: Settle) -> None:
    if settle.error_text is not None:
        emit("task_error", task_id=task.id, kind=task.kind, error_text=settle.error_text)


def _tell(task: Task, settle: Settle, run_s: float, now: float) -> None:
    _tell_error(task, settle)
    named: dict[str, object] = {"task_id": task.id, "kind": task.kind, "attempt": task.attempt_count + 1}
    if task.job_id is not None:
        named["job_id"] = task.job_id
    if task.chunk_index is not None:
        named["chunk"] = task.title
    match settle.outcome:
        case Move.COMPLETE:
            emit("task_completed", **named, run_s=round(run_s, 6))
        case Move.RETRY:
            emit(
                "task_retried",
                **named,
                error_class=settle.error_class,
                retry_count=settle.retry_count,
                max_retries=task.max_retries,
                delay_s=round(settle.delay_s, 3),
                run_s=round(run_s, 6),
            )
        case Move.RESCHEDULE:
            emit(
                "task_rescheduled",
                **named,
                delay_s=round(max(settle.delay_s, (settle.available_at or 0.0) - now), 3),
                reschedule_count=settle.reschedule_count,
                max_reschedules=task.max_reschedules,
                run_s=round(run_s, 6),
            )
        case Move.CANCEL:
            emit("task_canceled", **named, run_s=round(run_s, 6))
        case _:
            emit("task_failed", **named, error_class=settle.error_class, run_s=round(run_s, 6))
