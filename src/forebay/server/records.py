"""What was done and what was used: /v1/audit and /v1/usage."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from forebay.app.plain import plain
from forebay.server import paging
from forebay.server.callers import Admin, Reader
from forebay.server.queries import StrictRoute
from forebay.server.service import Serving
from forebay.server.shapes import Items, answers

router = APIRouter(prefix="/v1", tags=["records"], route_class=StrictRoute)
_LAST_INSTANT = 253_402_300_799


@router.get("/audit", responses=answers({200: Items}, 401, 403, 422, 503))
async def audit(service: Serving, _: Admin, limit: paging.Limit = paging.PAGE) -> JSONResponse:
    """The latest actions of people and programs, newest first."""
    return JSONResponse(paging.items(map(plain, await service.ask(service.app.ledger.audit, most=limit))))


@router.get("/usage", responses=answers({200: Items}, 401, 403, 422, 503))
async def usage(
    service: Serving,
    caller: Reader,
    since: Annotated[float, Query(ge=0, le=_LAST_INSTANT, description="Seconds since 1970, UTC.")] = 0.0,
    days: Annotated[int | None, Query(ge=1, le=3660, description="Or so many days back.")] = None,
) -> JSONResponse:
    """What was consumed of metered services, summed by meter and unit."""
    start = since if days is None else time.time() - 86_400.0 * days
    found = await service.ask(service.app.ledger.used, tenant=caller.tenant, since=start)
    return JSONResponse(paging.items(map(plain, found)))
