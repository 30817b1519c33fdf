"""Derives where a task, a lane or a job stands: why it waits, behind how many, until when, and what would help."""

from __future__ import annotations

from dataclasses import dataclass, replace

from forebay.model.job import Job
from forebay.model.lane import Certainty, Lane
from forebay.model.names import limit_of
from forebay.model.task import Status, Task, WaitReason
from forebay.rules.rollup import progress
from forebay.rules.why import (
    READY,
    Gate,
    LimitView,
    Reason,
    Surroundings,
    delay_s,
    held_in_hand,
    own_reasons,
    reasons_around,
    why,
)

NOBODY = Surroundings(worker_count=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What keeps a task from starting now, as data; the names are those of the command line and of JSON.

    `backoff_s` is how long its own delay still lasts, `backoff_level` how often it was told so, or the level of its
    limit's cool-down. `position` 1 is next; `position_is` says whether it was counted, estimated, or is the least that
    it can be, and then so are the times. `eta_s` is the time until it probably starts, None where nobody can tell; so
    is `end_eta_s` for its end. `binds` is what it waits for; `more_workers_help` is None where nothing tells. Of a
    job they are those of the chunk that it waits for next, `last_eta_s` and `end_eta_s` those of its last one, and
    `calls_left_count` how many of its chunks still have to call.
    """

    reasons: tuple[Reason, ...]
    wait_reason: WaitReason | None = None
    limit: str | None = None
    backoff_s: float = 0.0
    backoff_level: int = 0
    cooldown_until: float | None = None
    position: int | None = None
    position_is: Certainty | None = None
    eta_s: float | None = None
    eta_at: float | None = None
    end_eta_s: float | None = None
    end_eta_at: float | None = None
    binds: tuple[str, ...] = ()
    more_workers_help: bool | None = None
    last_eta_s: float | None = None
    calls_left_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """One that waits in a lane: with what holds back itself, and for how long."""

    kind: str
    lane: str
    reasons: tuple[Reason, ...] = ()
    delay_s: float = 0.0
    level: int = 0


def standing(task: Task, around: Surroundings, *, now: float) -> Standing:
    """Of one task; what is around it does not matter when it has ended."""
    if task.status is not Status.PENDING:
        held = held_in_hand(around) if task.status is Status.RUNNING else []
        binds = tuple(gate.binds for gate, _ in held if gate.binds)
        found = Standing(reasons=why(task, around, now=now), limit=limit_of(task.lane), binds=binds)
        return _waits_in_hand(found, around, held[0][0], now) if held else found
    own_s = delay_s(task, now)
    waiting = _Waiting(
        kind=task.kind,
        lane=task.lane,
        reasons=own_reasons(task, now),
        delay_s=own_s,
        level=_times(task) if own_s else 0,
    )
    return _stands(waiting, around, now)


def _waits_in_hand(found: Standing, around: Surroundings, gate: Gate, now: float) -> Standing:
    """Add what it waits for, if all tasks of its kind that were claimed wait for their slots: then so does this."""
    if around.limit is None or not around.limit.all_in_hand:
        return found
    eta_s = around.limit.eta_s
    eta_at = None if eta_s is None else now + eta_s
    return replace(found, wait_reason=gate.reason, eta_s=eta_s, eta_at=eta_at)


def next_in(lane: Lane, around: Surroundings, *, now: float) -> Standing:
    """Of the task of a lane that will be claimed next."""
    return _stands(_Waiting(kind=lane.kind, lane=lane.name), around, now)


def job_standing(job: Job, waiting: Task | None, around: Surroundings, last: Surroundings, *, now: float) -> Standing:
    """Of a job that waits for this task next; `last` is what its last chunk has around it."""
    if job.status.terminal:
        text = f"it is {job.status}"
        return Standing(reasons=(Reason(job.status, f"{text}: {job.error_text}" if job.error_text else text),))
    head = [_share(job)]
    if job.cancel_requested_at is not None:
        head.append(Reason("cancel_requested", "it was asked to stop"))
    if waiting is None:
        return Standing(reasons=tuple(head))
    found = standing(waiting, around, now=now)
    found = replace(found, reasons=(*head, *found.reasons))
    if waiting.chunk_index is None:
        return replace(found, end_eta_s=None, end_eta_at=None)  # what comes after a split or a merge is not known
    if waiting.status is not Status.PENDING:
        return replace(found, calls_left_count=0 if found.limit and not found.binds else None)
    behind = standing(waiting, last, now=now)
    return replace(
        found,
        last_eta_s=behind.eta_s,
        end_eta_s=behind.end_eta_s,
        end_eta_at=behind.end_eta_at,
        calls_left_count=job.pending_count if found.limit else None,
    )


def _share(job: Job) -> Reason:
    done = job.chunk_count - job.open_count
    share = f"{progress(job):.0%} done, {done} of {job.chunk_count} chunks"
    return Reason("job", f"{share}, {job.running_count} running, {job.pending_count} waiting")


def _times(task: Task) -> int:
    """How often its own delay has come about."""
    times: dict[WaitReason | None, int] = {
        WaitReason.RETRY: task.retry_count,
        WaitReason.RESCHEDULE: task.reschedule_count,
    }
    return times.get(task.wait_reason, 0)


def _stands(waiting: _Waiting, around: Surroundings, now: float) -> Standing:
    limit = around.limit or LimitView()
    reasons = (*waiting.reasons, *reasons_around(waiting.kind, waiting.lane, around)) or (READY,)
    known = set(WaitReason)
    eta_s = _eta_s(waiting, around, now)
    end_eta_s = eta_s + limit.mean_call_s if eta_s is not None and limit.mean_call_s > 0 else None
    due = None if waiting.delay_s else around.ahead
    return Standing(
        reasons=reasons,
        wait_reason=next((WaitReason(each.code) for each in reasons if each.code in known), None),
        limit=limit_of(waiting.lane),
        backoff_s=waiting.delay_s,
        backoff_level=waiting.level if waiting.delay_s else limit.level,
        cooldown_until=now + limit.cooldown_for_s if limit.cooldown_for_s > 0 else None,
        position=None if due is None else due.task_count + 1,
        position_is=None if due is None else due.certainty,
        eta_s=eta_s,
        eta_at=None if eta_s is None else now + eta_s,
        end_eta_s=end_eta_s,
        end_eta_at=None if end_eta_s is None else now + end_eta_s,
        binds=tuple(gate.binds for gate in (*around.gates, *limit.gates) if gate.binds),
        more_workers_help=_more_workers_help(waiting, around),
    )


def _eta_s(waiting: _Waiting, around: Surroundings, now: float) -> float | None:
    """The longest of what it has to wait out; all of them pass at the same time."""
    if around.worker_count == 0 or around.ahead is None:
        return None
    waits = [waiting.delay_s]
    for gate in around.gates:
        if gate.until is None:
            return None
        waits.append(gate.until - now)
    if around.limit is not None:
        if around.limit.eta_s is None:
            return None
        waits.append(around.limit.eta_s)
    elif around.ahead.task_count:
        return None  # how fast workers are without a limit is not known
    return max(waits)


def _more_workers_help(waiting: _Waiting, around: Surroundings) -> bool | None:
    """They cannot hurry what passes by itself; they can make use of a limit that has room while tasks are in line."""
    if any(reason.code == WaitReason.BUDGET for reason in waiting.reasons):
        return False
    if around.worker_count == 0:
        return True
    if around.limit is not None and not around.limit.answers:
        return None
    if waiting.delay_s or around.gates or (around.limit is not None and around.limit.gates):
        return False
    return True if around.ahead and around.ahead.task_count else None
