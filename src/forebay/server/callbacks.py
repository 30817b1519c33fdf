"""Shows where callbacks go and what was sent there, sends again, and gives a new secret: /v1/callbacks."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from forebay.app.plain import plain
from forebay.model.callback import KIND, Endpoint
from forebay.server import finding, paging
from forebay.server.callers import Caller, Operator, Reader
from forebay.server.finding import Id
from forebay.server.problems import not_there
from forebay.server.queries import StrictRoute
from forebay.server.service import Service, Serving
from forebay.server.shapes import ActedShape, EndpointShape, Items, SecretShape, SubmittedShape, answers
from forebay.server.tasks import links

router = APIRouter(prefix="/v1", tags=["callbacks"], route_class=StrictRoute)
_BAD = (401, 403, 404, 409, 422, 503)


@router.get("/callbacks", responses=answers({200: Items}, 401, 403, 422, 503))
async def listing(service: Serving, caller: Reader) -> JSONResponse:
    """The URLs that callbacks go to."""
    found = await service.ask(service.app.callbacks.endpoints, tenant=caller.tenant)
    return JSONResponse(paging.items(map(plain, found)))


@router.get("/callbacks/{id}", responses=answers({200: EndpointShape}, *_BAD))
async def get(service: Serving, caller: Reader, id: Id) -> JSONResponse:  # noqa: A002 - as the path says
    """One of them, with the latest that was sent there."""
    endpoint = await _endpoint(service, caller, id)
    sent = await service.ask(service.app.callbacks.deliveries_of, endpoint)
    return JSONResponse({**plain(endpoint), "deliveries": [plain(each) for each in sent]})


@router.post("/callbacks/{id}/test", status_code=202, responses=answers({202: SubmittedShape}, *_BAD))
async def test(service: Serving, caller: Operator, id: Id) -> JSONResponse:  # noqa: A002 - as the path says
    """Send a callback there that says nothing but that it is a test."""
    endpoint = await _endpoint(service, caller, id)
    made = await service.ask(service.app.callbacks.test, endpoint)
    return JSONResponse({"id": made.id, "links": links(made.id)}, 202, {"location": links(made.id)["self"]})


@router.post("/callbacks/{id}/rotate", responses=answers({200: SecretShape}, *_BAD))
async def rotate(service: Serving, caller: Operator, id: Id) -> JSONResponse:  # noqa: A002 - as the path says
    """A new secret, shown this once; the one before signs as well for a day."""
    endpoint = await _endpoint(service, caller, id)

    def run() -> dict[str, Any]:
        rotated = service.app.callbacks.rotate(endpoint, who=caller.who)
        return {"id": rotated.id, "url": rotated.url, "secret": service.app.callbacks.secret(rotated)}

    return JSONResponse(await service.ask(run))


@router.post("/callbacks/{id}/resend", status_code=202, responses=answers({202: ActedShape}, *_BAD))
async def resend(service: Serving, caller: Operator, id: Id) -> JSONResponse:  # noqa: A002 - as the path says
    """Send a callback again that has failed for good, by its own id; its endpoint is enabled by it."""
    task = await finding.task(service, caller, id)
    if task.kind != KIND:
        raise not_there("callback", id)
    done = await service.ask(service.app.callbacks.resend, task.id, who=caller.who, tenant=task.tenant)
    return JSONResponse(finding.acted(done, "task"), 202)


async def _endpoint(service: Service, caller: Caller, identifier: str) -> Endpoint:
    found = await service.ask(service.app.ledger.endpoint, identifier)
    if found is None or not caller.sees(found.tenant):
        raise not_there("endpoint", identifier)
    return found
