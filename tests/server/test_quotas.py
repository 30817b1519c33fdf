"""Quotas of tenants and keys: what is more than they may have is a 429 that says what to do."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from forebay.app.forebay import Forebay
from forebay.errors import MaybeApplied
from forebay.model.exchange import Submitted
from forebay.model.job import NewJob
from forebay.model.query import Query
from forebay.server import quotas
from forebay.settings import load
from tests.limits.ground import until
from tests.server.ground import DOCUMENT, PDF, Service, problem, received, serving


def app_with(tmp_path: Path, **settings: object) -> Forebay:
    given = {"home": str(tmp_path), "ledger": f"sqlite:///{tmp_path}/forebay.db", "blobs": f"file://{tmp_path}/blobs"}
    return Forebay(settings=load(given | {name: str(value) for name, value in settings.items()}))


def sent(service: Service, who: dict[str, str], **options: str) -> int:
    answer = service.post("/v1/jobs", content=DOCUMENT, headers=PDF | who, params={"reuse": "false", **options})
    if answer.status_code != 202:
        problem(answer, 429, "tenant_quota")
        assert int(answer.headers["retry-after"]) >= 1
    return answer.status_code


def test_a_tenant_may_have_so_many_open_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "FRESH_S", 0.05)  # what is open is counted again a little later
    monkeypatch.setattr(quotas, "_SHARE", 1)
    with app_with(tmp_path, tenant_max_jobs=2) as app, serving(app, keyed=True) as service:
        ann, bob, boss = (service.keyed("submit", tenant=name) for name in ("ann", "bob", None))
        assert [sent(service, ann) for _ in range(4)] == [202, 202, 429, 429]
        assert [sent(service, bob), *(sent(service, boss) for _ in range(3))] == [202] * 4
        (first, _) = app.ledger.list_jobs(Query(tenant="ann")).items
        app.cancel(first.id)
        until(lambda: sent(service, ann) == 202, within_s=20)
        assert sent(service, ann) == 429


def test_a_tenant_may_have_so_many_open_tasks(tmp_path: Path) -> None:
    with app_with(tmp_path, tenant_max_tasks=3) as app, serving(app, keyed=True) as service:
        ann, bob = service.keyed("submit", tenant="ann"), service.keyed("submit", tenant="bob")
        found = [service.post("/v1/tasks", json={"kind": "x"}, headers=ann) for _ in range(5)]
        assert [each.status_code for each in found] == [202] * 3 + [429] * 2
        problem(found[-1], 429, "tenant_quota")
        assert "tenant_max_tasks" in found[-1].json()["remedy"]
        assert service.post("/v1/tasks", json={"kind": "x"}, headers=bob).status_code == 202


@pytest.mark.parametrize("announced", [True, False])
def test_a_tenant_may_send_so_many_bytes_in_a_day(tmp_path: Path, *, announced: bool) -> None:
    document = DOCUMENT + b"%" * 2000
    with (
        app_with(tmp_path, tenant_max_daily_bytes=2 * len(document)) as app,
        serving(app, keyed=True) as service,
    ):
        ann, bob = service.keyed("submit", tenant="ann"), service.keyed("submit", tenant="bob")
        content = (lambda: document) if announced else (lambda: iter([document]))
        found = [service.post("/v1/jobs", content=content(), headers=PDF | ann) for _ in range(3)]
        assert [each.status_code for each in found] == [202, 202, 429]
        problem(found[-1], 429, "tenant_quota")
        assert service.post("/v1/jobs", content=content(), headers=PDF | bob).status_code == 202


def test_a_document_that_is_announced_as_too_many_bytes_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with app_with(tmp_path, tenant_max_daily_bytes=5000) as app, serving(app, keyed=True) as service:
        key = service.keyed("submit", tenant="ann")["authorization"]
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: {key}\r\nContent-Type: application/pdf\r\n"
        told = service.say(f"{head}Content-Length: 5001\r\n\r\n".encode())
        assert told.startswith(b"HTTP/1.1 429 "), told
        assert b"tenant_quota" in told


AT_ONCE = 40
JSON = {"content-type": "application/json"}


def at_once(service: Service, path: str, bodies: Sequence[bytes], headers: Mapping[str, str]) -> Counter[int]:
    """The statuses of requests on a connection each: all are sent, but for their last byte, before any can end."""
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    found: Counter[int] = Counter()
    with ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection(service.place, 20)) for _ in bodies]
        for line, body in zip(lines, bodies, strict=True):
            length = "" if "transfer-encoding" in headers else f"Content-Length: {len(body)}\r\n"
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{more}{length}Connection: close\r\n\r\n"
            line.sendall(head.encode() + body[:-1])
        for line, body in zip(lines, bodies, strict=True):
            with suppress(OSError):  # it was refused already
                line.sendall(body[-1:])
        for line in lines:
            found[int(received(line)[9:12] or 0)] += 1
    return found


def in_chunks(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def tasks() -> list[bytes]:
    return [json.dumps({"kind": "x", "payload": n}).encode() for n in range(AT_ONCE)]


def test_quotas_of_jobs_and_tasks_hold_for_many_at_once(tmp_path: Path) -> None:
    with app_with(tmp_path, tenant_max_jobs=2, tenant_max_tasks=5) as app, serving(app, keyed=True) as service:
        ann, bob = service.keyed("submit", tenant="ann"), service.keyed("submit", tenant="bob")
        documents = [DOCUMENT + b"%" * n for n in range(AT_ONCE)]
        assert at_once(service, "/v1/jobs", documents, PDF | ann) == {202: 2, 429: AT_ONCE - 2}
        assert at_once(service, "/v1/tasks", tasks(), JSON | bob) == {202: 5, 429: AT_ONCE - 5}
        assert app.ledger.open_job_count("ann") == 2
        assert sum(app.ledger.count(tenant="bob").values()) == 5


@pytest.mark.parametrize("more", [{}, {"tenant_max_jobs": 9}])
def test_bytes_of_what_may_be_stored_count(
    tmp_path: Path, more: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = DOCUMENT + b"%" * 1000
    bounds = {"tenant_max_daily_bytes": len(document)} | more
    with app_with(tmp_path, **bounds) as app, serving(app, keyed=True) as service:
        store = app.store_each

        def stored_in_silence(jobs: Sequence[NewJob]) -> list[Submitted | Exception]:
            store(jobs)
            raise MaybeApplied("It has not answered.")

        monkeypatch.setattr(app, "store_each", stored_in_silence)
        ann = service.keyed("submit", tenant="ann")
        problem(service.post("/v1/jobs", content=document, headers=PDF | ann), 503, "maybe_applied")
        assert sent(service, ann) == 429


@pytest.mark.parametrize("announced", [True, False])
def test_a_quota_of_bytes_holds_for_many_at_once(tmp_path: Path, *, announced: bool) -> None:
    documents = [DOCUMENT + b"%" * (60_000 + n) for n in range(AT_ONCE)]
    with app_with(tmp_path, tenant_max_daily_bytes=100_000) as app, serving(app, keyed=True) as service:
        headers = PDF | service.keyed("submit", tenant="ann")
        if announced:
            found = at_once(service, "/v1/jobs", documents, headers)
            assert found[202] == 1
        else:
            chunked = [in_chunks(each) for each in documents]
            found = at_once(service, "/v1/jobs", chunked, headers | {"transfer-encoding": "chunked"})
            # Each holds what came of it, so that all may be refused.
            assert found[202] <= 1
        assert app.ledger.open_job_count("ann") == found[202]


def test_without_quotas_all_that_come_at_once_are_taken(service: Service) -> None:
    """The control of the tests above."""
    ann = service.keyed("submit", tenant="ann")
    assert at_once(service, "/v1/tasks", tasks(), JSON | ann) == {202: AT_ONCE}


def test_what_a_refused_request_held_is_given_back(tmp_path: Path) -> None:
    bounds = {"tenant_max_jobs": 1, "tenant_max_tasks": 3, "tenant_max_daily_bytes": len(DOCUMENT) + 1000}
    with app_with(tmp_path, **bounds) as app, serving(app, keyed=True) as service:
        ann = service.keyed("submit", tenant="ann")
        once = {**ann, "idempotency-key": "once"}
        assert service.post("/v1/tasks", json={"kind": "x"}, headers=once).status_code == 202
        for n in range(3):
            problem(service.post("/v1/jobs", content=b"no document" * 80, headers=PDF | ann), 415, "unsupported_format")
            another = {"kind": "x", "payload": n}
            assert service.post("/v1/tasks", json=another, headers=once).status_code == 422
        assert sent(service, ann) == 202
        assert sent(service, ann) == 429
        assert service.post("/v1/tasks", json={"kind": "x"}, headers=ann).status_code == 202


def test_a_request_that_finds_what_was_stored_before_takes_no_place(tmp_path: Path) -> None:
    with app_with(tmp_path, tenant_max_tasks=3) as app, serving(app, keyed=True) as service:
        ann = service.keyed("submit", tenant="ann")
        again = {**ann, "idempotency-key": "once"}
        found = [service.post("/v1/tasks", json={"kind": "x"}, headers=again).status_code for _ in range(4)]
        assert found == [202] * 4
        assert [service.post("/v1/tasks", json={"kind": "x"}, headers=ann).status_code for _ in range(3)] == [
            202,
            202,
            429,
        ]


def test_a_key_may_send_so_many_requests_in_a_minute(tmp_path: Path) -> None:
    with app_with(tmp_path, key_max_requests_per_min=3) as app, serving(app, keyed=True) as service:
        one, other = service.keyed("read"), service.keyed("read")
        found = [service.get("/v1/jobs", headers=one) for _ in range(6)]
        assert [each.status_code for each in found[:3]] == [200] * 3
        refused = [each for each in found if each.status_code == 429]
        assert refused
        problem(refused[0], 429, "too_many_requests")
        assert 1 <= int(refused[0].headers["retry-after"]) <= 20
        assert service.get("/v1/jobs", headers=other).status_code == 200


def test_without_settings_nothing_is_bounded(service: Service) -> None:
    """The control of the tests above."""
    ann = service.keyed("submit", "read", tenant="ann")
    assert {sent(service, ann) for _ in range(6)} == {202}
    assert {service.get("/v1/jobs", headers=ann).status_code for _ in range(20)} == {200}
