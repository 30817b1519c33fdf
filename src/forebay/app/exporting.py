"""Writes what came of a document in one of its formats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import IO, TYPE_CHECKING

from forebay.blobs import BlobRef
from forebay.engine.signals import Permanent, Retry
from forebay.errors import BadDocument, BadInput, ForebayError, NotCompleted, ParserUnavailable
from forebay.ids import printable
from forebay.model.job import Job
from forebay.model.payload import Json
from forebay.model.task import Task
from forebay.pipelines import whole
from forebay.pipelines.known import PIPELINES
from forebay.pipelines.pipeline import Output, Pipeline
from forebay.rules import verdict
from forebay.rules.verdict import ErrorClass

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay

_LATER = "Ask again in a moment; if it happens again, see that the machine has memory and room on its disk."


def checked(pipeline: Pipeline, formats: Sequence[str]) -> dict[str, Output]:
    """Each once, in the order they were given; BadInput for an unknown one."""
    unknown = [name for name in formats if name not in pipeline.outputs]
    if unknown or not formats:
        said = f"There is no format {printable(unknown[0])!r}." if unknown else "No format is given."
        raise BadInput(said, remedy=f"Formats are: {', '.join(pipeline.outputs)}.")
    return {name: pipeline.outputs[name] for name in formats}


def output_of(found: Job | Task, form: str) -> tuple[Job, Output]:
    """BadInput if there is none in that format."""
    pipeline = PIPELINES.get(found.pipeline) if isinstance(found, Job) else None
    if pipeline is None or not isinstance(found, Job) or found.document is None:
        known = dict.fromkeys(name for each in PIPELINES.values() for name in each.outputs)
        if form not in known:
            raise BadInput(f"There is no format {printable(form)!r}.", remedy=f"Formats are: {', '.join(known)}.")
        raise BadInput(f"{found.id} is not a job of a document.", remedy="Leave out the format.")
    return found, checked(pipeline, [form])[form]


@asynccontextmanager
async def merged(app: Forebay, job: Job) -> AsyncIterator[IO[bytes]]:
    """The result of a job, checked, to read from."""
    merge = None if job.merge_id is None else await asyncio.to_thread(app.ledger.get, job.merge_id)
    if merge is None or merge.result_blob is None:
        raise NotCompleted(f"Job {job.id} has no result.", remedy=f"`forebay why {job.id}` says why.")
    async with _opened(app, BlobRef(job.tenant, merge.result_blob)) as file:
        yield file


@asynccontextmanager
async def _opened(app: Forebay, ref: BlobRef) -> AsyncIterator[IO[bytes]]:
    opening = app.blobs.open(ref)
    file = await asyncio.to_thread(opening.__enter__)
    try:
        yield file
    finally:
        opening.__exit__(None, None, None)


@asynccontextmanager
async def so_far(app: Forebay, job: Job) -> AsyncIterator[tuple[IO[bytes], Mapping[str, Json]]]:
    """What there is of a document whose job has not ended well, and its summary, which says what is missing."""
    try:
        with _answered():
            made = await PIPELINES[job.pipeline].so_far(app.documents.pipeline.ground, job)
    except whole.Lost as lost:
        raise NotCompleted(
            f"The result of chunk {lost.task.chunk_index} of job {job.id} is lost.",
            remedy=f"Run it again: `forebay retry {job.id}`.",
        ) from None
    async with _opened(app, BlobRef(job.tenant, made.blob)) as file:
        yield file, made.summary


async def write(app: Forebay, job: Job, result: IO[bytes], form: Output, output: IO[bytes]) -> None:
    with _answered():
        await form.write(app.documents.pipeline.ground, job, result, output)


@contextmanager
def _answered() -> Iterator[None]:
    """What a parser raises is for tasks; a caller that asks for an output gets its class. A bug stays one."""
    try:
        yield
    except (Retry, Permanent) as error:
        if error.error_class is ErrorClass.BUG:
            raise
        raise _failed(error) from None


def _failed(error: Retry | Permanent) -> ForebayError:
    what, consequence = printable(error.text), verdict.of(error.error_class)
    if consequence.retryable and consequence.exit_code != BadDocument.exit_code:
        return ParserUnavailable(what, remedy=_LATER)
    return BadDocument(what, remedy=consequence.remedy, error_class=error.error_class)
