"""Derives why a task does not run now, and until when, as a chain of reasons: the first one is what to look at."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.model.task import Status, Task, WaitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Something outside the task that holds its lane: a limit, a cool-down, a budget, a pause."""

    reason: WaitReason
    text: str
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known around a pending task at the moment of asking."""

    worker_count: int
    ahead_count: int = 0
    gates: tuple[Gate, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """One link of the chain."""

    code: str
    text: str
    until: float | None = None


_WAITS = {
    WaitReason.RETRY: "waits before its next retry ({retry_count} of {max_retries} used)",
    WaitReason.RESCHEDULE: "was rescheduled ({reschedule_count} times so far)",
    WaitReason.SCHEDULED: "was submitted to start later",
    WaitReason.DEPENDENCY: "waits for other tasks of its job",
}
# What nobody can wait out comes first: a person has to act on it.
_ORDER = (
    WaitReason.PAUSED,
    WaitReason.NO_WORKER,
    WaitReason.QUOTA,
    WaitReason.BUDGET,
    WaitReason.BREAKER,
    WaitReason.COOLDOWN,
    WaitReason.LIMIT,
)


def why(task: Task, around: Surroundings, *, now: float) -> tuple[Reason, ...]:
    if task.status is Status.RUNNING:
        return (_running(task),)
    if task.status.terminal:
        return (_ended(task),)
    chain = []
    if task.deadline_at is not None and task.deadline_at <= now:
        chain.append(Reason("deadline", "its deadline has passed: it fails as soon as a worker takes it"))
    if task.available_at > now:
        code = task.wait_reason or WaitReason.SCHEDULED
        text = _WAITS[code].format(
            retry_count=task.retry_count, max_retries=task.max_retries, reschedule_count=task.reschedule_count
        )
        if task.error_text:
            text = f"{text}; last error: {task.error_text}"
        chain.append(Reason(code, text, task.available_at))
    gates = list(around.gates)
    if around.worker_count == 0:
        text = f"no worker that runs {task.kind!r} is alive: start one"
        gates.append(Gate(reason=WaitReason.NO_WORKER, text=text))
    chain.extend(
        Reason(gate.reason, gate.text, gate.until) for gate in sorted(gates, key=lambda gate: _ORDER.index(gate.reason))
    )
    if around.ahead_count:
        chain.append(Reason("line", f"{around.ahead_count} tasks are ahead of it in lane {task.lane!r}"))
    return tuple(chain) or (Reason("ready", "is ready and will be claimed next"),)


def _running(task: Task) -> Reason:
    text = f"attempt {task.attempt_count + 1} runs"
    if task.cancel_requested_at is not None:
        return Reason("cancel_requested", f"{text}, and was asked to stop", task.attempt_deadline_at)
    return Reason("running", text, task.attempt_deadline_at)


def _ended(task: Task) -> Reason:
    text = f"it is {task.status}"
    return Reason(task.status, f"{text}: {task.error_text}" if task.error_text else text)
