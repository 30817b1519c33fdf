from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import httpx2
import pytest
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Query, Request, Security
from fastapi.requests import HTTPConnection
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import SecurityScopes
from pydantic import BaseModel

from forebay.model.key import Scope
from forebay.server import jobs, submitting, tasks
from forebay.server.callers import Caller, Needs
from forebay.server.direct import direct
from forebay.server.problems import Refused
from forebay.server.queries import StrictRoute
from forebay.server.service import Serving

ID = "a" * 26


def route(router: APIRouter, path: str, method: str) -> APIRoute:
    routes = (each for each in router.routes if isinstance(each, APIRoute))
    return next(each for each in routes if each.path == path and method in (each.methods or ()))


def asked(path_params: dict[str, str], query: bytes = b"") -> Request:
    scope = {"type": "http", "query_string": query, "headers": [], "path_params": path_params}
    return Request(scope)


@pytest.mark.parametrize(
    ("router", "path", "method"),
    [
        (jobs.router, "/v1/jobs/{id}", "GET"),
        (submitting.router, "/v1/jobs", "POST"),
        (tasks.router, "/v1/tasks/{id}", "GET"),
    ],
)
def test_the_requests_that_come_most_often_are_answered_without_the_solver(
    router: APIRouter, path: str, method: str
) -> None:
    assert direct(route(router, path, method)) is not None


def test_an_endpoint_that_takes_a_body_is_left_to_the_solver() -> None:
    assert direct(route(jobs.router, "/v1/jobs/{id}/retry", "POST")) is None


@pytest.mark.parametrize(
    ("path", "request_"),
    [("/v1/jobs/{id}", asked({"id": "not an id"})), ("/v1/jobs/{id}", asked({})), ("/v1/jobs", asked({}, b"limit=1"))],
)
def test_what_is_not_valid_or_has_a_query_is_left_to_the_solver(
    monkeypatch: pytest.MonkeyPatch, path: str, request_: Request
) -> None:
    found = direct(route(jobs.router, path, "GET"))
    assert found is not None
    monkeypatch.setattr(found, "_dependencies", [])
    assert asyncio.run(found.answer(request_)) is None


def test_the_caller_is_asked_for_before_the_endpoint_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: Needs, __: Request) -> None:
        raise Refused(401, "no_key", "no")

    monkeypatch.setattr(Needs, "__call__", refuse)
    found = direct(route(jobs.router, "/v1/jobs/{id}", "GET"))
    assert found is not None
    monkeypatch.setattr(found, "_dependencies", [each for each in found._dependencies if isinstance(each[1], Needs)])
    with pytest.raises(Refused):
        asyncio.run(found.answer(asked({"id": ID})))


async def refuse(request: Request) -> None:
    raise HTTPException(403)


class NeedsMore(Needs):
    async def __call__(self, request: Request, more: str = "") -> Caller:
        raise HTTPException(403)


async def plain(service: Serving, request: Request, prefer: Annotated[str | None, Header()] = None) -> JSONResponse:
    return JSONResponse({})


async def takes_the_connection(connection: HTTPConnection) -> JSONResponse:
    return JSONResponse(connection.url.path)


async def takes_scopes(scopes: SecurityScopes) -> JSONResponse:
    return JSONResponse(scopes.scopes)


async def makes_its_default(tags: Annotated[list[str], Query(default_factory=list)]) -> JSONResponse:
    return JSONResponse(tags)


async def shares_its_default(tags: Annotated[list[str], Query()] = []) -> JSONResponse:  # noqa: B006 - the point
    return JSONResponse(tags)


async def takes_headers(etag: Annotated[str | list[str], Header()] = "") -> JSONResponse:
    return JSONResponse(etag)


class Wanted(BaseModel):
    kind: str = "any"


async def takes_a_model(wanted: Annotated[Wanted, Query()] = Wanted()) -> JSONResponse:  # noqa: B008 - FastAPI's way
    return JSONResponse(wanted.kind)


async def takes_a_caller_that_needs_more(caller: Annotated[Caller, Depends(NeedsMore(Scope.READ))]) -> JSONResponse:
    return JSONResponse(caller.who)


async def takes_a_caller_by_scopes(
    caller: Annotated[Caller, Security(Needs(Scope.READ), scopes=["read"])],
) -> JSONResponse:
    return JSONResponse(caller.who)


async def answers_data() -> Any:  # noqa: ANN401 - the point
    return {}


def blocks() -> JSONResponse:
    return JSONResponse({})


def test_a_plain_endpoint_needs_no_solver() -> None:
    assert direct(APIRoute("/", plain)) is not None


@pytest.mark.parametrize(
    "endpoint",
    [
        takes_the_connection,
        takes_scopes,
        makes_its_default,
        shares_its_default,
        takes_headers,
        takes_a_model,
        takes_a_caller_that_needs_more,
        takes_a_caller_by_scopes,
        answers_data,
        blocks,
    ],
)
def test_what_only_the_solver_handles_is_left_to_it(endpoint: Callable[..., Any]) -> None:
    assert direct(APIRoute("/", endpoint, response_model=None)) is None


def test_what_a_later_solver_gives_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = APIRoute("/", plain)
    monkeypatch.setattr(found.dependant, "websocket_param_name", "socket")
    assert direct(found) is None


@pytest.mark.parametrize("dependency", [refuse, NeedsMore(Scope.READ)])
@pytest.mark.parametrize("place", ["route", "router", "inclusion", "nowhere"])
def test_a_dependency_without_a_name_refuses(dependency: Callable[..., Any], place: str) -> None:
    refusing = [Depends(dependency)]
    router = APIRouter(route_class=StrictRoute, dependencies=refusing if place == "router" else None)

    @router.get("/kept", dependencies=refusing if place == "route" else None)
    async def kept() -> JSONResponse:
        return JSONResponse({})

    if place == "inclusion":
        app = FastAPI()
        app.include_router(router, dependencies=refusing)
    else:
        app = FastAPI(routes=router.routes)

    async def ask() -> int:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://test") as client:
            return (await client.get("/kept")).status_code

    assert asyncio.run(ask()) == (200 if place == "nowhere" else 403)
