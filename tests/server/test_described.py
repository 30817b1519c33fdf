"""The running server keeps to its description, whatever it is asked: no 500, no status that is not in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from forebay.app.forebay import Forebay
from forebay.app.keys import create
from forebay.model.limit import Limit
from forebay.server.application import create_app
from forebay.server.shapes import Healthy
from tests.server.ground import DOCUMENT, NOBODY, PDF, Service, serving

CASES = 2000 if os.environ.get("FOREBAY_FUZZ") else 300
LEFT_OUT = {("GET", "/v1/events")}  # it has no end
OPERATIONS = [
    (method.upper(), path)
    for path, methods in create_app(Forebay("memory://")).openapi()["paths"].items()
    for method in methods
    if (method.upper(), path) not in LEFT_OUT
]
# What is right by its shape may still name a kind, a limit or a document that there is not. That keys count is tested
# below, for every operation: here a right key is put in place of what was made up.
LEFT_UNCHECKED = [positive_data_acceptance, ignored_auth]
OPEN = {"/livez", "/readyz", "/metrics"}
# Those take nothing that could be varied: the cases are for the others.
EACH = ceil(CASES / sum(path not in OPEN for _, path in OPERATIONS))


class Stage:
    """A server with something in it to ask for."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.headers = {"authorization": f"Bearer {create(service.app, 'all', ['admin']).token}"}
        service.app.limiter.define(Limit("api", in_flight=1000))
        self.schema = schemathesis.openapi.from_url(f"{service.base}/openapi.json")

    def known(self) -> dict[str, list[str]]:
        """Of a job that has ended, so that its events have an end, a task, a limit, and a place in its line."""
        job = self.service.submit(headers=self.headers, params={"reuse": "false"})
        self.service.app.cancel(job)
        task = self.service.post("/v1/tasks", json={"kind": "call"}, headers=self.headers).json()["id"]
        return {"id": [job, task], "name": ["api"], "index": ["0"], "place": ["job-1"]}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("described")
    with Forebay(f"sqlite:///{folder}/forebay.db", blobs=f"file://{folder}/blobs") as app, serving(app) as service:
        yield Stage(service)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[" ".join(each) for each in OPERATIONS])
def test_an_operation_answers_as_it_is_described(stage: Stage, method: str, path: str) -> None:
    assert ask(stage, method, path) >= (1 if path in OPEN else EACH)


def ask(stage: Stage, method: str, path: str) -> int:
    """How many cases there were."""
    operation = stage.schema[path][method]
    known = stage.known()
    asked = 0

    @settings(max_examples=EACH, deadline=None, suppress_health_check=[*HealthCheck])
    @given(case=operation.as_strategy(), data=st.data())
    def once(case: Any, data: st.DataObject) -> None:  # noqa: ANN401 - schemathesis' own
        nonlocal asked
        asked += 1
        for name in case.path_parameters or {}:
            if data.draw(st.booleans()):
                case.path_parameters[name] = data.draw(st.sampled_from(known[name]))
        if isinstance(case.body, dict) and "wait_s" in case.body:
            case.body["wait_s"] = 0
        case.call_and_validate(headers=stage.headers, excluded_checks=LEFT_UNCHECKED, timeout=10)

    once()
    return asked


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[" ".join(each) for each in OPERATIONS])
def test_an_operation_needs_a_key(stage: Stage, method: str, path: str) -> None:
    known = {name: found[0] for name, found in stage.known().items()}
    for headers in ({}, {"authorization": f"Bearer fb_{NOBODY}_{'a' * 43}"}):
        answer = stage.service.client.request(method, path.format(**known), headers=headers)
        assert answer.status_code == (200 if path in OPEN else 401), answer.text


def flawed(face: FastAPI) -> None:
    @face.get("/odd", responses={200: {"description": "fine"}})
    async def odd() -> Response:
        return Response(status_code=418)

    @face.get("/broken")
    async def broken() -> Response:
        raise RuntimeError("broken")

    @face.get("/shapeless", response_model=None, responses={200: {"model": Healthy}})
    async def shapeless() -> JSONResponse:
        return JSONResponse({"state": 1})


@pytest.mark.parametrize("path", ["/odd", "/broken", "/shapeless"])
def test_a_server_that_does_not_is_found_out(tmp_path: Path, path: str) -> None:
    with Forebay(f"sqlite:///{tmp_path}/forebay.db", blobs=f"file://{tmp_path}/blobs") as app:  # noqa: SIM117 - in order
        with serving(app, also=flawed) as service:
            stage = Stage(service)
            with pytest.raises(FailureGroup):
                ask(stage, "GET", path)


def test_there_is_something_to_ask_for(stage: Stage) -> None:
    assert len(OPERATIONS) > 25
    known = stage.known()["id"]
    assert stage.service.get(f"/v1/jobs/{known[0]}", headers=stage.headers).status_code == 200
    answer = stage.service.post("/v1/jobs", content=DOCUMENT, headers=PDF | stage.headers)
    assert answer.status_code == 202
