"""Hands out results: whole or a range of them, in one of their formats, or what there is so far."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from itertools import groupby
from typing import IO, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from forebay.app import exporting
from forebay.app.finished import Finished
from forebay.app.plain import remedy
from forebay.errors import NotCompleted
from forebay.model import query
from forebay.model.job import Job
from forebay.model.task import Status
from forebay.pipelines.known import PIPELINES
from forebay.pipelines.pipeline import Output
from forebay.server import finding
from forebay.server.callers import Reader
from forebay.server.finding import Id
from forebay.server.problems import Refused
from forebay.server.queries import StrictRoute
from forebay.server.ranges import Piece, Wanted, piece_of
from forebay.server.service import Service, Serving
from forebay.server.shapes import answers

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=StrictRoute)
_PIECE = 256 * 1024
_TYPES = {"json": "application/json", "md": "text/markdown; charset=utf-8", "txt": "text/plain; charset=utf-8"}
_MOST_SAID = 4000
_BYTES = {"description": "The bytes.", "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}


@router.get(
    "/jobs/{id}/result",
    response_class=Response,
    responses=answers({200: _BYTES, 206: _BYTES, 304: None}, 401, 403, 404, 409, 416, 422, 500, 503),
)
async def result(
    *,
    service: Serving,
    caller: Reader,
    id: Id,  # noqa: A002 - as the path says
    format: Annotated[  # noqa: A002 - as the parameter is called
        str | None,
        Query(pattern=r"^[a-z0-9_.-]{1,64}$", description="Such as md, txt, json or pdf (default: json)."),
    ] = None,
    partial: Annotated[bool, Query(description="What there is so far, with its holes named.")] = False,
    range: Annotated[str | None, Header()] = None,  # noqa: A002 - same
    if_range: Annotated[str | None, Header()] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """What came of a job; its ETag stays the same until it is made again."""
    job = await finding.job(service, caller, id)
    wanted = Wanted(range, if_range, if_none_match)
    if job.pipeline not in PIPELINES or job.document is None:
        return await _value(service, job, wanted)
    form = format or "json"
    _, output = exporting.output_of(job, form)
    if job.status is Status.COMPLETED:
        return await _exported(service, job, form, output, wanted)
    if partial and (job.chunk_count or not job.status.terminal):
        return await _so_far(service, job, form, output)
    raise await _not_yet(service, job)


async def _exported(service: Service, job: Job, form: str, output: Output, wanted: Wanted) -> Response:
    merge = None if job.merge_id is None else await service.ask(service.app.ledger.get, job.merge_id)
    etag = f'"{merge.result_blob if merge else job.id}-{form}"'
    if wanted.known(etag):
        return Response(status_code=304, headers={"etag": etag})
    async with AsyncExitStack() as stack:
        draft: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack does
        async with exporting.merged(service.app, job) as merged:
            await exporting.write(service.app, job, merged, output, draft)
        return _handed_out(stack, draft, _headers(job, form, output, etag), wanted.range_of(etag))


async def _so_far(service: Service, job: Job, form: str, output: Output) -> Response:
    async with AsyncExitStack() as stack:
        draft: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack does
        async with exporting.so_far(service.app, job) as (merged, summary):
            await exporting.write(service.app, job, merged, output, draft)
        headers = {**_headers(job, form, output, ""), **_lacking(summary), "cache-control": "no-store"}
        return _handed_out(stack, draft, headers, None)


async def _not_yet(service: Service, job: Job) -> NotCompleted | Refused:
    if job.status.terminal:
        why = (job.error_text or "it has no result").rstrip(".")
        todo = "Add ?partial=1 for what was read of it, or retry it."
        if not job.chunk_count:
            todo = remedy(await service.ask(_cause, service, job)) or f"Retry it: POST /v1/jobs/{job.id}/retry."
        return NotCompleted(f"Job {job.id} is {job.status}: {why}.", remedy=todo)
    standing = await service.ask(service.app.standing, job.id)
    wait_s = min(3600, max(1, round(standing.end_eta_s or 5)))
    return Refused(
        NotCompleted.http_status,
        NotCompleted.code,
        f"Job {job.id} is {job.status}: it has no result yet.",
        remedy=f"GET /v1/jobs/{job.id}/why says what it waits for; ?partial=1 gives what there is.",
        headers={"retry-after": str(wait_s)},
    )


def _cause(service: Service, job: Job) -> str | None:
    """The job itself only says that its pipeline failed; the task that did knows why."""
    failed = service.app.ledger.list_tasks(query.Query(job_id=job.id, status=Status.FAILED, size=1)).items
    return failed[0].error_class if failed else job.error_class


async def _value(service: Service, job: Job, wanted: Wanted) -> Response:
    """Of a pipeline of your own: bytes as they are, anything else as JSON."""
    if not job.status.terminal:
        raise await _not_yet(service, job)
    finished: Finished = await service.ask(service.app.wait, job.id, timeout_s=0)
    value = finished.result
    etag = f'"{job.merge_id or job.id}"'
    if wanted.known(etag):
        return Response(status_code=304, headers={"etag": etag})
    headers = {"etag": etag, "accept-ranges": "bytes", "content-type": "application/json"}
    raw = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    if isinstance(value, bytes):
        headers |= {"content-type": "application/octet-stream", "content-disposition": "attachment"}
    piece = piece_of(wanted.range_of(etag), len(raw))
    return Response(raw[piece.start : piece.end], piece.status, {**headers, **piece.headers})


def _handed_out(stack: AsyncExitStack, draft: IO[bytes], headers: dict[str, str], wanted: str | None) -> Response:
    piece = piece_of(wanted, draft.seek(0, 2))
    return _Sent(_pieces(stack.pop_all(), draft, piece), piece.status, {**headers, **piece.headers})


class _Sent(StreamingResponse):
    """Closes what it reads from also when its client has gone."""

    async def stream_response(self, send: object) -> None:
        async with aclosing(self.body_iterator):  # type: ignore[type-var]  # made by `_pieces`
            await super().stream_response(send)  # type: ignore[arg-type]  # starlette's own


async def _pieces(stack: AsyncExitStack, draft: IO[bytes], piece: Piece) -> AsyncIterator[bytes]:
    async with stack:
        draft.seek(piece.start)
        left = piece.end - piece.start
        while left > 0 and (data := await asyncio.to_thread(draft.read, min(left, _PIECE))):
            left -= len(data)
            yield data


def _headers(job: Job, form: str, output: Output, etag: str) -> dict[str, str]:
    name = f"{(job.label or 'document').rpartition('.')[0] or job.label or 'document'}{output.suffix}"
    other = "application/pdf" if output.suffix.endswith(".pdf") else "application/octet-stream"
    made = {
        "content-type": _TYPES.get(form, other),
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
    }
    return {**made, "etag": etag, "accept-ranges": "bytes"} if etag else made


def _lacking(summary: Mapping[str, Any]) -> dict[str, str]:
    """Pages that are missing, and articles that are without language and tags."""
    found = {"forebay-holes": _spelled((hole["page_start"], hole["page_end"]) for hole in summary["holes"])}
    if "untagged" not in summary:
        return found
    runs = groupby(enumerate(summary["untagged"]), key=lambda each: each[1] - each[0])
    untagged = ([ordinal for _, ordinal in run] for _, run in runs)
    return {**found, "forebay-untagged": _spelled((run[0], run[-1]) for run in untagged)}


def _spelled(ranges: Iterable[tuple[int, int]]) -> str:
    """As many as a header may well have."""
    said = ",".join(f"{first}-{last}" for first, last in ranges)
    return said if len(said) <= _MOST_SAID else said[:_MOST_SAID].rpartition(",")[0]
