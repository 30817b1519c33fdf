"""Tells what happens while it happens, by server-sent events: in one job, or in all of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse

from forebay.app.plain import plain
from forebay.model.job import Event
from forebay.server import finding
from forebay.server.callers import Caller, Reader
from forebay.server.finding import Id
from forebay.server.listeners import Listeners, Presence
from forebay.server.queries import StrictRoute
from forebay.server.service import Service, Serving
from forebay.server.shapes import answers
from forebay.server.watching import Watcher

router = APIRouter(prefix="/v1", tags=["events"], route_class=StrictRoute)
_COME_BACK = "retry: 2000\n\n"
_HEARTBEAT = ": still here\n\n"
_STREAM = {
    "description": "A stream that goes on until the job has ended.",
    "content": {"text/event-stream": {"example": 'id: 3\nevent: chunk_completed\ndata: {"index": 0}\n\n'}},
}
Present = Callable[[asyncio.Event], AbstractContextManager[Presence]]
LastEventId = Annotated[
    str | None, Header(max_length=64, description="The id of the last event that came; those after it follow.")
]


@router.get(
    "/jobs/{id}/events",
    response_class=StreamingResponse,
    responses=answers({200: _STREAM, 204: None}, 401, 403, 404, 422, 429, 503),
)
async def of_job(
    service: Serving,
    caller: Reader,
    request: Request,
    id: Id,  # noqa: A002 - as the path says
    last_event_id: LastEventId = None,
) -> Response:
    """Each event of a job, numbered from 1; 204 if it has ended and nothing is left to tell."""
    job = await finding.job(service, caller, id)
    after = _number(last_event_id)
    if job.status.terminal and after >= job.event_count:
        return Response(status_code=204)
    watcher: Watcher = request.app.state.watcher
    return _stream(_of_job(service, watcher, _present(request, caller), job.id, after))


@router.get("/events", response_class=StreamingResponse, responses=answers({200: _STREAM}, 401, 403, 422, 429, 503))
async def of_all(service: Serving, caller: Reader, request: Request) -> Response:
    """The latest jobs as they are, and then those that changed, at most a few times a second.

    Who comes back gets them as they are again, so that nothing is missed.
    """
    watcher: Watcher = request.app.state.watcher
    return _stream(_of_all(service, watcher, _present(request, caller), caller.tenant))


def _present(request: Request, caller: Caller) -> Present:
    """Refused if there is no room for another one who listens."""
    listeners: Listeners = request.app.state.listeners
    listeners.check_room(caller)
    return partial(listeners.present, caller)


def _stream(pieces: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(
        pieces, media_type="text/event-stream", headers={"cache-control": "no-store", "x-accel-buffering": "no"}
    )


async def _of_job(service: Service, watcher: Watcher, present: Present, job_id: str, after: int) -> AsyncIterator[str]:
    with watcher.following(job_id, after) as follower, present(follower.told) as presence:
        yield _COME_BACK
        while not service.stopping.is_set():
            if not await _told(service, follower.told):
                yield _HEARTBEAT
                continue
            if presence.over:
                return
            news = follower.take()
            yield "".join(map(_written, news.events))
            if news.over:
                yield "event: end\ndata: {}\n\n"
                return


async def _of_all(service: Service, watcher: Watcher, present: Present, tenant: str | None) -> AsyncIterator[str]:
    with watcher.overlooking(tenant) as overview, present(overview.told) as presence:
        yield _COME_BACK
        while not service.stopping.is_set():
            if not await _told(service, overview.told):
                yield _HEARTBEAT
                continue
            if presence.over:
                return
            number, text = overview.take()
            yield f"id: {number}\nevent: jobs\ndata: {text}\n\n"


async def _told(service: Service, told: asyncio.Event) -> bool:
    """False when it is time for a heartbeat."""
    waiting = {asyncio.ensure_future(told.wait()), asyncio.ensure_future(service.stopping.wait())}
    try:
        await asyncio.wait(waiting, timeout=service.heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    return told.is_set()


def _written(event: Event) -> str:
    return f"id: {event.number}\nevent: {event.name}\ndata: {_json(plain(event))}\n\n"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(last_event_id: str | None) -> int:
    """What is no number of ours is as if nothing had come."""
    said = last_event_id or ""
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 10 else 0  # noqa: PLR2004 - digits
