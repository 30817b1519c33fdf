from __future__ import annotations

import asyncio

import pytest
from fastapi import APIRouter, Request
from fastapi.routing import APIRoute

from forebay.server import jobs, submitting, tasks
from forebay.server.callers import Needs
from forebay.server.direct import direct
from forebay.server.problems import Refused

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
