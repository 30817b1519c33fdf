"""Says what became of an attempt, once the ledger has recorded it."""

from __future__ import annotations

from forebay.model.exchange import Settle
from forebay.model.task import Task
from forebay.observe import emit
from forebay.rules.settlement import Move


def tell(task: Task, settle: Settle, run_s: float, now: float, *, fenced: bool) -> None:
    named = {"task_id": task.id, "kind": task.kind, "attempt": task.attempt_count + 1}
    if settle.error_text is not None:
        emit("task_error", task_id=task.id, kind=task.kind, error_text=settle.error_text)
    if fenced:
        emit("task_fenced", task_id=task.id, kind=task.kind, token=settle.token)
        return
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
