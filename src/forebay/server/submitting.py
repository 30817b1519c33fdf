"""Hands in documents: POST /v1/jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from forebay import ids
from forebay.app.forebay import Forebay
from forebay.app.lost_results import redo_lost
from forebay.app.plain import plain
from forebay.callbacks import target
from forebay.engine.submission import CHUNK_OPTIONS
from forebay.errors import Conflict, StoreError
from forebay.model.job import NewJob
from forebay.model.names import check_label
from forebay.pipelines.pipeline import Pipeline
from forebay.server import orders
from forebay.server.callers import Caller, Submitter
from forebay.server.preferences import IdempotencyKey, Prefer, ended, wait_s
from forebay.server.problems import Refused
from forebay.server.queries import StrictRoute
from forebay.server.service import Service, Serving
from forebay.server.shapes import JobShape, SubmittedShape, answers
from forebay.server.uploads import Upload, received

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=StrictRoute)
_HELD_S = 15.0


@router.post(
    "/jobs",
    status_code=202,
    responses=answers({202: SubmittedShape, 201: JobShape}, 400, 401, 403, 404, 408, 409, 413, 415, 422, 503, 507),
    openapi_extra={"parameters": orders.PARAMETERS, "requestBody": orders.BODY},
)
async def submit(
    service: Serving,
    caller: Submitter,
    request: Request,
    prefer: Prefer = None,
    idempotency_key: IdempotencyKey = None,
) -> JSONResponse:
    """Hand in a document, as a form with one file or as the body itself; its job is made when all of it is stored."""
    said = dict(request.query_params)
    asked = orders.order_of(said, "query")
    _check_callback(service, asked.callback)
    if idempotency_key is not None:
        check_label("Idempotency-Key", idempotency_key)
    async with _alone(service, caller, idempotency_key) as still_here:
        chosen = partial(_pipeline, service, said)
        async with received(service, request, caller, chosen, still_here) as upload:
            if upload.fields:
                asked = orders.order_of(orders.merged(said, upload.fields), "form")
                _check_callback(service, upload.fields.get("callback"))
            made = partial(_made, service.app, upload, asked, caller.own_tenant, idempotency_key)
            if idempotency_key is None and asked.callback is None:
                # No store is asked, so that it cannot be silent: one thread does both.
                job = await service.take(_made_and_kept, made, upload)
            else:
                job = await service.ask(made)
                await service.take(upload.keep)
            done = await service.store(job)
            upload.allowance.settle(is_new=done.outcome != "existing")
            if done.outcome == "existing":
                # The same document brings back a result that is gone; that a store is silent is no reason to refuse it.
                with suppress(StoreError):
                    await service.ask(_redone, service.app, done.id, caller)
            service.disk.has_room()
    location = f"/v1/jobs/{done.id}"
    replayed = {"forebay-replayed": "true"} if done.outcome == "existing" else {}
    found = await ended(service, done.id, wait_s(prefer)) if wait_s(prefer) else None
    if found is not None:
        content: dict[str, Any] = {**plain(found), "links": links(done.id)}
        return JSONResponse(content, 201, {"location": location, "preference-applied": "wait"} | replayed)
    accepted = {"location": location, "retry-after": "1"} | replayed
    return JSONResponse({"id": done.id, "links": links(done.id)}, 202, accepted)


def _check_callback(service: Service, url: str | None) -> None:
    """By what the URL says itself: where its name leads is looked up when a callback is sent, and not told here."""
    if url is not None:
        target.read(url, service.app.callbacks.policy)


def _made(app: Forebay, upload: Upload, asked: orders.JobOrder, tenant: str, key: str | None) -> NewJob:
    """Its job, unless anything about it has to be refused."""
    callback = app.callbacks.of_job(
        asked.callback, each=asked.callback_each, results=asked.callback_results, tenant=tenant
    )
    return app.documents.received(
        upload.named(asked.name),
        processor=app.documents.chosen(asked.pipeline, asked.processor),
        options=asked.options,
        allow_holes=asked.allow_holes,
        reuse=asked.reuse,
        callback=callback,
        idempotency_key=key,
        tenant=tenant,
        priority=asked.priority,
        tags=tuple(asked.tags),
        **{name: value for name in CHUNK_OPTIONS if (value := getattr(asked, name)) is not None},
    )


def _redone(app: Forebay, job_id: str, caller: Caller) -> None:
    redo_lost(app, job_id, who=caller.who, tenant=caller.own_tenant, read=False)


def _made_and_kept(made: Callable[[], NewJob], upload: Upload) -> NewJob:
    """In this order: nothing may stay of a document that is refused."""
    job = made()
    upload.keep()
    return job


def _pipeline(service: Service, said: Mapping[str, str], fields: Mapping[str, str]) -> Pipeline:
    """The one that the query and the fields of a form choose."""
    asked = orders.order_of(orders.merged(said, fields), "form" if fields else "query")
    documents = service.app.documents
    return documents.pipeline.pipeline_of(documents.chosen(asked.pipeline, asked.processor))


def links(job_id: str) -> dict[str, str]:
    base = f"/v1/jobs/{job_id}"
    return {"self": base} | {name: f"{base}/{name}" for name in ("chunks", "result", "why", "events")}


@asynccontextmanager
async def _alone(service: Service, caller: Caller, key: str | None) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """While it is open nobody else is at work under the same key, on whatever server."""
    if key is None:
        yield _nothing
        return
    ledger, token = service.app.ledger, ids.random_id()
    lost = False

    async def begin() -> bool:
        return await service.ask(ledger.begin_request, caller.own_tenant, key, token, _HELD_S)

    async def keep() -> None:
        """However slowly bytes come: only a server that has died lets a key go before its time."""
        nonlocal lost
        while not lost:
            await asyncio.sleep(_HELD_S / 3)
            with suppress(StoreError):
                lost = not await begin()

    async def still_here() -> None:
        if lost:
            raise _running()

    if not await begin():
        raise _running()
    keeping = asyncio.create_task(keep())
    try:
        yield still_here
    finally:
        keeping.cancel()
        # It is given up in time anyway: what was stored must not look as if it had failed.
        with suppress(StoreError):
            await asyncio.shield(service.ask(ledger.end_request, caller.own_tenant, key, token))


def _running() -> Refused:
    """A server that was killed holds a key for no longer than this."""
    return Refused(
        Conflict.http_status,
        "request_running",
        "A request with this Idempotency-Key is still being read.",
        remedy="Ask again when it has been answered, or after Retry-After if its sender is gone.",
        headers={"retry-after": str(round(_HELD_S))},
        closing=True,
    )


async def _nothing() -> None:
    pass
