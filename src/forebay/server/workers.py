"""Shows workers, and asks one to end: /v1/workers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse

from forebay.app.plain import plain
from forebay.model.exchange import Action
from forebay.model.key import Scope
from forebay.server import finding, paging
from forebay.server.bodies import JsonRoute
from forebay.server.callers import Caller, Needs, Overseer
from forebay.server.finding import Id
from forebay.server.service import Service, Serving
from forebay.server.shapes import ActedShape, Items, NoteOrder, answers

router = APIRouter(prefix="/v1", tags=["workers"], route_class=JsonRoute)


@router.get("/workers", responses=answers({200: Items}, 401, 403, 422, 503))
async def listing(service: Serving, _: Annotated[Caller, Depends(Needs(Scope.READ, everywhere=True))]) -> JSONResponse:
    """Workers that have not ended, and what each of them runs."""
    return JSONResponse(await service.ask(_workers, service))


def _workers(service: Service) -> dict[str, Any]:
    ledger = service.app.ledger
    found = sorted(ledger.sessions(), key=lambda session: (session.worker, session.opened_at))
    return paging.items({**plain(each), "running": [task.id for task in ledger.mine(each.id)]} for each in found)


@router.post(
    "/workers/{id}/drain",
    status_code=202,
    responses=answers({202: ActedShape}, 400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
)
async def drain(
    service: Serving,
    caller: Overseer,
    id: Id,  # noqa: A002 - as the path says
    order: NoteOrder | None = None,
) -> JSONResponse:
    """Ask a worker, by its session, to end: it finishes what runs and takes nothing more."""
    action = Action(who=caller.who, note=order.note if order else "")
    return JSONResponse(finding.acted([await service.ask(service.app.ledger.drain, id, action)], "worker"), 202)
