"""What a merge is given: a document's chunks with their results, or why they have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from forebay.blobs import BlobRef, Blobs
from forebay.engine.context import Context
from forebay.engine.signals import Permanent
from forebay.errors import NotCompleted, NotFound, ResultCorrupt
from forebay.model.job import Event, Job, member_id
from forebay.model.payload import Json
from forebay.model.task import Role, Status, Task
from forebay.pipelines import tracking
from forebay.pipelines.cutting import Order
from forebay.pipelines.ground import Ground
from forebay.pipelines.merging import Hole
from forebay.pipelines.part import Part
from forebay.rules.verdict import ErrorClass


class Lost(Exception):
    """A stored result that cannot be read, and how its job tells of it."""

    def __init__(self, task: Task, name: str, fields: dict[str, Json]) -> None:
        super().__init__(name)
        self.task = task
        self.event = Event(name=name, fields={"index": task.chunk_index, "expected": task.result_blob, **fields})


@dataclass(frozen=True, slots=True)
class Result:
    """A chunk that has pages of its own."""

    blobs: Blobs
    task: Task
    part: Part

    @property
    def document(self) -> str:
        return self.part.order.document

    @property
    def page_start(self) -> int:
        return self.part.pages[0]

    @property
    def page_end(self) -> int:
        return self.part.pages[1]

    @property
    def header(self) -> dict[str, Any]:
        said = self.task.result
        return said if isinstance(said, dict) else {}

    @property
    def hole(self) -> Hole | None:
        if self.task.status is Status.COMPLETED:
            return None
        return Hole(self.task.error_class or "unknown", self.task.error_text or "")

    def read(self) -> bytes:
        """Blocking; raises Lost."""
        try:
            return self.blobs.get(BlobRef(self.task.tenant, self.task.result_blob or ""))
        except ResultCorrupt as error:
            raise Lost(self.task, "chunk_result_checksum_mismatch", {"computed": error.computed}) from None
        except NotFound:
            raise Lost(self.task, "chunk_result_load_failed", {}) from None

    def unread(self) -> bytes:
        """Blocking; the pages as they were cut out of the document."""
        return self.blobs.get(BlobRef(self.task.tenant, self.task.payload_blob or ""))

    def __str__(self) -> str:
        return f"the chunk of pages {self.page_start} to {self.page_end}"


@dataclass(frozen=True, slots=True)
class Whole:
    """A document in its chunks, in no order, with what its split said of it; `lacking` by page, what is lost of it."""

    order: Order
    tenant: str
    page_count: int
    repaired: bool
    notes: list[str]
    lacking: dict[int, str]
    results: list[Result]


def whole(ground: Ground, ctx: Context, order: Order) -> Whole:
    """Blocking."""
    if ctx.job_id is None:
        raise Permanent("A merge is part of a job.", error_class=ErrorClass.BUG)
    split = ground.ledger().get(member_id(ctx.job_id, Role.SPLIT, 1))
    said: Any = split.result if split else None
    if not isinstance(said, dict):
        raise Permanent("The document was not split.", error_class=ErrorClass.BUG)
    return _whole(ground, order, ctx.tenant, said, ctx.chunks().tasks())


def so_far(ground: Ground, job: Job) -> Whole:
    """The same of a job that has not come to its merge: what is not done yet is a hole. Blocking."""
    split = ground.ledger().get(member_id(job.id, Role.SPLIT, 1))
    said: Any = split.result if split else None
    asked: Any = split.payload if split else None
    if not isinstance(said, dict) or not isinstance(asked, dict):
        raise NotCompleted(f"The document of job {job.id} is not split yet.", remedy="Ask again later.")
    return _whole(ground, Order(**asked["order"]), job.tenant, said, tasks_so_far(ground, job))


def tasks_so_far(ground: Ground, job: Job) -> Iterator[Task]:
    """Blocking; its chunks, those that have not ended with an error that says so."""
    for task in tracking.chunks(ground.ledger(), job.id):
        if task.status.terminal:
            yield task
        else:
            yield task._replace(error_class="not_yet", error_text="It is not done yet")


def _whole(ground: Ground, order: Order, tenant: str, said: dict[str, Any], tasks: Iterable[Task]) -> Whole:
    lacking = {number: what for what, numbers in said.get("lacking", {}).items() for number in numbers}
    notes = [str(note) for note in said["notes"]]
    if lacking:
        first = f"page {min(lacking)}"
        some = first if len(lacking) == 1 else f"{len(lacking)} pages, the first of them {first}"
        notes.append(f"something is lost of {some}")
    return Whole(
        order=order,
        tenant=tenant,
        page_count=int(said["pages"]),
        repaired=bool(said["repaired"]),
        notes=notes,
        lacking=lacking,
        results=list(results(ground, tasks)),
    )


def results(ground: Ground, tasks: Iterable[Task]) -> Iterator[Result]:
    """Blocking; of chunks of pages. Those that were replanned have no pages of their own; their pieces have."""
    for task in tasks:
        payload = task.payload
        if not isinstance(payload, dict):
            raise Permanent(f"Chunk {task.chunk_index} has no pages.", error_class=ErrorClass.BUG)
        if "pages" not in payload or "article" in payload:
            continue
        if task.status is not Status.COMPLETED or task.result_blob is not None:
            yield Result(ground.blobs(), task, Part.of(payload))
