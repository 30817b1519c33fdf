"""Quotas of tenants and keys: what is more than they may have is a 429 that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.app.forebay import Forebay
from forebay.model.query import Query
from forebay.server import quotas
from forebay.settings import load
from tests.limits.ground import until
from tests.server.ground import DOCUMENT, PDF, Service, problem, serving


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
