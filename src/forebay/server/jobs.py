"""Looks at jobs and acts on them: everything under /v1/jobs but their results and events."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse

from forebay.app.plain import plain, plain_open, plain_row, plain_standing
from forebay.model import query
from forebay.model.job import Job
from forebay.model.key import Scope
from forebay.model.task import Role, Status
from forebay.pipelines.pipeline import OCR
from forebay.server import finding, paging
from forebay.server.bodies import JsonRoute
from forebay.server.callers import Caller, Operator, Reader, Submitter
from forebay.server.finding import Id
from forebay.server.service import Service, Serving
from forebay.server.shapes import (
    ActedShape,
    JobPage,
    JobShape,
    NoteOrder,
    RetryOrder,
    TaskPage,
    TaskShape,
    WhyShape,
    answers,
)
from forebay.server.submitting import links

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=JsonRoute)
_READS = (401, 403, 404, 422, 503)
_ACTS = (400, 401, 403, 404, 408, 409, 413, 415, 422, 503)
StatusFilter = Annotated[Status | None, Query(description="Only this status.")]


def shown(job: Job) -> dict[str, Any]:
    return {**plain(job), "links": links(job.id)}


@router.get("/jobs", responses=answers({200: JobPage}, 400, 401, 403, 422, 503))
async def listing(
    *,
    service: Serving,
    caller: Reader,
    status: StatusFilter = None,
    pipeline: Annotated[str | None, Query(pattern=r"^[a-z0-9_.-]{1,64}$", description="Only this pipeline.")] = None,
    tag: Annotated[str | None, Query(max_length=200, description="Only what carries this tag.")] = None,
    cursor: paging.Cursor = None,
    limit: paging.Limit = paging.PAGE,
) -> JSONResponse:
    """Jobs, newest first."""
    wanted = query.Query(
        status=status,
        kind=pipeline,
        tag=tag,
        tenant=caller.tenant,
        after=paging.after(cursor, caller, "jobs"),
        size=limit,
    )
    page = await service.ask(service.app.ledger.list_jobs, wanted)
    return JSONResponse(paging.answer(page, caller, "jobs", shown))


@router.get("/jobs/{id}", responses=answers({200: JobShape}, *_READS))
async def get(service: Serving, caller: Reader, id: Id) -> JSONResponse:  # noqa: A002 - as the path says
    """How a job stands."""
    return JSONResponse(shown(await finding.job(service, caller, id)))


@router.get("/jobs/{id}/chunks", responses=answers({200: TaskPage}, 400, *_READS))
async def chunks(
    *,
    service: Serving,
    caller: Reader,
    id: Id,  # noqa: A002 - as the path says
    status: StatusFilter = None,
    cursor: paging.Cursor = None,
    limit: paging.Limit = paging.PAGE,
) -> JSONResponse:
    """Its chunks, in the order they were made, with why they wait."""
    job = await finding.job(service, caller, id)
    noun = f"chunks of {job.id}"
    wanted = query.Query(
        job_id=job.id, role=Role.CHUNK, status=status, after=paging.after(cursor, caller, noun), size=limit
    )
    return JSONResponse(await service.ask(_chunks, service, caller, wanted, noun))


def _chunks(service: Service, caller: Caller, wanted: query.Query, noun: str) -> dict[str, Any]:
    look = service.app.look()
    page = service.app.ledger.list_tasks(wanted)
    return paging.answer(page, caller, noun, lambda task: plain_row(task, look.glance(task)))


@router.get("/jobs/{id}/chunks/{index}", responses=answers({200: TaskShape}, *_READS))
async def chunk(
    service: Serving,
    caller: Reader,
    id: Id,  # noqa: A002 - as the path says
    index: Annotated[int, Path(ge=0, le=1_000_000_000, description="Counted from 0: the `chunk_index`.")],
) -> JSONResponse:
    """One chunk: its record, and with its payload the article of `segment`; of `ocr` its text, boxes and confidence."""
    job = await finding.job(service, caller, id)
    return JSONResponse(await service.ask(_chunk, service, job, index))


def _chunk(service: Service, job: Job, index: int) -> dict[str, Any]:
    task = service.app.chunk(job.id, index)
    found = plain_open(task, service.app.look().standing(task))
    if task.result_blob is not None and task.kind.startswith(f"{OCR}."):
        found["result"] = {**asdict(service.app.chunk_result(job.id, index))}
    return {**found, "links": {"self": f"/v1/jobs/{job.id}/chunks/{index}", "job": f"/v1/jobs/{job.id}"}}


@router.get("/jobs/{id}/why", responses=answers({200: WhyShape}, *_READS))
async def why(service: Serving, caller: Reader, id: Id) -> JSONResponse:  # noqa: A002 - as the path says
    """Why it does not run now, and when it will: the same that `forebay why` says."""
    job = await finding.job(service, caller, id)
    standing = await service.ask(service.app.standing, job.id)
    if caller.tenant is not None or not caller.may(Scope.OPERATE):
        standing = replace(standing, reasons=tuple(reason.without_operator() for reason in standing.reasons))
    return JSONResponse(plain_standing(standing))


@router.post("/jobs/{id}/retry", status_code=202, responses=answers({202: ActedShape}, *_ACTS))
async def retry(
    service: Serving,
    caller: Operator,
    id: Id,  # noqa: A002 - as the path says
    order: RetryOrder | None = None,
) -> JSONResponse:
    """Run again what failed or was canceled in it, or make its lost result again; what is done is kept."""
    job = await finding.job(service, caller, id)
    asked = order or RetryOrder(note="")
    done = await service.ask(
        service.app.retry, job.id, force=asked.force, who=caller.who, note=asked.note, tenant=job.tenant
    )
    return JSONResponse(finding.acted(done, "job"), 202)


@router.post("/jobs/{id}/cancel", status_code=202, responses=answers({202: ActedShape}, *_ACTS))
async def cancel(
    service: Serving,
    caller: Submitter,
    id: Id,  # noqa: A002 - as the path says
    order: NoteOrder | None = None,
) -> JSONResponse:
    """What waits is canceled at once, what runs is asked to stop."""
    job = await finding.job(service, caller, id)
    note = order.note if order else ""
    done = await service.ask(service.app.cancel, job.id, who=caller.who, note=note, tenant=job.tenant)
    return JSONResponse(finding.acted(done, "job"), 202)


@router.delete("/jobs/{id}", status_code=204, responses=answers({204: None}, 401, 403, 404, 409, 422, 503))
async def delete(service: Serving, caller: Operator, id: Id) -> Response:  # noqa: A002 - as the path says
    """Delete a job with its history, and what is remembered of its document; cancel it first if it runs."""
    job = await finding.job(service, caller, id)
    finding.acted(await service.ask(service.app.delete, job.id, who=caller.who, tenant=job.tenant), "job")
    return Response(status_code=204)
