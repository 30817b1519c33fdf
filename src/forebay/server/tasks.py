"""Submits and shows tasks that are no part of a document: /v1/tasks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from forebay.app.plain import plain, plain_open
from forebay.engine.submission import Options
from forebay.errors import StoreError
from forebay.model.callback import KIND
from forebay.model.exchange import Submitted
from forebay.model.names import kind_of
from forebay.model.task import Task
from forebay.pipelines.known import PIPELINES
from forebay.rules.fairness import key_within
from forebay.server import finding, paging
from forebay.server.bodies import JsonRoute
from forebay.server.callers import Caller, Reader, Submitter
from forebay.server.finding import Id
from forebay.server.preferences import IdempotencyKey
from forebay.server.problems import Refused
from forebay.server.service import Service, Serving
from forebay.server.shapes import Items, SubmittedShape, TaskOrder, TaskShape, answers

router = APIRouter(prefix="/v1", tags=["tasks"], route_class=JsonRoute)
_READS = (401, 403, 404, 422, 503)
_OPTIONS = sorted(Options.__annotations__.keys() - {"tenant"})


@router.post(
    "/tasks", status_code=202, responses=answers({202: SubmittedShape}, 400, 401, 403, 408, 413, 415, 422, 503)
)
async def submit(
    service: Serving, caller: Submitter, order: TaskOrder, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Store a task for a worker that runs its kind."""
    if order.kind.partition(".")[0] in {*PIPELINES, KIND}:
        raise Refused(
            422,
            "inner_kind",
            f"Tasks of the kind {order.kind} are parts of jobs.",
            remedy="Hand in a document: POST /v1/jobs.",
        )
    async with service.quotas.task(caller) as allowance:
        done = await service.ask(_submit, service, order, idempotency_key, caller)
        allowance.settle(is_new=done.outcome != "existing")
    location = f"/v1/tasks/{done.id}"
    headers = {"location": location}
    if done.outcome == "existing":
        headers["forebay-replayed"] = "true"
    answer: dict[str, Any] = {"id": done.id, "links": links(done.id)}
    # It is stored: that the store is silent now must not look as if it were not.
    with suppress(StoreError):
        if not await service.ask(_is_run, service, order.kind):
            answer["warnings"] = [
                f"No worker that is alive runs the kind {order.kind}: the task waits until one does. Check the name."
            ]
    return JSONResponse(answer, 202, headers)


def _is_run(service: Service, kind: str) -> bool:
    """Whether the application of this server or a worker that is alive knows the kind."""
    if any(each.name == kind for each in service.app.registry):
        return True
    return any(kind_of(lane) == kind for session in service.app.ledger.sessions() for lane in session.kinds)


def _submit(service: Service, order: TaskOrder, key: str | None, caller: Caller) -> Submitted:
    options: dict[str, Any] = {name: getattr(order, name) for name in _OPTIONS}
    given = {name: value for name, value in options.items() if value is not None}
    if order.fairness_key is not None and caller.tenant is not None:
        given["fairness_key"] = key_within(caller.tenant, order.fairness_key)
    return service.app.submit(order.kind, order.payload, idempotency_key=key, tenant=caller.own_tenant, **given)


def links(task_id: str) -> dict[str, str]:
    return {"self": f"/v1/tasks/{task_id}", "history": f"/v1/tasks/{task_id}/history"}


@router.get("/tasks/{id}", responses=answers({200: TaskShape}, *_READS))
async def get(service: Serving, caller: Reader, id: Id) -> JSONResponse:  # noqa: A002 - as the path says
    """How a task stands, with its payload and result."""
    task = await finding.task(service, caller, id)
    return JSONResponse(await service.ask(_shown, service, task))


def _shown(service: Service, task: Task) -> dict[str, Any]:
    return {**plain_open(task, service.app.look().standing(task)), "links": links(task.id)}


@router.get("/tasks/{id}/history", responses=answers({200: Items}, *_READS))
async def history(service: Serving, caller: Reader, id: Id) -> JSONResponse:  # noqa: A002 - as the path says
    """Each attempt that has ended; tracebacks are for operators, who have `forebay dead show`."""
    task = await finding.task(service, caller, id)
    found = await service.ask(service.app.history, task.id)
    return JSONResponse(paging.items({**plain(each), "traceback": None} for each in found))
