"""Ends attempts: settles and releases under their tokens, history and results, and what follows for the jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from forebay.model.exchange import Release, Settle, Settled
from forebay.model.job import Job, member
from forebay.model.task import NewTask, Role, Status
from forebay.rules import announcing, rollup, settlement
from forebay.rules import unit as units
from forebay.rules.fairness import Place
from forebay.rules.rollup import Effect, Ended, Hole
from forebay.rules.settlement import Ending
from forebay.stores.sql.lines import Newcomers, place_of
from forebay.stores.sql.rows import Held
from forebay.stores.sql.statement import Statement, Steps, ask
from forebay.stores.sql.transaction import Transaction

HeldBy = dict[tuple[str, int], Held]
DoneBy = dict[tuple[str, int], Settle]


class Finished(NamedTuple):
    """An attempt that ends in this transaction."""

    held: Held
    ending: Ending
    worker: str
    settle: Settle | None = None


def lone_held(asked: Iterable[Settle | Release]) -> list[Statement]:
    pairs = sorted([one.task_id, one.token] for one in asked if one.job_id is None)
    return [ask("held", asked=pairs)] if pairs else []


def plain(asked: Sequence[Settle | Release]) -> list[Settle]:
    """The settles of lone tasks, if each of them ends its task for good: that is done in one statement, unseen.

    Each token once: what stands there a second time is answered like a repeat. With one that is not so plain all are
    looked at first, so that there is one order in which lone tasks are locked.
    """
    lone: dict[tuple[str, int], Settle] = {}
    for one in asked:
        if one.job_id is None:
            if not isinstance(one, Settle) or one.status is Status.PENDING:
                return []
            lone.setdefault((one.task_id, one.token), one)
    return [one for _, one in sorted(lone.items())]


def finish(settles: Iterable[Settle], seqs: Mapping[str, int], session_id: str) -> list[Statement]:
    """Of those whose numbers are known; the others are left over."""
    endings = [(seqs[one.task_id], *_finished_row(one)) for one in settles if one.task_id in seqs]
    return [ask("finish", endings=endings, session_id=session_id)] if endings else []


_finished_row = attrgetter(
    "token",
    "status",
    "retry_count",
    "reschedule_count",
    "lost_count",
    "error_class",
    "error_text",
    "result_blob",
    "outcome",
    "traceback",
    "result_json",
)


def job_held(asked: Iterable[Settle | Release]) -> list[Statement]:
    """Asks for the jobs first: who has a job has its tasks."""
    by_job = [one for one in asked if one.job_id is not None]
    if not by_job:
        return []
    ids = sorted({one.job_id for one in by_job if one.job_id is not None})
    return [ask("jobs", ids=ids), ask("held", asked=sorted([one.task_id, one.token] for one in by_job))]


def held_by(found: Iterable[Any]) -> HeldBy:
    return {(row[1], row[2]): Held._make(row) for row in found}


def finished(tx: Transaction, plain_: Sequence[Settle], found: Iterable[Any]) -> DoneBy:
    """Those of the plain settles that were written."""
    tenants = {(row[0], row[1]): row[2] for row in found}
    done = {key: one for one in plain_ if (key := (one.task_id, one.token)) in tenants}
    _use(tx, ((key, tenants[key], one) for key, one in done.items() if one.usage))
    return done


def settle(
    tx: Transaction, held: HeldBy, settles: Sequence[Settle], worker: str, done: DoneBy
) -> Steps[tuple[tuple[Settled, ...], bool]]:
    """The answers, and whether any of it brought something into the lines; `done` has what is written already."""
    ended, missed = [], []
    for one in settles:
        key = (one.task_id, one.token)
        if done.get(key) is one:
            continue
        row = held.pop(key, None)
        if row is None:
            missed.append([*key])
        else:
            ended.append(Finished(row, settlement.settled(row, one, tx.now), worker, one))
            done[key] = one
    stirred = yield from end(tx, ended)
    # Asked after `end`, so that a settle that stands twice in one batch is found settled the second time.
    before = (yield from tx.one("settled_before", asked=missed)) if missed else []
    written = {(row[0], row[1]): row[2] for row in before}
    answers = tuple(Settled(one.task_id, one.token, not _done(one, done, written)) for one in settles)
    return answers, stirred


def _done(one: Settle, done: DoneBy, written: dict[tuple[str, int], str]) -> bool:
    key = (one.task_id, one.token)
    return done.get(key) is one or (key in written and settlement.repeats(one, written[key]))


def release(tx: Transaction, held: HeldBy, releases: Sequence[Release], worker: str) -> Steps[bool]:
    finished = []
    for one in releases:
        row = held.pop((one.task_id, one.token), None)
        if row is not None:
            finished.append(Finished(row, settlement.released(row, tx.now, started=one.started), worker))
    tx.woken = tx.woken or bool(finished)
    return (yield from end(tx, finished))


def end(tx: Transaction, finished: Sequence[Finished]) -> Steps[bool]:
    """Write endings, history, results and usage, then what follows for the jobs; whether something waits again."""
    if not finished:
        return False
    results: list[list[Any]] = [[one.held.seq, one.ending.result_json] for one in finished]
    if not any(one.ending.result_json is not None for one in finished):
        results = []
    tx.write("end", endings=[_ending_row(one) for one in finished], results=results)
    settled = ((one.held, one.settle) for one in finished if one.settle and one.settle.usage)
    _use(tx, (((held.id, held.claim_count), held.tenant, settle) for held, settle in settled))
    by_job = defaultdict(list)
    for one in finished:
        if one.held.job_id is not None:
            by_job[one.held.job_id].append(one)
    added = (yield from _roll(tx, by_job)) if by_job else False
    return added or any(one.ending.status is Status.PENDING for one in finished)


def _use(tx: Transaction, settled: Iterable[tuple[tuple[str, int], str, Settle]]) -> None:
    usage = [
        [*key, used.meter, used.unit, tenant, used.amount] for key, tenant, settle in settled for used in settle.usage
    ]
    if usage:
        tx.write("add_usage", rows=usage)


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


def _roll(tx: Transaction, by_job: dict[str, list[Finished]]) -> Steps[bool]:
    """Bring jobs up to date after some of their attempts ended: counters, events, follow-ups, merges or their end."""
    yield from tx.load_jobs(by_job)
    there = sorted(by_job.keys() & tx.jobs.keys())
    brought = [
        member(new, job_id, tenant=tx.jobs[job_id].tenant)
        for job_id in there
        for one in by_job[job_id]
        if one.settle
        for new in one.settle.follow_ups
    ]
    known = (yield from tx.one("known", ids=[new.id for new in brought])) if brought else []
    added = _Added({row[0] for row in known})
    ended = {job_id: _count(tx, job_id, by_job[job_id], added) for job_id in there}
    holes = yield from _holes(tx, [job_id for job_id in there if ended[job_id]])
    merges: dict[str, Effect] = {}
    for job_id in there:
        of_job = holes.get(job_id, [])
        change = rollup.effect(tx.jobs[job_id], ended[job_id], lambda of_job=of_job: of_job, tx.now)  # type: ignore[misc]
        tx.put_job(change.job)
        merges[job_id] = change
    yield from _store(tx, added, merges)
    return bool(added.tasks)


class _Added:
    """The tasks that join jobs in this transaction."""

    def __init__(self, known: set[str]) -> None:
        self.known = known
        self.tasks: dict[str, tuple[NewTask, Job]] = {}

    def add(self, tx: Transaction, job: Job, new: Iterable[NewTask]) -> Job:
        roles = []
        for one in new:
            if one.id not in self.known and one.id not in self.tasks:
                self.tasks[one.id] = (one, job)
                roles.append(one.role)
        if roles:
            job = rollup.joined(job, roles)
            tx.put_job(job)
        return job

    def places(self) -> set[Place]:
        alike = {
            (new.kind, new.limit, new.priority, new.fairness_key, new.tenant, job.id): (new, job.id)
            for new, job in self.tasks.values()
        }
        return {place_of(*each) for each in alike.values()}


def _count(tx: Transaction, job_id: str, finished: Sequence[Finished], added: _Added) -> list[Ended]:
    job = tx.jobs[job_id]
    ended = []
    for held, ending, _, settle in finished:
        role = Role(held.role)
        job = tx.count(job, role, Status.RUNNING, ending.status)
        if settle is not None:
            for event in settle.events:
                job = tx.note(job, event)
            job = added.add(tx, job, units.follow_ups(settle, ending, job))
        if ending.status.terminal:
            if role is Role.CHUNK:
                chunk = (ending.status, held.chunk_index, ending.error_class)
                job = tx.note(job, units.chunk_event(*chunk, pages=(held.page_start, held.page_end)))
                job = added.add(tx, job, announcing.chunk_ended(job, *chunk, now=tx.now))
            error = (ending.error_class, ending.error_text)
            ended.append(Ended(held.id, role, ending.status, held.generation, *error))
    return ended


def _holes(tx: Transaction, ended: Sequence[str]) -> Steps[dict[str, list[Hole]]]:
    """Of the jobs whose last chunk closed: a job's own counters say whether it has holes at all."""
    jobs = [tx.jobs[job_id] for job_id in ended]
    asked = [job.id for job in jobs if not job.open_count and job.failed_count + job.canceled_count]
    if not asked:
        return {}
    answers = yield from tx.ask(*(ask("holes", job_id=job_id) for job_id in asked))
    return {job_id: list(map(Hole._make, found)) for job_id, found in zip(asked, answers, strict=True)}


def _store(tx: Transaction, added: _Added, changes: dict[str, Effect]) -> Steps[None]:
    """Store what joins the jobs, and their last events; a merge that is there already is left alone."""
    merges = {new.id: (job_id, new) for job_id, change in changes.items() for new in change.tasks}
    places = {*added.places(), *(place_of(new, job_id) for job_id, new in merges.values())}
    newcomers = Newcomers([*added.tasks, *merges], places)
    answers: list[list[Any]] = []
    if places:
        stored, *answers = yield from tx.ask(ask("known", ids=list(merges)), *newcomers.questions)
        added.known |= {row[0] for row in stored}
    for job_id, change in changes.items():
        job = added.add(tx, tx.jobs[job_id], change.tasks)
        for event in change.events:
            job = tx.note(job, event)
    now = tx.now
    yield from newcomers.store(tx, (units.new_task(new, job, now) for new, job in added.tasks.values()), answers)
