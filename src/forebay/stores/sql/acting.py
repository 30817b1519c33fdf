"""The rare actions of people on whole units and lanes, each recorded, and answered alike when it is repeated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from forebay.errors import NotFound
from forebay.model.exchange import Acted, Action
from forebay.model.job import Event
from forebay.model.lane import Pause
from forebay.model.task import Status, Task
from forebay.rules import actions, pausing
from forebay.rules.actions import DONE, audited
from forebay.rules.unit import Unit
from forebay.stores.checks import check_repeat
from forebay.stores.sql import lines, rows
from forebay.stores.sql.statement import Steps, ask, encode
from forebay.stores.sql.transaction import Transaction

Step = Callable[[Unit, str, float], Acted]
_TOKENS_KEPT_S = 30 * 86_400.0


def act(tx: Transaction, verb: str, targets: Sequence[str], action: Action, step: Step) -> Steps[list[Acted]]:
    """Apply a step to each target's unit; the same action again gets the answer that it got before."""
    answered, units_of = yield from tx.ask(
        ask("audited", id=action.id), ask("units_of", ids=list(dict.fromkeys(targets)))
    )
    if answered:
        return recorded(answered, verb, targets)
    unit_of = {target: target for target in targets} | {row[0]: row[1] for row in units_of if row[1] is not None}
    units = yield from load(tx, dict.fromkeys(unit_of.values()))
    known = {unit_id: set(unit.tasks) for unit_id, unit in units.items()}
    answer: dict[str, Acted] = {}
    for target in dict.fromkeys(targets):
        unit = units.get(unit_of[target])
        if unit is None or unit.deleted:
            answer[target] = Acted(target, NotFound.code, f"There is no task or job {target}.")
        else:
            answer[target] = step(unit, target, tx.now)
    for unit_id, unit in units.items():
        yield from save(tx, unit, known[unit_id])
    answers = [answer[target] for target in targets]
    record(tx, verb, targets, action, answers)
    tx.woken = True
    return answers


def act_on_lane(
    tx: Transaction, verb: str, lane: str, action: Action, step: Callable[..., dict[str, Pause]]
) -> Steps[Acted]:
    answered, stored = yield from tx.ask(ask("audited", id=action.id), ask("pauses"))
    if answered:
        return recorded(answered, verb, [lane])[0]
    before = {pause.lane: pause for pause in map(rows.pause, stored)}
    after = step(before.values(), tx.now, lane=lane)
    if gone := sorted(before.keys() - after.keys()):
        tx.write("drop_pauses", lanes=gone)
    changed = [pause for name, pause in sorted(after.items()) if before.get(name) != pause]
    if changed:
        tx.write("put_pauses", rows=[[pause.lane, pause.at, pause.until, pause.note] for pause in changed])
    answer = Acted(lane, DONE)
    record(tx, verb, [lane], action, [answer])
    tx.woken = True
    return answer


def drain(tx: Transaction, session_id: str, action: Action) -> Steps[Acted]:
    answered, found = yield from tx.ask(ask("audited", id=action.id), ask("session", id=session_id))
    if answered:
        return recorded(answered, "drain", [session_id])[0]
    answer = actions.drained(session_id, rows.session(found[0]) if found else None)
    if answer.done:
        tx.write("drain_session", id=session_id)
    record(tx, "drain", [session_id], action, [answer])
    tx.woken = True
    return answer


def recorded(found: Sequence[Any], verb: str, targets: Sequence[str]) -> list[Acted]:
    """The answer that the same action got before."""
    check_repeat(rows.audit(found[0][:-1]), verb, targets)
    return [Acted(*one) for one in json.loads(found[0][-1])]


def record(tx: Transaction, verb: str, targets: Sequence[str], action: Action, answer: Sequence[Acted]) -> None:
    line = audited(action, verb, targets, tx.now)
    tx.write(
        "add_audit",
        id=line.id,
        at=line.at,
        who=line.who,
        tenant=line.tenant,
        verb=line.verb,
        targets=encode(line.targets),
        target_count=line.target_count,
        note=line.note,
        answer=encode([[one.id, one.outcome, one.text] for one in answer]),
    )


def load(tx: Transaction, unit_ids: Iterable[str]) -> Steps[dict[str, Unit]]:
    """Whole units, those that are there: lone tasks, then jobs, then their tasks."""
    ids = list(unit_ids)
    lock = ask("lock_lone", ids=ids)
    _, _, lone, jobs, members = yield from tx.ask(
        lock, lock, ask("lone_tasks", ids=ids), ask("jobs", ids=sorted(ids)), ask("job_tasks", ids=ids)
    )
    tx.took_jobs(jobs)
    tasks: dict[str, dict[str, Task]] = {}
    for row in (*lone, *members):
        task = rows.task(row)
        tasks.setdefault(task.unit_id, {})[task.id] = task
    return {
        unit_id: Unit(tx.jobs.get(unit_id), tasks.get(unit_id, {}))
        for unit_id in ids
        if unit_id in tx.jobs or unit_id in tasks
    }


def save(tx: Transaction, unit: Unit, known: set[str]) -> Steps[None]:
    """Write what a step did to a unit that was loaded."""
    if unit.deleted:
        delete(tx, [unit.id])
        if unit.job and unit.job.document:
            tx.write("forget_unless_open", tenant=unit.job.tenant, document=unit.job.document)
        return
    touched = [unit.tasks[task_id] for task_id in unit.touched]
    yield from lines.add(tx, [task for task in touched if task.id not in known])
    changed = [task for task in touched if task.id in known]
    if changed:
        tx.write("put_tasks", rows=[_changed_row(task) for task in changed])
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
        task.requested_retry_count,
    ]


def delete(tx: Transaction, unit_ids: Sequence[str]) -> None:
    """Drop units with all that belongs to them; their last tokens stay, for as long as a worker may come back."""
    tx.write("delete_units", ids=list(unit_ids))
    tx.write("forget_tokens", kept_s=_TOKENS_KEPT_S)
    for unit_id in unit_ids:
        tx.drop_job(unit_id)


def prune(tx: Transaction, older_than_s: Mapping[Status, float], action: Action, most: int) -> Steps[int]:
    old: list[str] = []
    for status, age_s in older_than_s.items():
        for name in ("ended_tasks", "ended_jobs"):
            found = yield from tx.locked_rows(name, status=status, age_s=age_s, most=most - len(old))
            old.extend(row[0] for row in found)
    if old:
        delete(tx, old)
        # Called again until nothing is left, with the same action: recorded once.
        if not (yield from tx.one("audited", id=action.id)):
            record(tx, "prune", old, action, [])
    return len(old)


def forget(tx: Transaction, tenant: str, document: str, action: Action) -> Steps[int]:
    answered = yield from tx.one("audited", id=action.id)
    gone = yield from tx.one("forget", tenant=tenant, document=document)
    if answered:
        recorded(answered, "forget", [document])
    else:
        record(tx, "forget", [document], action, [])
    return len(gone)


def forget_older(tx: Transaction, older_than_s: float, action: Action, most: int) -> Steps[int]:
    gone = yield from tx.one("forget_older", age_s=older_than_s, most=most)
    # Called again until nothing is left, with the same action: recorded once.
    if gone and not (yield from tx.one("audited", id=action.id)):
        record(tx, "forget", list(dict.fromkeys(row[0] for row in gone)), action, [])
    return len(gone)


def lose_result(unit: Unit, target: str, now: float, *, result_blob: str | None, told: Event | None) -> Acted:
    return actions.lose_result(unit, target, result_blob, now, told)


paused, resumed = pausing.paused, pausing.resumed
