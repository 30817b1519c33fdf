"""Writes what came of a document in one of its formats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING

from forebay.blobs import BlobRef
from forebay.errors import BadInput, NotCompleted
from forebay.ids import printable
from forebay.model.job import Job
from forebay.pipelines.known import PIPELINES
from forebay.pipelines.pipeline import Output, Pipeline

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay


def checked(pipeline: Pipeline, formats: Sequence[str]) -> dict[str, Output]:
    """Each once, in the order they were given; BadInput for one that there is not."""
    unknown = [name for name in formats if name not in pipeline.outputs]
    if unknown or not formats:
        said = f"There is no format {printable(unknown[0])!r}." if unknown else "No format is given."
        raise BadInput(said, remedy=f"Formats are: {', '.join(pipeline.outputs)}.")
    return {name: pipeline.outputs[name] for name in formats}


def output_of(job: Job, form: str) -> Output:
    """BadInput if there is none in that format."""
    pipeline = PIPELINES.get(job.pipeline)
    if pipeline is None or job.document is None:
        raise BadInput(f"{job.id} is no job of a document.", remedy="Leave out --format.")
    return checked(pipeline, [form])[form]


@asynccontextmanager
async def merged(app: Forebay, job: Job) -> AsyncIterator[IO[bytes]]:
    """The result of a job, checked, to read from."""
    merge = None if job.merge_id is None else await asyncio.to_thread(app.ledger.get, job.merge_id)
    if merge is None or merge.result_blob is None:
        raise NotCompleted(f"Job {job.id} has no result.", remedy=f"`forebay why {job.id}` says why.")
    opening = app.blobs.open(BlobRef(job.tenant, merge.result_blob))
    file = await asyncio.to_thread(opening.__enter__)
    try:
        yield file
    finally:
        opening.__exit__(None, None, None)


async def write(app: Forebay, job: Job, result: IO[bytes], form: Output, output: IO[bytes]) -> None:
    await form.write(app.documents.pipeline.ground, job, result, output)
