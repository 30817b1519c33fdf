"""Judges the calls that the provider saw: each has its attempt, none too many, none after the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.engine.evidence import Evidence, by_task
from chaos.evidence import Attempt
from chaos.journal import Record

# Both clocks are the machine's wall clock; an ending is stamped when its transaction begins, a call just before.
_SLACK_S = 0.02


def tokens(evidence: Evidence) -> Iterator[str]:
    """T3, T4: every call was made under a token that was given, once, and has an attempt in the history."""
    seen = Counter((record["id"], record["token"]) for record in evidence.begins)
    for (task_id, token), count in seen.items():
        task = evidence.rows.tasks.get(task_id)
        if task is None:
            yield f"T4 task {task_id}: called under token {token}, and there is no such task"
        elif token > task.claim_count:
            yield f"T3 task {task_id}: called under token {token}, only {task.claim_count} were given"
        elif (task_id, token) not in evidence.attempts:
            yield f"T4 task {task_id}: called under token {token}, which is in no history"
        if count > 1:
            yield f"T3 task {task_id}: called {count} times under token {token}"
    for record in evidence.begins:
        attempt = evidence.attempts.get((record["id"], record["token"]))
        if attempt is not None and record["w"] < attempt.claimed_at - _SLACK_S:
            yield f"T4 task {record['id']}: called under token {record['token']} before it was claimed"


def numbers(evidence: Evidence) -> Iterator[str]:
    """T4: as many calls as the first, the retries, the reschedules, the losses and the releases account for."""
    for task_id, begins in by_task(evidence.begins).items():
        outcomes = Counter(one.outcome for one in evidence.rows.history[task_id])
        allowed = 1 + sum(outcomes[name] for name in ("retried", "rescheduled", "lost", "released"))
        if len(begins) > allowed:
            yield f"T4 task {task_id}: called {len(begins)} times, {allowed} are accounted for: {dict(outcomes)}"


def lateness(evidence: Evidence) -> Iterator[str]:
    """T2, T6: no call begins after its token was taken away, nor after the task's end; a freeze excuses one."""
    excuses = _freezes(evidence)
    for record in sorted(evidence.begins, key=lambda one: float(one["w"])):
        attempt = evidence.attempts.get((record["id"], record["token"]))
        if attempt is None or record["w"] <= attempt.ended_at + _SLACK_S:
            continue
        if not _excused(excuses[record["life"]], attempt, record):
            task = evidence.rows.tasks[record["id"]]
            since = record["w"] - attempt.ended_at
            ended = task.finished_at is not None and record["w"] > task.finished_at
            yield (
                f"T2 task {record['id']}: called by {record['life']} {since:.3f} s after token {record['token']} was"
                f" {attempt.outcome}{', and after the task had ended' if ended else ''}"
            )


def late(evidence: Evidence) -> int:
    found = 0
    for record in evidence.begins:
        attempt = evidence.attempts.get((record["id"], record["token"]))
        found += attempt is not None and record["w"] > attempt.ended_at + _SLACK_S
    return found


def _freezes(evidence: Evidence) -> dict[str, list[tuple[float, float]]]:
    """By life: from when until when its process was stopped."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    since: dict[str, float] = {}
    for record in evidence.conducted:
        if record["e"] == "stopped":
            since[record["life"]] = record["w"]
        elif record["e"] == "cont" and record["life"] in since:
            found[record["life"]].append((since.pop(record["life"]), record["w"]))
    return found


def _excused(freezes: list[tuple[float, float]], attempt: Attempt, record: Record) -> bool:
    """Frozen between its last look at the lease and the call: the one hole that no lease closes, once per freeze.

    A child of it may call in the midst of the freeze: nobody was awake to stop it.
    """
    for freeze in freezes:
        if attempt.claimed_at <= freeze[1] and freeze[0] <= record["w"]:
            freezes.remove(freeze)
            return True
    return False
