"""The hot path of a ledger in SQL: settles, releases, promotes what is due and claims, in as few batches as it can."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from forebay.model.exchange import Release, Reply, Session, Settle, Settled, Want
from forebay.model.job import Event
from forebay.model.task import Role, Status, Task
from forebay.rules import rollup
from forebay.stores.sql import ending, lines, rows
from forebay.stores.sql.lines import Guess, Ready, View
from forebay.stores.sql.statement import Again, Steps, ask
from forebay.stores.sql.transaction import Transaction


def run(
    tx: Transaction,
    session_id: str,
    n: int,
    guess: Guess,
    *,
    settles: Sequence[Settle],
    releases: Sequence[Release],
    wants: Sequence[Want],
) -> Steps[Reply]:
    """A session that has ended, or is not known, may settle what it held but gets nothing."""
    asked: list[Settle | Release] = [*settles, *releases]
    plain = ending.plain(asked)
    ended = ending.finish(plain, guess.seqs, session_id)
    lone = ended or ending.lone_held(asked)
    (found, *locked), view = yield from lines.look(tx, wants, guess, ask("session", id=session_id), *lone)
    done: ending.DoneBy = {}
    if ended:
        done = ending.finished(tx, plain, locked[0])
        guess.forget(done)
        left = [one for one in plain if (one.task_id, one.token) not in done]
        locked = (yield from tx.ask(*ending.lone_held(left))) if left else []
    session = rows.session(found[0]) if found else None
    alive = session is not None and session.ended_at is None
    claims_anew = alive and session is not None and n > session.exchange_n
    held = ending.held_by(row for each in locked for row in each)
    if not tx.alone and claims_anew:
        view = yield from _lock(tx, wants, guess, view, asked=asked, held=held)
    elif chunks := ending.job_held(asked):
        jobs, more = yield from tx.ask(*chunks)
        tx.took_jobs(jobs)
        held |= ending.held_by(more)
    worker = session.worker if session else ""
    settled, stirred = yield from ending.settle(tx, held, settles, worker, done)
    stirred |= yield from ending.release(tx, held, releases, worker)
    if session is None or not alive:
        return Reply(settled=settled, alive=False, now=tx.now)
    if wants and (stirred or view.is_due(tx.now)):
        yield from lines.promote(tx, (yield from lines.due(tx, wants)))
        _, view = yield from lines.look(tx, wants, guess)
    if claims_anew:
        claims = yield from _claim(tx, wants, view, guess, session, n=n, busy=bool(asked))
    else:
        tx.write("renew_exchange", id=session.id, n=n)
        mine = yield from tx.one("mine", session_id=session.id, last=True)
        claims = tuple(task for row in mine if (task := rows.task(row, row[-1])).exchange_n == n)
    return Reply(settled=settled, claims=claims, now=tx.now, **view.left(tx.now)._asdict())


def quick(
    tx: Transaction, session_id: str, n: int, guess: Guess, *, settles: Sequence[Settle], wants: Sequence[Want]
) -> Steps[Reply | None]:
    """All in one batch, where lone tasks end for good and lone tasks are claimed; None where that is not so.

    What it took for granted the database refuses if it is wrong, and takes back all of it. Of what it did all the same,
    such as if a task that was to end is locked by another, `run` under the same number says the rest.
    """
    plain = ending.plain(settles)
    taken = [(want, lane) for want in wants if want.count for lane in guess.lanes_of(want)]
    if (
        tx.careful
        or guess.due
        or not taken
        or len(taken) > len({want.kind for want, _ in taken})
        or not all(guess.is_lone(lane) for _, lane in taken)
        or len(plain) < len(settles)
        or any(one.usage for one in plain)
    ):
        return None
    for _, lane in taken:
        guess.mixed(lane)
    kinds = list(dict.fromkeys(want.kind for want in wants))
    ended = ending.finish(plain, guess.seqs, session_id)
    takes = [
        ask("take", kind=want.kind, lane=lane, most=want.count, grace_s=want.grace_s, session_id=session_id, n=n)
        for want, lane in taken
    ]
    answers = yield from tx.ask(
        *ended, ask("turn", id=session_id, n=n), *takes, *lines.looks(kinds), ask("instant"), last=True
    )
    done = ending.finished(tx, plain, answers[0]) if ended else {}
    guess.forget(done)
    *claimed, pauses, due, lanes, ((tx.now,),) = answers[len(ended) + 1 :]
    for _, lane in taken:
        guess.lone(lane)
    view = lines.view_of(kinds, pauses, due, lanes, tx.now)
    guess.looked(view, tx.now)
    if len(done) < len(settles):
        return None
    settled = tuple(Settled(one.task_id, one.token, fenced=False) for one in settles)
    return Reply(settled=settled, claims=_tasks(claimed, guess), now=tx.now, **view.left(tx.now)._asdict())


def idle(tx: Transaction, session_id: str, n: int, guess: Guess, wants: Sequence[Want]) -> Steps[Reply | None]:
    """The answer when nothing is there to do: it costs no write, so idle workers do not wear the disk."""
    _, view = yield from lines.look(tx, wants, guess)
    # After the look: if an earlier request of this number has claimed what was there, it is known by then.
    found = yield from tx.one("session", id=session_id)
    session = rows.session(found[0]) if found else None
    # A session that is half through its lease is renewed by an exchange, and that is a write.
    if session is None or session.ended_at is not None or n <= session.exchange_n or half_through(session, tx.now):
        return None
    left = view.left(tx.now)
    if any(left.lanes[want.kind] for want in wants if want.count) or left.next_due_in_s == 0.0:
        return None
    return Reply(now=tx.now, **left._asdict())


def half_through(session: Session, now: float) -> bool:
    """Whether even an exchange that found nothing has to renew the lease, which is a write."""
    return session.expires_at - now <= session.lease_s / 2


def _lock(
    tx: Transaction,
    wants: Sequence[Want],
    guess: Guess,
    view: View,
    *,
    asked: Sequence[Settle | Release],
    held: ending.HeldBy,
) -> Steps[View]:
    """Lock the jobs of what was held and of what may be claimed, and look again: now it stays as it is.

    Those of what was held are waited for, in the order of their ids; of the others, who is busy is left out, unless
    nothing else was there the last time.
    """
    found: list[Any] = []
    if view.is_due(tx.now):
        found = yield from lines.due(tx, wants)
    ready = (one.job_id for want in wants for one in view.next(want)[: want.count])
    wanted: set[str] = {job_id for job_id in (*(row[5] for row in found), *ready) if job_id is not None}
    chunks = ending.job_held(asked)
    if not (wanted or chunks):
        return view
    own = {one.job_id for one in asked if one.job_id is not None}
    waited = sorted(own | wanted) if tx.patient else sorted(own)
    statements = [ask("jobs", ids=waited), ask("idle_jobs", ids=sorted(wanted - {*waited})), *chunks[1:]]
    answers, view = yield from lines.look(tx, wants, guess, *statements)
    for jobs in answers[:2]:
        tx.took_jobs(jobs)
    for more in answers[2:]:
        held |= ending.held_by(more)
    return view


def _claim(
    tx: Transaction, wants: Sequence[Want], view: View, guess: Guess, session: Session, *, n: int, busy: bool
) -> Steps[tuple[Task, ...]]:
    """`busy`: the exchange carried something, which counts it in any case."""
    if tx.alone:
        yield from tx.load_jobs(one.job_id for want in wants for one in view.next(want)[: want.count])
    statements = []
    for want in wants:
        window = _chosen(tx, view, want, 0 if tx.alone else guess.spare(want.count))
        if window:
            statements.append(ask("claim", chosen=window, most=want.count, session_id=session.id, n=n))
    if not statements:
        if not (tx.alone or tx.patient) and any(view.next(want) for want in wants if want.count):
            raise Again
        if busy or half_through(session, tx.now):
            # Not `renew_exchange`: while we waited for others, an earlier request of this number may have claimed.
            yield from tx.ask(ask("turn", id=session.id, n=n), last=True)
        return ()
    sure = [] if tx.alone else sorted(one.seq for one in view.chosen if one.job_id is not None)
    check = [ask("got", seqs=sure, session_id=session.id, n=n)] if sure else []
    _, *claimed = yield from tx.ask(ask("turn", id=session.id, n=n), *statements, *check, last=True)
    tasks = _tasks(claimed[: len(statements)], guess)
    guess.claimed(all_wanted=len(tasks) >= len(view.taken))
    return tasks


def _tasks(claimed: Iterable[Sequence[Any]], guess: Guess) -> tuple[Task, ...]:
    """In the order of the line."""
    tasks = [(row[-1], rows.task(row, row[-2])) for found in claimed for row in found]
    guess.remember((task.id, seq) for seq, task in tasks)
    return tuple(task for _, task in sorted(tasks, key=_place))


def _chosen(tx: Transaction, view: View, want: Want, spare: int) -> list[tuple[int, float]]:
    """Tasks of jobs that are locked are sure to be had; of lone ones a few more are named, should some be gone."""
    free = [one for one in view.next(want) if one.job_id is None or one.job_id in tx.jobs]
    chosen = free[: want.count]
    view.choose(chosen)
    sure = [one for one in chosen if one.job_id is not None]
    _start(tx, sure)
    most = want.count - len(sure) + spare if chosen else 0
    lone = [one for one in free if one.job_id is None][:most]
    return [(one.seq, want.grace_s) for one in (*sure, *lone)]


def _start(tx: Transaction, claimed: Iterable[Ready]) -> None:
    for one in claimed:
        job = tx.jobs[one.job_id or ""]
        job = tx.count(job, Role(one.role), Status.PENDING, Status.RUNNING)
        if job.status is Status.PENDING:
            tx.note(rollup.started(job, tx.now), Event(name="job_running"))


def _place(claimed: tuple[int, Task]) -> tuple[Any, ...]:
    seq, task = claimed
    return (-task.priority, task.tag, task.available_at, seq)
