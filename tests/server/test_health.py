from __future__ import annotations

import asyncio
import errno
import re
import resource
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import httpx2
import pytest

from forebay.app.forebay import Forebay
from forebay.app.working import make_worker
from forebay.engine.context import Context
from forebay.engine.registry import Kind
from forebay.model.limit import Limit
from forebay.observe import emit
from forebay.observe.events import subscribe
from forebay.server import disk_room, uploads
from forebay.server.service import ANSWER_WITHIN_S
from tests.limits.ground import until
from tests.server.ground import DOCUMENT, NOBODY, PDF, Service, problem, serving


def test_it_says_that_it_lives_and_is_ready(service: Service) -> None:
    for path in ("/livez", "/readyz"):
        answer = service.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_readiness_names_the_check_that_fails(service: Service, tmp_path: Path) -> None:
    (tmp_path / "blobs").rename(tmp_path / "elsewhere")
    found = problem(service.get("/readyz"), 503, "not_ready")
    assert found["checks"] == {"blobs": "store_unreachable"}
    assert service.get("/livez").status_code == 200


def test_readiness_knows_a_disk_without_room(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert problem(service.get("/readyz"), 503, "not_ready")["checks"] == {"disk": "store_full"}
    usage.free = 1 << 30
    assert service.get("/readyz").status_code == 200


def test_readiness_finds_out_itself_that_a_store_has_room_again(service: Service) -> None:
    document = DOCUMENT + b"%" * 3_000_000
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, hard))
    try:
        problem(service.post("/v1/jobs", content=document, headers=PDF), 503, "store_full")
        for _ in range(3):
            assert problem(service.get("/readyz"), 503, "not_ready")["checks"] == {"disk": "store_full"}
            time.sleep(0.6)  # longer than the time between two probes, in all
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    until(lambda: service.get("/readyz").status_code == 200, within_s=10)


def test_readiness_tries_the_temporary_folder_as_well(service: Service) -> None:
    def full() -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        for module in (uploads, disk_room):
            patch.setattr(module, "TemporaryFile", full, raising=False)
        archive = b"PK\x03\x04" + bytes(2 << 20)
        problem(service.post("/v1/jobs", content=archive, headers=PDF), 503, "store_full")
        assert problem(service.get("/readyz"), 503, "not_ready")["checks"] == {"disk": "store_full"}
    until(lambda: service.get("/readyz").status_code == 200, within_s=10)


def test_readiness_names_kinds_that_are_left_out(app: Forebay) -> None:
    async def handler(ctx: Context) -> None:
        """Never called."""

    app.registry.add(Kind(name="segment.llm", handler=handler, limit="llm", optional=True))
    with serving(app) as service:
        answer = service.get("/readyz")
        assert answer.status_code == 200
        assert answer.json()["status"] == "degraded"
        assert "'llm' is not defined" in answer.json()["warnings"]["segment.llm"]
        app.limiter.define(Limit("llm", in_flight=1))
        assert service.get("/readyz").json() == {"status": "ok"}


def test_a_worker_says_which_kinds_it_leaves_out(app: Forebay) -> None:
    async def handler(ctx: Context) -> None:
        """Never called."""

    app.registry.add(Kind(name="segment.llm", handler=handler, limit="llm", optional=True))
    app.registry.add(Kind(name="mine", handler=handler))
    heard: list[dict[str, object]] = []
    stop = subscribe(lambda name, fields: heard.append(dict(fields)) if name == "kind_left_out" else None)
    try:

        async def made() -> None:
            make_worker(app, target="nowhere:app")

        asyncio.run(made())
    finally:
        stop()
    assert [(each["kind"], each["limit"]) for each in heard] == [("segment.llm", "llm")]
    assert "forebay limits set llm" in str(heard[0]["remedy"])


def test_metrics_are_those_of_the_process(service: Service) -> None:
    emit("tasks_rescued", count=3)
    answer = service.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert "forebay_tasks_rescued_total 3.0" in answer.text


@pytest.mark.slow
def test_the_page_of_the_api_needs_nothing_from_elsewhere(service: Service) -> None:
    page = service.get("/docs")
    assert page.status_code == 200
    assert "/v1/jobs" in page.text
    wanted = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
    assert wanted
    assert all(each.startswith("/") and not each.startswith("//") for each in wanted)
    assert all(service.get(each).status_code == 200 for each in wanted)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text


def test_the_description_has_every_path_with_examples(service: Service) -> None:
    api = service.get("/openapi.json").json()
    assert api["openapi"].startswith("3.1")
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), (method, path)
            assert "HTTPValidationError" not in str(operation)
    assert api["components"]["schemas"]["JobShape"]["properties"]["id"]["examples"]
    assert api["components"]["schemas"]["Problem"]["examples"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "no_such_path"),
        ("GET", "/v1/", 404, "no_such_path"),
        ("GET", "/v1/jobs/", 404, "no_such_path"),
        ("PUT", "/v1/jobs", 405, "method_not_allowed"),
        ("TRACE", "/v1/jobs", 405, "method_not_allowed"),
        ("GET", "/v1/jobs/x", 422, "invalid_request"),
        ("GET", f"/v1/jobs/{NOBODY}", 404, "not_found"),
    ],
)
def test_every_refusal_is_a_problem_document(service: Service, method: str, path: str, status: int, code: str) -> None:
    answer = service.client.request(method, path)
    problem(answer, status, code)
    if status == 405:
        assert "GET" in answer.headers["allow"]


def test_a_failure_of_ours_shows_no_traceback(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("secret of the house")

    with serving(app) as service:
        monkeypatch.setattr(app.ledger, "get_job", broken)
        answer = service.get(f"/v1/jobs/{NOBODY}")
        problem(answer, 500, "bug")
        assert "secret" not in answer.text


def test_a_request_keeps_the_id_that_it_came_with(service: Service) -> None:
    assert service.get("/livez", headers={"x-request-id": "my-1"}).headers["x-request-id"] == "my-1"
    assert service.get("/livez", headers={"x-request-id": "a b"}).headers["x-request-id"] != "a b"


@pytest.mark.slow
def test_a_store_that_is_silent_is_a_503_in_time(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(app, answer_within_s=ANSWER_WITHIN_S) as service:
        answered = threading.Event()
        monkeypatch.setattr(app.ledger, "list_jobs", lambda _: answered.wait(60))
        began = time.monotonic()
        answer = service.get("/v1/jobs")
        answered.set()
        assert time.monotonic() - began < 20
        problem(answer, 503, "maybe_applied")
        assert int(answer.headers["retry-after"]) >= 1
        assert service.get("/livez").status_code == 200


def test_many_who_wait_for_a_silent_store_do_not_shut_out_others(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(app, answer_within_s=0.3) as service:
        monkeypatch.setattr(app.ledger, "list_jobs", lambda _: time.sleep(1))
        with httpx2.Client(base_url=service.base, timeout=20, trust_env=False) as other:
            for _ in range(3):
                problem(other.get("/v1/jobs"), 503, "maybe_applied")
            assert other.get("/livez").status_code == 200
