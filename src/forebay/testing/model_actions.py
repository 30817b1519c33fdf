"""What people may ask of a ledger, in the simplest words: cancel, retry, redo, pause, delete, prune."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from forebay.clock import Clock
from forebay.model.exchange import Action
from forebay.model.task import Role, Status
from forebay.testing.model import HOPELESS, Group, Model, Rest, Row

MOST_REQUESTED = 3


class ActingModel(Model):
    """The model of a whole ledger."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.answers: dict[str, list[str]] = {}

    def act(self, verb: str, targets: Sequence[str], action: Action, result_blob: str | None = None) -> list[str]:
        """The outcome for each target; an action that was done before is only answered again."""
        verbs: dict[str, Callable[[str], str]] = {
            "cancel": self._cancel,
            "retry": self._retry,
            "force": lambda target: self._retry(target, force=True),
            "lose_result": lambda target: self._lose_result(target, result_blob),
            "delete": self._delete,
        }
        if action.id not in self.answers:
            answer = [verbs[verb](each) if self._known(each) else "not_found" for each in targets]
            self.answers[action.id] = answer
        return self.answers[action.id]

    def pause(self, lane: str, action: Action, until: float | None) -> None:
        if action.id not in self.answers:
            self.answers[action.id] = ["done"]
            before = self.resting().get(lane)
            self.pauses[lane] = Rest(before.since if before else self.now, until, action.note)

    def resume(self, lane: str, action: Action) -> None:
        if action.id not in self.answers:
            self.answers[action.id] = ["done"]
            self.pauses.pop(lane, None)

    def _known(self, target: str) -> bool:
        return target in self.hashes or target in self.tasks

    def _chosen(self, target: str) -> list[Row]:
        if target not in self.jobs:
            return [self.tasks[target]]
        return [row for row in self.members(target) if row.new.role is not Role.FOLLOW]

    def _cancel(self, target: str) -> str:
        head = self.jobs.get(target) or self.tasks[target]
        if head.status.terminal:
            return f"already_{head.status}"
        head.asked_to_end = True
        for row in [row for row in self._chosen(target) if row.open]:
            if row.status is Status.RUNNING:
                row.asked_to_end = True
            else:
                self.become(row, Status.CANCELED)
        return "done"

    def _retry(self, target: str, *, force: bool = False) -> str:
        undone = [row for row in self._chosen(target) if row.status in {Status.FAILED, Status.CANCELED}]
        again = [row for row in undone if row.new.role is not Role.MERGE]
        again = again or [row for row in undone if row.generation == self.jobs[row.unit].generation]
        if not again:
            return "not_retryable"
        failed = [] if force else [row for row in again if row.status is Status.FAILED]
        hopeless = [row for row in failed if row.error in HOPELESS]
        spent = [row for row in failed if row not in hopeless and row.requested >= MOST_REQUESTED]
        left = [row for row in again if row not in hopeless and row not in spent]
        goes_without = target in self.jobs and self.jobs[target].new.allow_holes
        if (hopeless or spent) and not (left and goes_without):
            return "RETRY_LIMIT_EXCEEDED" if spent else "not_retryable"
        for row in left:
            row.retries = 0
            row.requested = 0 if force else row.requested + (row.status is Status.FAILED)
        self._reopen(left)
        return "done"

    def _lose_result(self, target: str, result_blob: str | None) -> str:
        row = self.tasks.get(target)
        if row is None:
            return "not_found"
        old = row.new.role is Role.MERGE and row.generation != self.jobs[row.unit].generation
        if row.status is not Status.COMPLETED or row.result_blob != result_blob or old:
            return "changed"
        job = self.jobs.get(row.unit)
        to_end = job is not None and job.asked_to_end and job.status is not Status.COMPLETED
        if row.new.role is Role.SPLIT or (to_end and row.new.role is not Role.FOLLOW):
            return "not_retryable"
        self._reopen([row])
        return "done"

    def _reopen(self, rows: Sequence[Row]) -> None:
        job = self.jobs.get(rows[0].unit)
        if job and any(row.new.role is not Role.FOLLOW for row in rows):
            members = self.members(job.new.id)
            for merge in [row for row in members if row.new.role is Role.MERGE and row.open]:
                if merge.status is Status.RUNNING:
                    merge.asked_to_end = True
                else:
                    merge.status, merge.finished_at = Status.CANCELED, self.now
            running = any(row.status is Status.RUNNING for row in members if row.new.role is Role.CHUNK)
            job.status = Status.RUNNING if running else Status.PENDING
            job.generation += 1
            job.asked_to_end, job.finished_at = False, None
        for row in rows:
            if job and row.new.role is Role.MERGE:
                self.merge(job, row.requested)
                continue
            row.generation = job.generation if job else row.generation + 1
            row.reschedules = row.lost = 0
            row.available_at = self.now
            row.asked_to_end, row.result_blob, row.error = False, None, None
            self.become(row, Status.PENDING)

    def _delete(self, target: str) -> str:
        if target not in self.hashes:
            return "part_of_job"
        if any(row.status is Status.RUNNING for row in self.members(target)):
            return "running"
        self._remove(target)
        return "done"

    def _remove(self, unit: str) -> None:
        for row in self.members(unit):
            # Should it come back under its key, its tokens go on: an old lease must not fit the new task.
            self.tokens[row.new.id] = row.token
            del self.tasks[row.new.id]
        self.jobs.pop(unit, None)
        del self.hashes[unit]

    def prune(self, older_than_s: Mapping[Status, float]) -> int:
        heads: list[tuple[str, Row | Group]] = [(unit, self.jobs.get(unit) or self.tasks[unit]) for unit in self.hashes]
        old = [
            unit
            for unit, head in heads
            if head.status in older_than_s
            and head.finished_at is not None
            and head.finished_at < self.now - older_than_s[head.status]
            and all(row.status.terminal for row in self.members(unit))
        ]
        for unit in old:
            self._remove(unit)
        return len(old)
