"""What an attempt may ask of its worker, wherever its handler runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

from forebay.engine.content import Content
from forebay.engine.signals import Stopped
from forebay.errors import NotFound, ResultCorrupt
from forebay.model.exchange import Action, Progress, Usage
from forebay.model.job import Event
from forebay.model.payload import Json
from forebay.model.query import Query
from forebay.model.task import Role, Status, Task
from forebay.observe import emit
from forebay.stores.base import Ledger

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of the job that is being merged; without a result if it failed and holes are allowed."""

    index: int
    status: Status
    result: Json | bytes
    error_class: str | None
    error_text: str | None


class Desk(Protocol):
    """Blocking. One stands in the worker, beside the ledger; one in a handler child, at the other end of a socket."""

    def chunks(self, after: str | None) -> tuple[list[Task], str | None]:
        """A page of the job's chunks with their results, and the cursor of the next."""

    def lost(self, task_id: str, blob: str, told: Event | None = None) -> None:
        """Have a chunk done again whose stored result is missing or damaged; its job tells of it."""

    def progress(self, share: float, note: str) -> None: ...

    def used(self, usage: Usage) -> None: ...


class LedgerDesk:
    """Answers from the ledger."""

    def __init__(self, ledger: Ledger, task: Task, worker: str) -> None:
        self._ledger = ledger
        self._task = task
        self._worker = worker
        self.usage: list[Usage] = []
        self.reported: Progress | None = None

    def chunks(self, after: str | None) -> tuple[list[Task], str | None]:
        if self._task.job_id is None:
            return [], None
        page = self._ledger.list_tasks(Query(job_id=self._task.job_id, role=Role.CHUNK, after=after, size=_PAGE))
        return self._ledger.get_many([task.id for task in page.items]), page.next

    def lost(self, task_id: str, blob: str, told: Event | None = None) -> None:
        self._ledger.lose_result(task_id, blob, Action(who=self._worker, note="found while merging"), told=told)

    def progress(self, share: float, note: str) -> None:
        self.reported = Progress(self._task.id, self._task.claim_count, share, note)
        emit("task_progress", task_id=self._task.id, kind=self._task.kind, share=round(share, 4), note=note)

    def used(self, usage: Usage) -> None:
        self.usage.append(usage)


class Chunks:
    """The chunks of a job in order, read page by page: `for` in a plain handler, `async for` in an async one."""

    def __init__(self, desk: Desk, content: Content) -> None:
        self._desk = desk
        self._content = content

    def __iter__(self) -> Iterator[Chunk]:
        return map(self._chunk, self.tasks())

    def tasks(self) -> Iterator[Task]:
        """As they are stored, results that lie in a blob unread."""
        after: str | None = None
        while True:
            page, after = self._desk.chunks(after)
            yield from page
            if after is None:
                return

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        import asyncio  # noqa: PLC0415 - a handler child that never needs it does not pay for it

        after: str | None = None
        while True:
            page, after = await asyncio.to_thread(self._page, after)
            for chunk in page:
                yield chunk
            if after is None:
                return

    def _page(self, after: str | None) -> tuple[list[Chunk], str | None]:
        tasks, following = self._desk.chunks(after)
        return [self._chunk(task) for task in tasks], following

    def _chunk(self, task: Task) -> Chunk:
        try:
            result = self._content.result(task)
        except (ResultCorrupt, NotFound):
            # The chunk runs again and a new merge follows it: this one is over.
            self._desk.lost(task.id, task.result_blob or "")
            raise Stopped(f"the result of chunk {task.chunk_index} is lost") from None
        return Chunk(task.chunk_index or 0, task.status, result, task.error_class, task.error_text)


def packed(task: Task) -> list[Any]:
    return list(task)


def unpacked(fields: list[Any]) -> Task:
    task = Task._make(fields)
    return task._replace(status=Status(task.status), role=Role(task.role), tags=tuple(task.tags))


_TO_RUN = (
    "id", "kind", "tenant", "job_id", "chunk_index", "priority", "tags", "payload_blob", "timeout_s", "deadline_at",
    "retry_count", "reschedule_count", "claim_count", "attempt_count", "payload_json",
)  # fmt: skip
to_run = attrgetter(*_TO_RUN)
_BLANK = dict.fromkeys(Task._fields) | {"status": Status.RUNNING, "role": Role.LONE}


def runnable(fields: list[Any]) -> Task:
    """What `to_run` took: all that a handler sees of its task."""
    task = Task(**_BLANK | dict(zip(_TO_RUN, fields, strict=True)))  # type: ignore[arg-type]  # blanks stay unseen
    return task._replace(tags=tuple(task.tags))
