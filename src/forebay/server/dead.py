"""Dead letters: failed tasks, kept until somebody runs them again or drops them."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from forebay.app.plain import plain
from forebay.model import query
from forebay.model.task import Status, Task
from forebay.server import finding, paging
from forebay.server.bodies import JsonRoute
from forebay.server.callers import Caller, Operator, Reader
from forebay.server.finding import Id
from forebay.server.problems import Refused
from forebay.server.service import Service, Serving
from forebay.server.shapes import ActedShape, RetryOrder, TaskPage, answers

router = APIRouter(prefix="/v1", tags=["dead letters"], route_class=JsonRoute)


@router.get("/dead", responses=answers({200: TaskPage}, 400, 401, 403, 422, 503))
async def listing(
    service: Serving, caller: Reader, cursor: paging.Cursor = None, limit: paging.Limit = paging.PAGE
) -> JSONResponse:
    """Failed tasks, newest first."""
    wanted = query.Query(
        status=Status.FAILED, tenant=caller.tenant, after=paging.after(cursor, caller, "dead"), size=limit
    )
    page = await service.ask(service.app.ledger.list_tasks, wanted)
    return JSONResponse(paging.answer(page, caller, "dead", plain))


@router.post(
    "/dead/{id}/requeue",
    status_code=202,
    responses=answers({202: ActedShape}, 400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
)
async def requeue(
    service: Serving,
    caller: Operator,
    id: Id,  # noqa: A002 - as the path says
    order: RetryOrder | None = None,
) -> JSONResponse:
    """Run it again."""
    task = await _dead(service, caller, id)
    asked = order or RetryOrder(note="")
    done = await service.ask(
        service.app.retry, task.id, force=asked.force, who=caller.who, note=asked.note, tenant=task.tenant
    )
    return JSONResponse(finding.acted(done, "task"), 202)


@router.delete("/dead/{id}", status_code=204, responses=answers({204: None}, 401, 403, 404, 409, 422, 503))
async def drop(service: Serving, caller: Operator, id: Id) -> Response:  # noqa: A002 - as the path says
    """Delete it with its evidence; a chunk goes with its job."""
    task = await _dead(service, caller, id)
    finding.acted(await service.ask(service.app.delete, task.id, who=caller.who, tenant=task.tenant), "task")
    return Response(status_code=204)


async def _dead(service: Service, caller: Caller, identifier: str) -> Task:
    task = await finding.task(service, caller, identifier)
    if task.status is not Status.FAILED:
        what = f"Task {task.id} is {task.status}, not a dead letter."
        raise Refused(409, "not_dead", what, remedy="GET /v1/dead lists dead letters.")
    return task
