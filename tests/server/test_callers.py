from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.app import keys
from forebay.app.forebay import Forebay
from forebay.errors import BadInput
from forebay.model.key import ApiKey, Scope
from forebay.server import service as serving_all
from forebay.server.callers import Caller
from forebay.server.serving import check_exposed, is_loopback
from forebay.stores.memory.ledger import MemoryLedger
from forebay.testing.workers import action
from tests.server.ground import DOCUMENT, NOBODY, PDF, Service, problem, serving


def test_without_keys_this_machine_is_let_in_and_no_other_site(service: Service) -> None:
    assert service.get("/v1/jobs").status_code == 200
    for host in ("evil.example", "forebay.evil.example:8420", "169.254.169.254", "localhost.evil.example", ""):
        problem(service.get("/v1/jobs", headers={"host": host}), 403, "foreign_host")
    for host in ("localhost", "localhost:1", "127.0.0.1", "[::1]:8420", "forebay.localhost"):
        assert service.get("/v1/jobs", headers={"host": host}).status_code == 200
    for origin in ("https://evil.example", "null", "http://localhost:1", "http://["):
        problem(service.get("/v1/jobs", headers={"origin": origin}), 403, "foreign_origin")
    for site in ("cross-site", "same-site"):
        problem(service.get("/v1/jobs", headers={"sec-fetch-site": site}), 403, "foreign_site")
    assert service.get("/v1/jobs", headers={"sec-fetch-site": "none"}).status_code == 200
    for path in ("/metrics", "/docs", "/openapi.json", "/readyz"):
        problem(service.get(path, headers={"host": "evil.example"}), 403, "foreign_host")
    assert service.get("/livez", headers={"host": "evil.example"}).status_code == 200


def test_from_the_first_key_on_everybody_needs_one(service: Service, app: Forebay) -> None:
    assert service.get("/v1/jobs").status_code == 200
    reader = service.keyed("read")
    answer = service.get("/v1/jobs")
    problem(answer, 401, "no_key")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert service.get("/v1/jobs", headers=reader).status_code == 200
    # With keys it may stand behind a proxy, under whatever name.
    assert service.get("/v1/jobs", headers=reader | {"host": "forebay.example"}).status_code == 200
    # The metrics are open to this machine all the same, so no page of another site may have them.
    problem(service.get("/metrics", headers={"host": "forebay.example"}), 403, "foreign_host")
    assert service.get("/metrics").status_code == 200
    (key,) = app.ledger.keys()
    assert keys.revoke(app, key.id).done
    problem(service.get("/v1/jobs", headers=reader), 401, "bad_key")
    problem(service.get("/v1/jobs"), 401, "no_key")


def test_of_who_may_not_ask_no_body_is_read(service: Service) -> None:
    reader = service.keyed("read")
    head = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 9999\r\n"
    assert service.say(head + b"\r\n").startswith(b"HTTP/1.1 401 ")
    assert service.say(head + f"Authorization: {reader['authorization']}\r\n\r\n".encode()).startswith(b"HTTP/1.1 403 ")
    bad: dict[str, Any] = {"content": b"{", "headers": {"content-type": "application/json"}}
    problem(service.post("/v1/tasks", **bad), 401, "no_key")


def test_who_asks_is_looked_up_once_a_request(service: Service, app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    submitter = service.keyed("submit")
    asked: list[str] = []
    get_key = app.ledger.get_key

    def counted(key_id: str) -> ApiKey | None:
        asked.append(key_id)
        return get_key(key_id)

    monkeypatch.setattr(app.ledger, "get_key", counted)
    assert service.post("/v1/tasks", json={"kind": "x"}, headers=submitter).status_code == 202
    assert len(asked) == 1


class HeldLedger(MemoryLedger):
    """Its reads of keys take until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.let_go = threading.Event()

    def keys(self) -> list[ApiKey]:
        found = super().keys()
        self.reads += 1
        assert self.let_go.wait(20)
        return found


def test_who_asks_for_keys_during_a_read_shares_the_next_one_and_never_the_one_before() -> None:
    ledger = HeldLedger()

    async def asked() -> tuple[bool, list[bool]]:
        service = serving_all.Service(SimpleNamespace(ledger=ledger), answer_within_s=20)  # type: ignore[arg-type]
        first = asyncio.create_task(service.any_key())
        while not ledger.reads:  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0.001)
        ledger.add_key(ApiKey(name="x", sha256="a" * 64, scopes=(Scope.READ,)), action())
        later = [asyncio.create_task(service.any_key()) for _ in range(20)]
        await asyncio.sleep(0.05)
        ledger.let_go.set()
        answers = await first, await asyncio.gather(*later)
        service.close()
        return answers

    assert asyncio.run(asked()) == (False, [True] * 20)
    assert ledger.reads == 2


def test_a_wrong_or_expired_key_is_refused(service: Service, app: Forebay) -> None:
    made = keys.create(app, "long", ["read"], expires_at=time.time() + 3600)
    right = {"authorization": f"Bearer {made.token}"}
    assert service.get("/v1/jobs", headers=right).status_code == 200
    other = keys.create(app, "other", ["read"])
    swapped = f"fb_{other.key.id}_{made.token.split('_', 2)[2]}"
    for token in ("x", made.token[:-1], made.token + "a", made.token.upper(), swapped, f"fb_{NOBODY}_{'a' * 43}"):
        answer = service.get("/v1/jobs", headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 401, token
    problem(service.get("/v1/jobs", headers={"authorization": f"Basic {made.token}"}), 401, "no_key")
    short = keys.create(app, "short", ["read"], expires_at=time.time() + 0.1)
    time.sleep(0.2)
    problem(service.get("/v1/jobs", headers={"authorization": f"Bearer {short.token}"}), 401, "bad_key")
    assert service.get("/v1/jobs", headers=right).status_code == 200


def test_the_token_itself_is_kept_nowhere(app: Forebay) -> None:
    made = keys.create(app, "x", ["admin"], tenant="acme", who="ann")
    assert hashlib.sha256(made.token.encode()).hexdigest() == made.key.sha256
    secret = made.token.split("_", 2)[2]
    assert secret not in str(app.ledger.keys())
    assert secret not in str(app.ledger.audit())
    assert app.ledger.audit()[0].who == "ann"
    assert len(secret) >= 43


def test_a_key_may_do_what_its_scopes_say(service: Service) -> None:
    read, submit, operate = (service.keyed(scope) for scope in ("read", "submit", "operate"))
    admin = service.keyed("admin")
    job_id = service.submit(headers=submit)
    path = f"/v1/jobs/{job_id}"
    problem(service.post("/v1/jobs", content=DOCUMENT, headers=PDF | read), 403, "missing_scope")
    problem(service.get(path, headers=submit), 403, "missing_scope")
    problem(service.post(f"{path}/retry", headers=read), 403, "missing_scope")
    problem(service.client.delete(path, headers=submit), 403, "missing_scope")
    problem(service.get("/v1/audit", headers=operate), 403, "missing_scope")
    assert service.get(path, headers=read).status_code == 200
    assert service.post(f"{path}/cancel", headers=submit).status_code == 202
    assert service.post(f"{path}/retry", headers=operate, json={"force": True}).status_code == 202
    trail = service.get("/v1/audit", headers=admin).json()["items"]
    assert {line["who"].partition(":")[0] for line in trail if line["verb"] in {"cancel", "force"}} == {"key"}


def test_what_is_anothers_is_not_there(service: Service) -> None:
    ann = service.keyed("read", "submit", "operate", tenant="ann")
    bob = service.keyed("admin", tenant="bob")
    all_of_them = service.keyed("admin")
    job_id = service.submit(headers=ann)
    task_id = service.post("/v1/tasks", json={"kind": "call"}, headers=ann).json()["id"]
    assert service.get(f"/v1/jobs/{job_id}", headers=ann).json()["tenant"] == "ann"
    assert service.get(f"/v1/jobs/{job_id}", headers=all_of_them).status_code == 200
    for path in (f"/v1/jobs/{job_id}", f"/v1/tasks/{task_id}"):
        foreign = problem(service.get(path, headers=bob), 404, "not_found")
        unknown = problem(service.get(path.rpartition("/")[0] + "/" + NOBODY, headers=bob), 404, "not_found")
        assert foreign["detail"].replace(path.rpartition("/")[2], NOBODY) == unknown["detail"]
    for verb in ("result", "chunks", "why", "events"):
        problem(service.get(f"/v1/jobs/{job_id}/{verb}", headers=bob), 404, "not_found")
    for verb in ("cancel", "retry"):
        problem(service.post(f"/v1/jobs/{job_id}/{verb}", headers=bob), 404, "not_found")
    problem(service.client.delete(f"/v1/jobs/{job_id}", headers=bob), 404, "not_found")
    problem(service.get(f"/v1/tasks/{task_id}/history", headers=bob), 404, "not_found")
    assert service.get("/v1/jobs", headers=bob).json()["items"] == []
    assert len(service.get("/v1/jobs", headers=ann).json()["items"]) == 1
    # The same document of another tenant is another job.
    assert service.submit(headers=bob) != job_id
    for path in ("/v1/workers", "/v1/audit"):
        problem(service.get(path, headers=bob), 403, "tenant_key")
        assert service.get(path, headers=all_of_them).status_code == 200


def test_a_server_that_looks_at_ids_alone_is_found_out(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Caller, "sees", lambda *_: True)
    with pytest.raises(AssertionError):
        test_what_is_anothers_is_not_there(service)


def test_a_cursor_is_good_for_the_tenant_that_got_it(service: Service) -> None:
    ann, bob = (service.keyed("read", "submit", tenant=name) for name in ("ann", "bob"))
    for _ in range(2):
        service.submit(headers=ann, params={"reuse": "false"})
    cursor = service.get("/v1/jobs", params={"limit": 1}, headers=ann).json()["next"]
    assert service.get("/v1/jobs", params={"cursor": cursor}, headers=ann).status_code == 200
    problem(service.get("/v1/jobs", params={"cursor": cursor}, headers=bob), 400, "bad_cursor")


def test_beyond_loopback_there_must_be_a_key(app: Forebay) -> None:
    assert not check_exposed(app, "127.0.0.1")
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        assert not is_loopback(host)
        with pytest.raises(BadInput, match="keys create"):
            check_exposed(app, host)
    keys.create(app, "first", ["admin"])
    assert check_exposed(app, "0.0.0.0")


def test_beyond_loopback_metrics_need_a_key(app: Forebay) -> None:
    with serving(app, keyed=True, loopback=False) as service:
        problem(service.get("/metrics"), 401, "no_key")
        assert service.get("/metrics", headers=service.keyed("read")).status_code == 200
        # They count what all tenants did.
        problem(service.get("/metrics", headers=service.keyed("admin", tenant="ann")), 403, "tenant_key")
        assert service.get("/readyz").status_code == 200
