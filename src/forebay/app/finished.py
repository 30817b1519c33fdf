"""What `wait` returns: how a task or a job ended, and its result."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.app.plain import remedy
from forebay.errors import NotCompleted
from forebay.model.job import Job
from forebay.model.payload import Json
from forebay.model.task import Status, Task


@dataclass(frozen=True, slots=True)
class Finished:
    """`result` raises NotCompleted, with the error it ended with, unless it was completed."""

    record: Task | Job
    _value: Json | bytes

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def status(self) -> Status:
        return self.record.status

    @property
    def error_class(self) -> str | None:
        return self.record.error_class

    @property
    def error_text(self) -> str | None:
        return self.record.error_text

    @property
    def result(self) -> Json | bytes:
        if self.status is Status.COMPLETED:
            return self._value
        what = "job" if isinstance(self.record, Job) else "task"
        why = f": {self.error_class}: {self.error_text}" if self.error_class else ""
        raise NotCompleted(f"The {what} {self.id} is {self.status}{why}.", remedy=remedy(self.error_class))
