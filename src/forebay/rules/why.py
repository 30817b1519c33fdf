"""Derives why a task does not run now, and until when, as a chain of reasons: the first one is what to look at."""

from __future__ import annotations

from dataclasses import dataclass, replace

from forebay.model.lane import NOTHING_AHEAD, Certainty, Depth
from forebay.model.task import Status, Task, WaitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Something outside the task that holds its lane: a limit, a cool-down, a budget, a pause. `binds` is its name.

    `paused_by` names whoever paused it, apart from the text, because a tenant must not read it; nor may it read
    `note`, which the text has in brackets.
    """

    reason: WaitReason
    text: str
    until: float | None = None
    binds: str = ""
    paused_by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitView:
    """How a limit stands for one who waits: what keeps out whoever is next, and when it is this one's turn.

    `in_hand_count` of its kind are claimed and wait for their slots, `all_in_hand` says that none of it calls. Where
    its store does not answer, the gate that says so is all that is known.
    """

    gates: tuple[Gate, ...] = ()
    eta_s: float | None = None
    cooldown_for_s: float = 0.0
    level: int = 0
    mean_call_s: float = 0.0
    in_hand_count: int = 0
    all_in_hand: bool = False
    answers: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known around a pending task at the moment of asking; `ahead` is None where nobody counted."""

    worker_count: int
    ahead: Depth | None = NOTHING_AHEAD
    gates: tuple[Gate, ...] = ()
    limit: LimitView | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """One link of the chain."""

    code: str
    text: str
    until: float | None = None
    paused_by: str = ""
    note: str = ""

    def without_operator(self) -> Reason:
        """Return the reason for a reader who must not see who paused it, nor the note of that operator."""
        text = self.text.replace(in_brackets(self.note), "", 1) if self.note else self.text
        return replace(self, text=text, paused_by="", note="")


def in_brackets(note: str) -> str:
    """Return the note as the text of a gate has it, behind "is paused"; nothing without a note."""
    return f" ({note})" if note else ""


_WAITS = {
    WaitReason.RETRY: "waits before its next retry ({retry_count} of {max_retries} used)",
    WaitReason.RESCHEDULE: "was rescheduled ({reschedule_count} times so far)",
    WaitReason.SCHEDULED: "was submitted to start later",
    WaitReason.DEPENDENCY: "waits for other tasks of its job",
    WaitReason.BUDGET: "waits until its budget begins anew",
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
_AHEAD = {
    Certainty.EXACT: "{} tasks are ahead of it",
    Certainty.ABOUT: "about {} tasks are ahead of it",
    Certainty.AT_LEAST: "more than {} tasks are ahead of it",
}
READY = Reason("ready", "is ready and will be claimed next")


def why(task: Task, around: Surroundings, *, now: float) -> tuple[Reason, ...]:
    if task.status is Status.RUNNING:
        return (_running(task), *(_reason(gate, text) for gate, text in held_in_hand(around)))
    if task.status.terminal:
        return (_ended(task),)
    return (*own_reasons(task, now), *reasons_around(task.kind, task.lane, around)) or (READY,)


def delay_s(task: Task, now: float) -> float:
    """How long it waits by itself; one without a reason to is only younger than the clock of whoever looks."""
    return 0.0 if task.wait_reason is None else max(0.0, task.available_at - now)


def own_reasons(task: Task, now: float) -> tuple[Reason, ...]:
    """What holds back a pending task itself, whatever is around it."""
    chain = []
    if task.deadline_at is not None and task.deadline_at <= now:
        chain.append(Reason("deadline", "its deadline has passed: it fails as soon as a worker takes it"))
    if task.wait_reason is not None and delay_s(task, now) > 0:
        code = task.wait_reason
        text = _WAITS[code].format(
            retry_count=task.retry_count, max_retries=task.max_retries, reschedule_count=task.reschedule_count
        )
        if task.error_text:
            text = f"{text}; last error: {task.error_text}"
        chain.append(Reason(code, text, task.available_at))
    return tuple(chain)


def reasons_around(kind: str, lane: str, around: Surroundings) -> tuple[Reason, ...]:
    """What holds back any task of the lane."""
    gates = [*around.gates, *(around.limit.gates if around.limit else ())]
    if around.worker_count == 0:
        gates.append(Gate(reason=WaitReason.NO_WORKER, text=f"no worker that runs {kind!r} is alive: start one"))
    chain = [_reason(gate, gate.text) for gate in sorted(gates, key=_order)]
    if around.ahead and around.ahead.task_count:
        text = _AHEAD[around.ahead.certainty].format(around.ahead.task_count)
        chain.append(Reason("line", f"{text} in lane {lane!r}"))
    return tuple(chain)


def held_in_hand(around: Surroundings) -> list[tuple[Gate, str]]:
    """What keeps back tasks that were claimed: which of them wait for a slot nobody can tell, how many do is known."""
    limit = around.limit
    if limit is None or not limit.in_hand_count:
        return []
    waiting = f"of its kind, in hand and waiting for it: {limit.in_hand_count}"
    return [(gate, f"{gate.text}; {waiting}") for gate in sorted(limit.gates, key=_order)]


def _reason(gate: Gate, text: str) -> Reason:
    return Reason(gate.reason, text, gate.until, gate.paused_by, gate.note)


def _order(gate: Gate) -> int:
    return _ORDER.index(gate.reason)


def _running(task: Task) -> Reason:
    text = f"attempt {task.attempt_count + 1} runs"
    if task.cancel_requested_at is not None:
        return Reason("cancel_requested", f"{text}, and was asked to stop", task.attempt_deadline_at)
    return Reason("running", text, task.attempt_deadline_at)


def _ended(task: Task) -> Reason:
    text = f"it is {task.status}"
    return Reason(task.status, f"{text}: {task.error_text}" if task.error_text else text)
