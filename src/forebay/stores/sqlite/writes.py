"""The other writes of the SQLite ledger: submissions, and the rare actions that take a unit as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from forebay.errors import NotFound
from forebay.model.exchange import Acted, Action, Release, Remembered, Session, Submitted
from forebay.model.job import NewJob
from forebay.model.lane import Pause
from forebay.model.task import NewTask, Status, Task
from forebay.rules import actions, settlement
from forebay.rules import unit as units
from forebay.rules.actions import DONE, audited
from forebay.rules.unit import Unit
from forebay.stores.checks import check_repeat
from forebay.stores.sqlite import exchange, rows
from forebay.stores.sqlite.exchange import Finished
from forebay.stores.sqlite.rows import Held
from forebay.stores.sqlite.transaction import Transaction, encode

Step = Callable[[Unit, str, float], Acted]
_TOKENS_KEPT_S = 30 * 86_400.0
_SESSIONS_KEPT_S = 86_400.0  # after their end, for the name of the worker in what is rescued late


def submit(tx: Transaction, batch: Sequence[NewTask | NewJob]) -> list[Submitted]:
    asked = [new.id for new in batch]
    stored = tx.query("known", ids=asked)
    known: dict[str, tuple[type, str | None]] = {row[0]: (NewJob if row[2] else NewTask, row[1]) for row in stored}
    answers = []
    added: list[Task] = []
    for new in batch:
        if new.id in known:
            same = known[new.id] == (type(new), new.payload_hash)
            answers.append(Submitted(new.id, "existing" if same else "conflict"))
            continue
        known[new.id] = (type(new), new.payload_hash)
        unit = units.create(new, tx.now)
        added.extend(unit.tasks.values())
        if unit.job is not None:
            tx.put_job(unit.job)
            for event in unit.events:
                tx.add_event(unit.job.id, event.number, event)
        answers.append(Submitted(new.id, "created"))
    tx.add_tasks(added)
    return answers


def open_session(tx: Transaction, session: Session) -> None:
    tx.execute("DELETE FROM sessions WHERE ended_at < ?", tx.now - _SESSIONS_KEPT_S)
    tx.execute(
        "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, NULL, 0) ON CONFLICT (id) DO NOTHING",
        session.id,
        session.worker,
        session.lease_s,
        encode(session.kinds),
        tx.now,
        tx.now + session.lease_s,
    )


def close_session(tx: Transaction, session_id: str) -> None:
    tx.execute("UPDATE sessions SET ended_at = coalesce(ended_at, ?) WHERE id = ?", tx.now, session_id)
    held = [rows.task(row) for row in tx.query("mine", session_id=session_id)]
    releases = [Release(task.id, task.claim_count, task.job_id, started=True) for task in held]
    exchange.release(tx, releases, _workers(tx).get(session_id, ""))


def rescue(tx: Transaction, most: int) -> list[str]:
    tx.execute("UPDATE sessions SET ended_at = ? WHERE ended_at IS NULL AND expires_at <= ?", tx.now, tx.now)
    lost = tx.query("lost", now=tx.now, most=most)
    if not lost:
        return []
    workers = _workers(tx)
    finished = []
    for *row, gone in lost:
        held = Held._make(row)
        why = "its session ended" if gone else "its attempt was overdue"
        ending = settlement.lost(held, tx.now, why=why)
        finished.append(Finished(held, ending, workers.get(held.session_id, "")))
    exchange.end(tx, finished)
    tx.woken = True
    return [one.held.id for one in finished]


def _workers(tx: Transaction) -> dict[str, str]:
    return dict(tx.execute("SELECT id, worker FROM sessions"))


def act(tx: Transaction, verb: str, targets: Sequence[str], action: Action, step: Step) -> list[Acted]:
    """Apply a step to each target's unit; the same action again gets the answer that it got before."""
    if (answered := recorded(tx, verb, targets, action)) is not None:
        return answered
    answer: dict[str, Acted] = {}
    loaded: dict[str, tuple[Unit, set[str]]] = {}
    for target in dict.fromkeys(targets):
        unit_id = _unit_of(tx, target)
        if unit_id not in loaded and (found := load(tx, unit_id)):
            loaded[unit_id] = (found, set(found.tasks))
        unit, _ = loaded.get(unit_id, (None, set()))
        if unit is None or unit.deleted:
            answer[target] = Acted(target, NotFound.code, f"There is no task or job {target}.")
        else:
            answer[target] = step(unit, target, tx.now)
    for unit, known in loaded.values():
        save(tx, unit, known)
    answers = [answer[target] for target in targets]
    record(tx, verb, targets, action, answers)
    tx.woken = True
    return answers


def act_on_lane(tx: Transaction, verb: str, lane: str, action: Action, step: Callable[..., dict[str, Pause]]) -> Acted:
    if (answered := recorded(tx, verb, [lane], action)) is not None:
        return answered[0]
    changed = step(tx.pauses().values(), tx.now, lane=lane).values()
    tx.execute("DELETE FROM pauses")
    tx.query("add_pauses", rows=[[pause.lane, pause.at, pause.until, pause.note] for pause in changed])
    answer = Acted(lane, DONE)
    record(tx, verb, [lane], action, [answer])
    tx.woken = True
    return answer


def recorded(tx: Transaction, verb: str, targets: Sequence[str], action: Action) -> list[Acted] | None:
    """The answer that the same action got before."""
    found = tx.execute(f"SELECT {rows.AUDIT}, answer FROM audit WHERE id = ?", action.id)  # noqa: S608 - constant
    if not found:
        return None
    check_repeat(rows.audit(found[0][:-1]), verb, targets)
    return [Acted(*one) for one in json.loads(found[0][-1])]


def _unit_of(tx: Transaction, target: str) -> str:
    found = tx.execute("SELECT job_id FROM tasks WHERE id = ?", target)
    return (found and found[0][0]) or target


def record(tx: Transaction, verb: str, targets: Sequence[str], action: Action, answer: Sequence[Acted]) -> None:
    line = audited(action, verb, targets, tx.now)
    tx.execute(
        "INSERT INTO audit (id, at, who, tenant, verb, targets, target_count, note, answer)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        line.id,
        line.at,
        line.who,
        line.tenant,
        line.verb,
        encode(line.targets),
        line.target_count,
        line.note,
        encode([[one.id, one.outcome, one.text] for one in answer]),
    )


def load(tx: Transaction, unit_id: str) -> Unit | None:
    """A whole unit."""
    job = tx.job(unit_id)
    column = "id" if job is None else "job_id"
    stored = tx.execute(f"SELECT {rows.TASK} FROM tasks WHERE {column} = ? ORDER BY seq", unit_id)  # noqa: S608 - constant
    return Unit(job, {row[0]: rows.task(row) for row in stored}) if job or stored else None


def save(tx: Transaction, unit: Unit, known: set[str]) -> None:
    """Write what a step did to a unit that was loaded."""
    if unit.deleted:
        delete(tx, [unit.id])
        return
    touched = [unit.tasks[task_id] for task_id in unit.touched]
    tx.add_tasks([task for task in touched if task.id not in known])
    changed = [task for task in touched if task.id in known]
    if changed:
        tx.query("put_tasks", rows=[_changed_row(task) for task in changed])
        tx.query("drop_results", ids=[task.id for task in changed])
    if unit.job is not None:
        tx.put_job(unit.job)
        for event in unit.events:
            tx.add_event(unit.job.id, event.number, event)


def _changed_row(task: Task) -> list[object]:
    return [
        task.id,
        task.status,
        task.generation,
        task.tag,
        task.available_at,
        task.wait_reason,
        task.retry_count,
        task.reschedule_count,
        task.lost_count,
        task.finished_at,
        task.cancel_requested_at,
        task.error_class,
        task.error_text,
        task.result_blob,
    ]


def deletion(tx: Transaction) -> Step:
    def step(unit: Unit, target: str, now: float) -> Acted:
        answer = actions.delete(unit, target, now)
        if unit.deleted and unit.job and unit.job.document:
            forget(tx, unit.job.tenant, unit.job.document)
        return answer

    return step


def delete(tx: Transaction, unit_ids: Sequence[str]) -> None:
    """Drop units with all that belongs to them; their last tokens stay, for as long as a worker may come back."""
    named = encode(list(unit_ids))
    own = "SELECT value FROM json_each(?)"
    members = f"SELECT seq FROM tasks WHERE id IN ({own}) UNION SELECT seq FROM tasks WHERE job_id IN ({own})"  # noqa: S608 - constant
    seqs = [row[0] for row in tx.execute(members, named, named)]
    tx.execute(
        f"INSERT INTO buried SELECT id, claim_count, ? FROM tasks WHERE seq IN ({own}) AND claim_count > 0"  # noqa: S608 - constant
        " ON CONFLICT (id) DO UPDATE SET claim_count = excluded.claim_count, at = excluded.at",
        tx.now,
        encode(seqs),
    )
    tx.execute("DELETE FROM buried WHERE at < ?", tx.now - _TOKENS_KEPT_S)
    for table, column in (("history", "task_seq"), ("payloads", "task_seq"), ("results", "task_seq"), ("tasks", "seq")):
        tx.execute(f"DELETE FROM {table} WHERE {column} IN ({own})", encode(seqs))  # noqa: S608 - constant
    tx.execute(f"DELETE FROM events WHERE job_id IN ({own})", named)  # noqa: S608 - constant
    tx.execute(f"DELETE FROM jobs WHERE id IN ({own})", named)  # noqa: S608 - constant
    for unit_id in unit_ids:
        tx.drop_job(unit_id)


def prune(tx: Transaction, older_than_s: Mapping[Status, float], action: Action, most: int) -> int:
    old: list[str] = []
    for status, age_s in older_than_s.items():
        for table, lone in (("tasks", "AND job_id IS NULL"), ("jobs", "")):
            found = tx.execute(
                f"SELECT id FROM {table} AS head WHERE status = ? AND finished_at < ? {lone}"  # noqa: S608 - constant
                " AND NOT EXISTS (SELECT 1 FROM tasks WHERE job_id = head.id AND status IN ('pending', 'running'))"
                " LIMIT ?",
                status,
                tx.now - age_s,
                most - len(old),
            )
            old.extend(row[0] for row in found)
    if old:
        delete(tx, old)
        record(tx, "prune", old, action, [])
    return len(old)


def remember(tx: Transaction, results: Sequence[Remembered]) -> None:
    for one in results:
        tx.execute(
            "INSERT INTO remembered VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, key) DO NOTHING",
            one.tenant,
            one.key,
            one.document,
            one.result_json,
            one.result_blob,
            tx.now,
        )


def forget(tx: Transaction, tenant: str, document: str) -> int:
    tx.execute("DELETE FROM remembered WHERE tenant = ? AND document = ?", tenant, document)
    return tx.changes()
