"""Submissions, sessions and rescues of a ledger in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from forebay.model.bulk import Bulk
from forebay.model.callback import Endpoint
from forebay.model.exchange import Acted, Action, Hold, Progress, Release, Remembered, Renewal, Session, Submitted
from forebay.model.job import Job, NewJob
from forebay.model.task import NewTask
from forebay.rules import rollup, settlement
from forebay.rules import unit as units
from forebay.rules.actions import DONE, ROTATE
from forebay.stores.sql import ending, lines, rows
from forebay.stores.sql.acting import record, recorded
from forebay.stores.sql.ending import Finished
from forebay.stores.sql.lines import Newcomers
from forebay.stores.sql.reads import newer_than
from forebay.stores.sql.rows import Held
from forebay.stores.sql.statement import Again, Statement, Steps, ask, encode
from forebay.stores.sql.transaction import Transaction

_SESSIONS_KEPT_S = 86_400.0  # after their end, for the name of the worker in what is rescued late


def submit(tx: Transaction, batch: Sequence[NewTask | NewJob]) -> Steps[list[Submitted]]:
    """An id that was drawn is stored already only if it comes a second time, which the database refuses."""
    if isinstance(batch, Bulk) and not tx.careful:
        yield from lines.add_bulk(tx, batch)
        return [Submitted(drawn, "created") for drawn in batch.ids]
    if len(batch) == 1 and (tx.alone or not tx.careful) and _is_plain(only := batch[0]):
        if (yield from lines.add_lone(tx, only)):
            return [Submitted(only.id, "created")]
        if not tx.alone:
            raise Again
    return (yield from _submit_each(tx, batch))


def _is_plain(new: NewTask | NewJob) -> TypeGuard[NewTask]:
    """Return whether it is a task that is due at once, whose id can be that of a task alone.

    A key within its tenant is left out: one statement counts the flows of a tenant only from the first one on.
    """
    return (
        isinstance(new, NewTask)
        and (new.drawn or new.idempotency_key is not None)
        and not (new.delay_s or new.available_at or new.tags)
        and not (new.fairness_key or "").startswith(f"{new.tenant}/")
    )


def _submit_each(tx: Transaction, batch: Sequence[NewTask | NewJob]) -> Steps[list[Submitted]]:
    """Look for what is there already first."""
    asked: list[str] = []
    stands: dict[tuple[object, ...], tuple[NewTask, str | None]] = {}  # of those that stand alike, one
    for new in batch:
        if isinstance(new, NewTask):
            asked.append(new.id)
            stands[new.kind, new.limit, new.priority, new.fairness_key, new.tenant] = (new, None)
        else:
            asked += [new.id, *(task.id for task in new.tasks)]
            for task in new.tasks:
                stands[task.kind, task.limit, task.priority, task.fairness_key, new.id, "job"] = (task, new.id)
    newcomers = Newcomers(asked, [lines.place_of(*each) for each in stands.values()])
    doubtful = [new.id for new in batch if tx.careful or isinstance(new, NewJob) or not new.drawn]
    stored, *answers = yield from tx.ask(ask("known", ids=doubtful), *newcomers.questions)
    known: dict[str, tuple[type, str | None]] = {row[0]: (NewJob if row[2] else NewTask, row[1]) for row in stored}
    outcomes = []
    added: dict[str, tuple[NewTask, Job | None]] = {}
    for new in batch:
        if new.id in known:
            same = known[new.id] == (type(new), new.payload_hash)
            # A drawn id is there since the run before, whose answer was lost: nobody else draws it.
            ours = tx.doubtful and isinstance(new, NewTask) and new.drawn
            outcomes.append(Submitted(new.id, "conflict" if not same else "created" if ours else "existing"))
            continue
        known[new.id] = (type(new), new.payload_hash)
        if isinstance(new, NewTask):
            added[new.id] = (new, None)
        else:
            job = units.new_job(new, tx.now)
            for task in new.tasks:
                added.setdefault(task.id, (task, job))
            tx.add_job(rollup.joined(job, [task.role for task in new.tasks]))
            tx.note(tx.jobs[job.id], units.created(new))
        outcomes.append(Submitted(new.id, "created"))
    now = tx.now
    yield from newcomers.store(tx, (units.new_task(each, job, now) for each, job in added.values()), answers)
    return outcomes


def open_session(tx: Transaction, session: Session) -> Steps[None]:
    tx.write("forget_sessions", kept_s=_SESSIONS_KEPT_S)
    tx.write(
        "open_session",
        id=session.id,
        worker=session.worker,
        lease_s=session.lease_s,
        kinds=encode(session.kinds),
        host=session.host,
        version=session.version,
    )
    yield from tx.finish()


def renew(
    tx: Transaction, session_id: str, holds: Sequence[Hold], progress: Sequence[Progress], newest: int
) -> Steps[Renewal]:
    """All in one batch, which waits for nobody: a task that another step has locked needs no more time."""
    statements = [ask("renew", id=session_id, progress=rows.progress_text(progress)), ask("schema")]
    if holds:
        asked = [[hold.task_id, hold.token, hold.hold_s] for hold in holds]
        statements.append(ask("hold", holds=asked, session_id=session_id))
    alive, schema, *_, canceled = yield from tx.ask(
        *statements, ask("cancel_requested", session_id=session_id), last=True
    )
    newer = newer_than(schema, newest)
    if not alive:
        return Renewal(alive=False, newer_schema=newer)
    asked_to_stop = tuple(row[0] for row in canceled)
    drain = alive[0][0] is not None
    return Renewal(alive=True, cancel_requested=asked_to_stop, drain=drain, newer_schema=newer)


def adopt(tx: Transaction, environment: str) -> Steps[str]:
    """Give the ledger to an environment if it has none; return the one that it belongs to."""
    tx.write("add_environment", environment=environment)
    found = yield from tx.one("environment", last=True)
    return str(found[0][0])


def put_environment(tx: Transaction, environment: str) -> Steps[None]:
    tx.write("put_environment", environment=environment)
    yield from tx.finish()


def close_session(tx: Transaction, session_id: str) -> Steps[None]:
    """Release what it holds, and end it as the last step: whoever sees it ended finds nothing of it to rescue."""
    mine, workers = yield from tx.ask(ask("mine", session_id=session_id), ask("workers", ids=[session_id]))
    tasks = [rows.task(row) for row in mine]
    releases = [Release(task.id, task.claim_count, task.job_id, started=True) for task in tasks]
    held: ending.HeldBy = {}
    for statements in (ending.lone_held(releases), ending.job_held(releases)):
        if statements:
            *jobs, found = yield from tx.ask(*statements)
            tx.took_jobs(row for each in jobs for row in each)
            held |= ending.held_by(found)
    yield from ending.release(tx, held, releases, dict(workers).get(session_id, ""))
    tx.write("end_session", id=session_id)


def needs_rescue(tx: Transaction) -> Steps[bool]:
    expired, lost = yield from tx.ask(ask("expired"), ask("losses", most=1))
    return bool(expired or lost)


def end_expired(tx: Transaction) -> Steps[None]:
    yield from tx.one("end_expired", last=True)


def rescue(tx: Transaction, most: int) -> Steps[list[str]]:
    """Jobs first, whoever is busy with one; what was lost is looked for again when nobody else has it."""
    losses = yield from tx.one("losses", most=most)
    yield from tx.load_jobs(row[0] for row in losses)
    found = yield from tx.locked_rows("lost", most=most)
    lost = [(Held._make(row[:-1]), row[-1]) for row in found]
    lost = [(held, gone) for held, gone in lost if held.job_id is None or held.job_id in tx.jobs]
    if not lost:
        return []
    workers = dict((yield from tx.one("workers", ids=sorted({held.session_id for held, _ in lost}))))
    finished = []
    for held, gone in lost:
        why = "its session ended" if gone else "its attempt was overdue"
        ended = settlement.lost(held, tx.now, why=why)
        finished.append(Finished(held, ended, workers.get(held.session_id, "")))
    yield from ending.end(tx, finished)
    tx.woken = True
    return [one.held.id for one in finished]


def put_endpoint(tx: Transaction, endpoint: Endpoint, action: Action | None) -> Steps[bool]:
    put = Statement("put_endpoint", rows.endpoint_values(endpoint))
    if action is None:
        (stored,) = yield from tx.ask(put, last=True)
        return bool(stored)
    answered = yield from tx.one("audited", id=action.id)
    if answered:
        recorded(answered, ROTATE, [endpoint.id])
        return True
    (stored,) = yield from tx.ask(put)
    if stored:
        record(tx, ROTATE, [endpoint.id], action, [Acted(endpoint.id, DONE)])
    return bool(stored)


def remember(tx: Transaction, results: Sequence[Remembered]) -> Steps[None]:
    stored: list[list[Any]] = [
        [one.tenant, one.key, one.document, one.result_json, one.result_blob]
        for one in sorted(results, key=lambda one: (one.tenant, one.key))
    ]
    yield from tx.one("remember", rows=stored, last=True)
