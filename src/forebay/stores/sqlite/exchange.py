"""The hot path of the SQLite ledger: ends attempts, promotes what is due and claims, a statement per batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from forebay.model.exchange import Release, Reply, Session, Settle, Settled, Want
from forebay.model.job import Event, Job
from forebay.model.task import NewTask, Role, Status, Task
from forebay.rules import pausing, rollup, settlement
from forebay.rules import unit as units
from forebay.rules.fairness import Line, Place
from forebay.rules.pausing import Left, Pauses
from forebay.rules.rollup import Ended, Hole
from forebay.rules.settlement import Ending
from forebay.stores.base import MAX_LANES, promoted
from forebay.stores.sqlite import rows
from forebay.stores.sqlite.rows import Held
from forebay.stores.sqlite.transaction import Transaction, encode


class Finished(NamedTuple):
    """An attempt that ends in this transaction."""

    held: Held
    ending: Ending
    worker: str
    settle: Settle | None = None


def run(
    tx: Transaction,
    session: Session | None,
    n: int,
    *,
    settles: Sequence[Settle],
    releases: Sequence[Release],
    wants: Sequence[Want],
) -> Reply:
    """A session that has ended, or is not known, may settle what it held but gets nothing."""
    worker = session.worker if session else ""
    settled = settle(tx, settles, worker)
    release(tx, releases, worker)
    if session is None or session.ended_at is not None:
        return Reply(settled=settled, alive=False, now=tx.now)
    pauses = tx.pauses() if wants else {}
    for kind in {want.kind for want in wants}:
        promote(tx, kind, promoted(sum(want.count for want in wants if want.kind == kind)))
    if n <= session.exchange_n:
        held = tx.query("mine", session_id=session.id)
        claims = [task for row in held if (task := rows.task(row, row[-1])).exchange_n == n]
    else:
        claims = claim(tx, wants, session.id, n, pauses)
    if claims or settles or releases or n <= session.exchange_n or half_through(session, tx.now):
        tx.query("renew_exchange", id=session.id, now=tx.now, n=n)
    return Reply(settled=settled, claims=tuple(claims), now=tx.now, **waiting(tx, wants, pauses)._asdict())


def half_through(session: Session, now: float) -> bool:
    """Whether even an exchange that found nothing has to renew the lease, which is a write."""
    return session.expires_at - now <= session.lease_s / 2


def waiting(tx: Transaction, wants: Sequence[Want], pauses: Pauses) -> Left:
    kinds = dict.fromkeys(want.kind for want in wants)
    due = [tx.query("next_due", kind=kind)[0][0] for kind in kinds]
    ready = {kind: lanes(tx, kind, pauses) for kind in kinds}
    return pausing.left(ready, due, pauses, now=tx.now, most=MAX_LANES)


def settle(tx: Transaction, settles: Sequence[Settle], worker: str) -> tuple[Settled, ...]:
    if not settles:
        return ()
    held = _held(tx, settles)
    finished, missed = [], []
    for one in settles:
        row = held.pop((one.task_id, one.token), None)
        if row is None:
            missed.append([one.task_id, one.token])
        else:
            finished.append(Finished(row, settlement.settled(row, one, tx.now), worker, one))
    end(tx, finished)
    # Asked after `end`, so that a settle that stands twice in one batch is found settled the second time.
    written = {(row[0], row[1]): row[2] for row in tx.query("settled_before", asked=missed)} if missed else {}
    done = {(one.held.id, one.held.claim_count): one.settle for one in finished}
    return tuple(Settled(one.task_id, one.token, fenced=not _done(one, done, written)) for one in settles)


def _done(one: Settle, done: dict[tuple[str, int], Settle | None], written: dict[tuple[str, int], str]) -> bool:
    key = (one.task_id, one.token)
    return done.get(key) is one or (key in written and settlement.repeats(one, written[key]))


def release(tx: Transaction, releases: Sequence[Release], worker: str) -> None:
    if releases:
        held = _held(tx, releases)
        finished = []
        for one in releases:
            row = held.pop((one.task_id, one.token), None)
            if row is not None:
                ending = settlement.released(row, tx.now, started=one.started)
                finished.append(Finished(row, ending, worker))
        end(tx, finished)
        tx.woken = True


def _held(tx: Transaction, asked: Sequence[Settle] | Sequence[Release]) -> dict[tuple[str, int], Held]:
    pairs = [[one.task_id, one.token] for one in asked]
    return {(row[1], row[2]): Held._make(row) for row in tx.query("held", asked=pairs)}


def end(tx: Transaction, finished: Sequence[Finished]) -> None:
    """Write endings, history, results and usage, then what follows for the jobs."""
    if not finished:
        return
    endings = encode([_ending_row(one) for one in finished])
    tx.query("end", endings=endings)
    if any(one.ending.counted for one in finished):
        tx.query("add_history", endings=endings, now=tx.now)
    results = [[one.held.seq, one.ending.result_json] for one in finished if one.ending.result_json is not None]
    if results:
        tx.query("add_results", rows=results)
    usage = [
        [one.held.id, one.held.claim_count, used.meter, used.unit, one.held.tenant, used.amount]
        for one in finished
        if one.settle
        for used in one.settle.usage
    ]
    if usage:
        tx.query("add_usage", rows=usage, now=tx.now)
    by_job = defaultdict(list)
    for one in finished:
        if one.held.job_id is not None:
            by_job[one.held.job_id].append(one)
    tx.load_jobs(by_job)
    for job_id in sorted(by_job):
        _roll(tx, job_id, by_job[job_id])


def _ending_row(one: Finished) -> list[Any]:
    held, ending = one.held, one.ending
    return [
        held.seq,
        ending.status,
        ending.wait_reason,
        ending.retry_count,
        ending.reschedule_count,
        ending.lost_count,
        held.attempt_count + ending.counted,
        ending.available_at,
        int(ending.keeps_place),
        ending.finished_at,
        ending.error_class,
        ending.error_text,
        ending.result_blob,
        ending.outcome,
        int(ending.settled),
        int(ending.counted),
        one.worker,
        ending.traceback,
    ]


def _roll(tx: Transaction, job_id: str, finished: Sequence[Finished]) -> None:
    """Bring a job up to date after some of its attempts ended: counters, events, follow-ups, its merge or its end."""
    job = tx.job(job_id)
    if job is None:
        return
    ended = []
    for held, ending, _, settle in finished:
        role = Role(held.role)
        job = tx.count(job, role, Status.RUNNING, ending.status)
        if settle is not None:
            for event in settle.events:
                job = tx.note(job, event)
            job = _add(tx, job, units.follow_ups(settle, ending, job))
        if ending.status.terminal:
            if role is Role.CHUNK:
                job = tx.note(job, units.chunk_event(ending.status, held.chunk_index, ending.error_class))
            error = (ending.error_class, ending.error_text)
            ended.append(Ended(held.id, role, ending.status, held.generation, *error))
    change = rollup.effect(job, ended, lambda: [Hole(*row) for row in tx.query("holes", job_id=job_id)], tx.now)
    tx.put_job(change.job)
    job = _add(tx, change.job, change.tasks)
    for event in change.events:
        job = tx.note(job, event)


def _add(tx: Transaction, job: Job, new: Sequence[NewTask]) -> Job:
    if not new:
        return job
    known = {row[0] for row in tx.query("known_tasks", ids=[task.id for task in new])}
    tasks = {task.id: units.new_task(task, job, tx.now) for task in new if task.id not in known}
    tx.add_tasks(list(tasks.values()))
    for task in tasks.values():
        job = tx.count(job, task.role, None, task.status)
    return job


def promote(tx: Transaction, kind: str, most: int) -> None:
    due = tx.query("due", kind=kind, now=tx.now, most=most)
    if due:
        places = [Place(Line(*row[1:4]), row[4]) for row in due]
        given = [[row[0], tag] for row, tag in zip(due, tx.tags(places), strict=True)]
        tx.query("promote", given=given)


def claim(tx: Transaction, wants: Sequence[Want], session_id: str, n: int, pauses: Pauses) -> list[Task]:
    chosen: dict[int, float] = {}
    for want in wants:
        free = [row for row in _ready(tx, want, len(chosen), pauses) if row[3] not in chosen]
        chosen.update((row[3], want.grace_s) for row in free[: want.count])
    if not chosen:
        return []
    claimed = tx.query("claim", chosen=list(chosen.items()), session_id=session_id, n=n, now=tx.now)
    tasks = [rows.task(row, row[-1]) for row in claimed]
    tx.load_jobs(task.job_id for task in tasks)
    for task in tasks:
        job = task.job_id and tx.job(task.job_id)
        if job:
            job = tx.count(job, task.role, Status.PENDING, Status.RUNNING)
            if job.status is Status.PENDING:
                tx.note(rollup.started(job, tx.now), Event(name="job_running"))
    return sorted(tasks, key=_place)


def _place(task: Task) -> tuple[Any, ...]:
    return (-task.priority, task.tag, task.available_at)


def _ready(tx: Transaction, want: Want, taken: int, pauses: Pauses) -> list[Any]:
    """The next tasks for a want, best first; a few more, because others may have been chosen already."""
    if not want.count:
        return []
    found = [
        row
        for lane in ([want.lane] if want.lane else lanes(tx, want.kind, pauses))
        if lane not in pauses
        for row in tx.query("ready", kind=want.kind, lane=lane, most=want.count + taken)
    ]
    return sorted(found, key=lambda row: (-row[0], *row[1:]))


def lanes(tx: Transaction, kind: str, pauses: Pauses) -> tuple[str, ...]:
    """Those with ready tasks; paused ones take no room from the others."""
    return tuple(map(itemgetter(0), tx.query("lanes", kind=kind, most=MAX_LANES + len(pauses))))
