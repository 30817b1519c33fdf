"""Judges every claim of a run: one holder, one settle under its token, and nothing written by whoever came late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.accounts import Accounts, Claim
from chaos.evidence import Attempt, Evidence


def claims(evidence: Evidence, accounts: Accounts) -> Iterator[str]:
    """T3: one holder per token, and it is the one that the history names."""
    rows = {(task_id, one.token): one for task_id, history in evidence.history.items() for one in history}
    for (task_id, token), records in accounts.claims.items():
        holders = {(record["s"], record["n"]) for record in records}
        if len(holders) > 1:
            yield f"T3 task {task_id}: token {token} was given to {len(holders)} holders"
        row = rows.get((task_id, token))
        if row is not None and row.session_id not in {holder for holder, _ in holders}:
            yield f"T3 task {task_id}: token {token} was claimed by one session and ended for another"
        if task_id in evidence.tasks and token > evidence.tasks[task_id].claim_count:
            yield f"T3 task {task_id}: token {token} was given, its row knows of fewer"


def settles(evidence: Evidence, accounts: Accounts) -> Iterator[str]:
    """T2, T3, T6: what was acknowledged is written once under its own token; what was fenced is not."""
    rows = {(task_id, one.token): one for task_id, history in evidence.history.items() for one in history}
    for claim, told in accounts.settled.items():
        row = rows.get(claim)
        if len(told) > 1:
            yield f"T3 task {claim[0]}: its settle under token {claim[1]} was answered in two ways"
        elif told == {True}:
            if row is not None and row.settled:
                yield f"T6 task {claim[0]}: fenced under token {claim[1]}, and written all the same"
        elif row is None or not row.settled:
            yield f"T3 task {claim[0]}: its settle under token {claim[1]} was acknowledged, and is not in its history"
        else:
            yield from _written(evidence, accounts, claim, row)
            yield from _late(accounts, claim, evidence.tasks[claim[0]].claim_count)
    for claim, row in rows.items():
        if row.settled and claim not in accounts.settles:
            yield f"T3 task {claim[0]}: settled under token {claim[1]}, which nobody asked for"


def _written(evidence: Evidence, accounts: Accounts, claim: Claim, row: Attempt) -> Iterator[str]:
    intended = {(outcome, status) for _, outcome, status in accounts.settles[claim]}
    stopped = row.outcome == "canceled" and any(status == "pending" for _, status in intended)
    if (row.outcome, row.status) not in intended and not stopped:
        yield f"T3 task {claim[0]}: settled as {intended} under token {claim[1]}, written as {row.outcome}"
    task = evidence.tasks.get(claim[0])
    if row.status == "completed" and task and (task.status, task.claim_count) != ("completed", claim[1]):
        yield f"T2 task {claim[0]}: completed under token {claim[1]}, then {task.status} under {task.claim_count}"


def _late(accounts: Accounts, claim: Claim, claim_count: int) -> Iterator[str]:
    """A claim that follows is answered only after this settle was asked for."""
    task_id, token = claim
    asked_at = min(record["m"] for record, _, _ in accounts.settles[claim])
    for later in range(token + 1, claim_count + 1):
        if any(record["m"] < asked_at for record in accounts.claims.get((task_id, later), ())):
            yield f"T6 task {task_id}: settled under token {token} when token {later} was held already"


def losses(evidence: Evidence) -> Iterator[str]:
    """T3: an attempt is lost only when its session was not renewed for a whole lease."""
    lease_s: dict[str, float] = {}
    renewed: dict[str, list[float]] = defaultdict(list)
    for question in evidence.of("open"):
        lease_s[question.asked[0]["s"]] = question.asked[0]["lease_s"]
    for question in evidence.of("renew"):
        if any(record["alive"] for record in question.answers):
            renewed[question.asked[0]["s"]].append(question.asked[0]["w"])
    for task_id, history in evidence.history.items():
        for one in history:
            lease = lease_s.get(one.session_id)
            if one.outcome != "lost" or lease is None:
                continue
            if any(one.ended_at - lease < at < one.ended_at for at in renewed[one.session_id]):
                yield f"T3 task {task_id}: attempt {one.token} was taken away though its session had been renewed"
