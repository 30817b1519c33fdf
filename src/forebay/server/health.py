"""Says whether the server lives and can serve, and hands out its metrics."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from forebay.app.forebay import Forebay
from forebay.blobs import BlobRef
from forebay.errors import ForebayError, StoreFull
from forebay.ids import LENGTH
from forebay.model.key import Scope
from forebay.model.task import DEFAULT_TENANT
from forebay.server.callers import Needs
from forebay.server.problems import problem
from forebay.server.service import Service, Serving
from forebay.server.shapes import Healthy, answers
from forebay.stores.access import check_not_migrated

_LEAST_FREE = 16 << 20
_NO_TASK = "a" * LENGTH
_NO_BLOB = BlobRef(DEFAULT_TENANT, "0" * 64)
_METRICS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus' text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


def router(*, loopback: bool) -> APIRouter:
    """Beyond loopback the metrics need the scope read, and no tenant: they count what all of them did."""
    made = APIRouter(tags=["health"])
    made.get("/livez", responses=answers({200: Healthy}))(livez)
    made.get("/readyz", responses=answers({200: Healthy}, 403, 503))(readyz)
    made.get(
        "/metrics",
        responses=answers(_METRICS, 401, 403, 404, 503),
        response_class=Response,
        dependencies=[] if loopback else [Depends(Needs(Scope.READ, everywhere=True))],
    )(metrics)
    return made


async def livez() -> JSONResponse:
    """Whether the process answers; it asks no store."""
    return JSONResponse({"status": "ok"})


async def readyz(service: Serving, request: Request) -> Response:
    """Whether its stores answer and have room; what does not is named. `warnings` names what does not run here."""
    checks = {"ledger": _ledger, "blobs": _blobs, "limits": _limits, "disk": _disk}
    found = await asyncio.gather(*(_trouble(service, check) for check in checks.values()))
    failed = {name: why for name, why in zip(checks, found, strict=True) if why is not None}
    if service.stopping.is_set():
        failed["server"] = "stopping"
    if await service.disk.still_full():
        failed["disk"] = StoreFull.code
    if not failed:
        warnings = await _warnings(service)
        return JSONResponse({"status": "degraded", "warnings": warnings} if warnings else {"status": "ok"})
    said = ", ".join(f"{name} ({why})" for name, why in failed.items())
    return problem(
        503,
        "not_ready",
        f"These checks fail: {said}.",
        request_id=request.scope["forebay_request_id"],
        remedy="`forebay doctor` on the server's machine says more.",
        retry_after=2,
        more={"checks": failed},
    )


async def _warnings(service: Service) -> dict[str, str]:
    """What does not keep the server from answering, but keeps some work from being done."""
    found = {}
    with suppress(ForebayError):
        found = await service.ask(_left_out, service.app)
    if service.worker_drained:
        found["worker"] = "The worker of this process was drained: it runs nothing more."
    return found


def _left_out(app: Forebay) -> dict[str, str]:
    limiter = app.limits.found()
    known = [] if limiter is None else limiter.names()
    missing = [kind for kind in app.registry if kind.optional and kind.limit is not None and kind.limit not in known]
    return {kind.name: f"It is left out: limit {kind.limit!r} is not defined." for kind in missing}


async def _trouble(service: Service, check: Callable[[Forebay], object]) -> str | None:
    """The code of what is wrong; its text may hold an address, which is not for everybody."""
    try:
        await service.ask(check, service.app)
    except ForebayError as error:
        return error.code
    return None


def _ledger(app: Forebay) -> object:
    check_not_migrated(app.ledger)
    return app.ledger.get(_NO_TASK)


def _blobs(app: Forebay) -> object:
    return app.blobs.exists(_NO_BLOB)


def _disk(app: Forebay) -> None:
    for place in app.own_folders():
        with suppress(OSError):  # if the folder is gone, its store says so
            if shutil.disk_usage(place).free < _LEAST_FREE:
                raise StoreFull("The disk is full.", remedy="Make room.")


def _limits(app: Forebay) -> object:
    limiter = app.limits.found()
    return limiter is None or limiter.names()


async def metrics(service: Serving, request: Request) -> Response:
    """Counts of this process, and gauges of the whole fleet from one process at a time."""
    if service.metrics is None:
        return problem(
            404,
            "no_metrics",
            "This server keeps no metrics.",
            request_id=request.scope["forebay_request_id"],
            remedy="Install 'forebay[metrics]' and start it again.",
        )
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest  # noqa: PLC0415 - an extra

    text = await asyncio.to_thread(generate_latest, service.metrics.registry)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
