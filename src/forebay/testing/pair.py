"""Takes each step on a ledger and on the model, and compares what they answer and what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forebay.clock import Clock
from forebay.model.exchange import Acted, Action, Hold, Release, Reply, Session, Settle, Want
from forebay.model.job import Job, NewJob
from forebay.model.lane import Lane
from forebay.model.names import CALLBACK
from forebay.model.query import MAX_PAGE, Query
from forebay.model.task import NewTask, Role, Status, Task
from forebay.stores.base import Ledger
from forebay.testing.invariants import judged, read
from forebay.testing.model import Row
from forebay.testing.model_actions import ActingModel


class Pair:
    """Every verb may be called again with the same arguments, at any time: the model says what must come back."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self.ledger = ledger
        self.model = ActingModel(clock)

    def submit(self, batch: Sequence[NewTask | NewJob]) -> None:
        answers = self.ledger.submit(batch)
        expected = [(new.id, self.model.submit(new)) for new in batch]
        assert [(answer.id, answer.outcome) for answer in answers] == expected

    def open_session(self, session: Session) -> None:
        self.ledger.open_session(session)
        self.model.open_session(session)

    def renew(self, session_id: str, holds: Sequence[Hold]) -> None:
        renewal = self.ledger.renew(session_id, holds)
        asked = self.model.renew(session_id, holds)
        assert renewal.alive == (asked is not None)
        assert set(renewal.cancel_requested) == (asked or set())

    def close_session(self, session_id: str) -> None:
        self.ledger.close_session(session_id)
        self.model.close_session(session_id)
        self._tell()

    def exchange(
        self, session_id: str, n: int, settles: Sequence[Settle], releases: Sequence[Release], wants: Sequence[Want]
    ) -> Reply:
        """Wants are of different kinds, so that each claim can be held against the want it came from."""
        model = self.model
        reply = self.ledger.exchange(session_id, n, settles=settles, releases=releases, wants=wants)
        fenced = [(each.task_id, each.token, model.settle(each)) for each in settles]
        assert [(each.task_id, each.token, each.fenced) for each in reply.settled] == fenced
        for release in releases:
            model.release(release)
        self._tell()
        assert reply.alive == model.alive(session_id)
        if not reply.alive:
            assert reply.claims == ()
            return reply
        if n <= model.sessions[session_id].n:
            held = {row.new.id for row in model.held_by(session_id, n)}
            assert {task.id for task in reply.claims} == held
        else:
            for want in wants:
                claims = [task for task in reply.claims if task.kind == want.kind]
                assert [*model.claim(session_id, n, want, claims)] == []
            assert {task.kind for task in reply.claims} <= {want.kind for want in wants}
        self._see(session_id, n, idle=not (settles or releases or reply.claims))
        kinds = [want.kind for want in wants]
        assert dict(reply.lanes) == {kind: tuple(sorted({r.new.lane for r in model.ready(kind)})) for kind in kinds}
        due = model.next_due(kinds)
        assert reply.next_due_in_s == (None if due is None else due - model.now)
        return reply

    def _see(self, session_id: str, n: int, *, idle: bool) -> None:
        """An idle exchange may leave no trace: neither its number nor a longer life."""
        own = self.model.sessions[session_id]
        (told,) = (session for session in self.ledger.sessions() if session.id == session_id)
        traces = {(max(n, own.n), self.model.now + own.lease_s)}
        if idle:
            traces.add((own.n, own.expires_at))
        assert (told.exchange_n, told.expires_at) in traces
        own.n, own.expires_at = told.exchange_n, told.expires_at

    def rescue(self, most: int) -> None:
        rescued = self.ledger.rescue(most=most)
        lost = self.model.lost()
        assert set(rescued) <= lost
        assert len(rescued) == len(set(rescued)) == min(most, len(lost))
        for task_id in rescued:
            self.model.rescue(task_id)
        self._tell()

    def act(self, verb: str, targets: Sequence[str], action: Action, result_blob: str | None = None) -> None:
        answer = self._acted(verb, targets, action, result_blob)
        expected = self.model.act(verb, targets, action, result_blob)
        assert [acted.id for acted in answer] == list(targets)
        assert [acted.outcome for acted in answer] == expected
        self._tell()

    def _acted(self, verb: str, targets: Sequence[str], action: Action, result_blob: str | None) -> list[Acted]:
        if verb == "lose_result":
            return [self.ledger.lose_result(targets[0], result_blob, action)]
        if verb == "cancel":
            return self.ledger.cancel(targets, action)
        if verb == "delete":
            return self.ledger.delete(targets, action)
        return self.ledger.retry(targets, action, force=verb == "force")

    def pause(self, lane: str, action: Action, until: float | None) -> None:
        assert self.ledger.pause(lane, action, until=until) == Acted(lane, "done")
        self.model.pause(lane, action, until)

    def resume(self, lane: str, action: Action) -> None:
        assert self.ledger.resume(lane, action) == Acted(lane, "done")
        self.model.resume(lane, action)

    def ahead(self, task_id: str) -> None:
        """The order among equals is not promised, so that only the bounds are known of one that is in line."""
        told = self.ledger.ahead(task_id).task_count
        row = self.model.tasks.get(task_id)
        if row is None or row.status is not Status.PENDING:
            assert told == 0
            return
        others = [other for other in self.model.in_line(row.new.lane) if other is not row]
        assert 0 <= told <= len(others)
        if row.available_at > self.model.now:
            assert told == len(others)

    def _tell(self) -> None:
        """A job that ends has left its callback in the same step."""
        if self.model.to_tell:
            listed = self.ledger.list_tasks(Query(kind=CALLBACK, size=MAX_PAGE)).items
            found = [self.ledger.get(task.id) for task in listed if task.id not in self.model.tasks]
            assert [*self.model.told([(task, _what(task)) for task in found if task is not None])] == []

    def prune(self, older_than_s: Mapping[Status, float], action: Action) -> None:
        assert self.ledger.prune(older_than_s, action) == self.model.prune(older_than_s)

    def compare(self) -> None:
        """All that the ledger holds is what the model holds, and sound in itself."""
        model = self.model
        contents = read(self.ledger)
        assert judged(contents) == []
        tasks = {task.id: task for task in contents.tasks}
        assert tasks.keys() == model.tasks.keys()
        for task_id, row in model.tasks.items():
            assert _told(tasks[task_id]) == _meant(row)
            history = contents.history[task_id]
            assert [(past.token, past.outcome, past.status, past.settled) for past in history] == row.past
        jobs = {job.id: job for job in contents.jobs}
        assert jobs.keys() == model.jobs.keys()
        for job_id, job in jobs.items():
            assert _job_told(job) == self._job_meant(job_id)
        alive = {session.id for session in self.ledger.sessions()}
        assert alive == {session_id for session_id in model.sessions if model.alive(session_id)}
        assert {(used.meter, used.unit): used.amount for used in self.ledger.used()} == model.used
        assert [_lane_told(lane) for lane in self.ledger.lanes()] == model.lanes()
        audited = [row.id for row in self.ledger.audit(most=10_000)]
        assert len(audited) == len(set(audited))
        assert set(model.answers) <= set(audited)

    def _job_meant(self, job_id: str) -> tuple[object, ...]:
        job = self.model.jobs[job_id]
        chunks = [row.status for row in self.model.members(job_id) if row.new.role is Role.CHUNK]
        counts = tuple(chunks.count(status) for status in Status)
        merge_id = self.model.merge_id(job_id)
        return (job.status, job.generation, job.asked_to_end, job.finished_at, merge_id, len(chunks), counts)


def _what(task: Task) -> str:
    payload: Any = task.payload
    return str(payload["body"]["type"])


def _told(task: Task) -> tuple[object, ...]:
    running = task.status is Status.RUNNING
    return (
        (task.status, task.generation, task.claim_count, task.attempt_count),
        (task.retry_count, task.reschedule_count, task.lost_count, task.requested_retry_count),
        (task.finished_at, task.result_blob, task.available_at),
        (task.session_id, task.exchange_n, task.attempt_deadline_at, task.cancel_requested_at is not None)
        if running
        else None,
    )


def _meant(row: Row) -> tuple[object, ...]:
    running = row.status is Status.RUNNING
    return (
        (row.status, row.generation, row.token, len(row.past)),
        (row.retries, row.reschedules, row.lost, row.requested),
        (row.finished_at, row.result_blob, row.available_at),
        (row.holder, row.n, row.overdue_at, row.asked_to_end) if running else None,
    )


def _lane_told(lane: Lane) -> tuple[object, ...]:
    pause = (lane.paused_at, lane.paused_until, lane.note)
    return (lane.name, lane.kind, pause, (lane.ready_count, lane.later_count, lane.running_count))


def _job_told(job: Job) -> tuple[object, ...]:
    counts = (job.pending_count, job.running_count, job.completed_count, job.failed_count, job.canceled_count)
    asked = job.cancel_requested_at is not None
    return (job.status, job.generation, asked, job.finished_at, job.merge_id, job.chunk_count, counts)
