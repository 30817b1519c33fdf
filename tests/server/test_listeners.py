from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack
from itertools import islice
from types import SimpleNamespace

import pytest

from forebay.app import keys
from forebay.app.forebay import Forebay
from forebay.model.key import ApiKey, Scope
from forebay.server import listeners
from forebay.server import service as serving_all
from forebay.server.callers import Caller
from forebay.stores.memory.ledger import MemoryLedger
from forebay.testing.workers import action
from tests.server.ground import Service, problem, serving
from tests.server.test_streams import told


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "_LOOK_S", 0.1)


def headers_of(made: keys.Made) -> dict[str, str]:
    return {"authorization": f"Bearer {made.token}"}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["job", "all"])
def test_a_key_that_is_revoked_ends_its_streams_on_every_server(service: Service, app: Forebay, what: str) -> None:
    admin, reader = keys.create(app, "all", ["admin"]), keys.create(app, "x", ["read"])
    path = f"/v1/jobs/{service.submit(headers=headers_of(admin))}/events" if what == "job" else "/v1/events"
    with (
        serving(app, heartbeat_s=0.3) as other,
        other.client.stream("GET", path, headers=headers_of(admin)) as stays,
        other.client.stream("GET", path, headers=headers_of(reader)) as goes,
    ):
        going, staying = told(goes.iter_lines()), told(stays.iter_lines())
        assert next(going) == {"retry": "2000"}
        keys.revoke(app, reader.key.id)
        heard = [*islice(going, 30)]
        assert len(heard) < 30
        assert not [event for event in heard if event.get("event") == "end"]
        problem(other.get(path, headers=headers_of(reader)), 401, "bad_key")
        # That of another key goes on.
        assert sum("comment" in next(staying) for _ in range(6)) >= 3


@pytest.mark.slow
def test_a_key_that_expires_ends_its_streams(service: Service, app: Forebay) -> None:
    made = keys.create(app, "short", ["read"], expires_at=time.time() + 3.0)
    with service.client.stream("GET", "/v1/events", headers=headers_of(made)) as answer:
        assert answer.status_code == 200
        assert [event.get("event") for event in told(answer.iter_lines())][-1] == "jobs"
    assert time.time() > made.key.expires_at  # type: ignore[operator]  # it has one


def test_who_listens_without_a_key_is_let_go_once_there_is_one(service: Service, app: Forebay) -> None:
    with service.client.stream("GET", "/v1/events") as answer:
        assert answer.status_code == 200
        heard = told(answer.iter_lines())
        while next(heard).get("event") != "jobs":
            pass
        keys.create(app, "first", ["read"])
        assert [event for event in heard if "comment" not in event] == []
    problem(service.get("/v1/events"), 401, "no_key")


class CountingLedger(MemoryLedger):
    reads = 0

    def get_key(self, key_id: str) -> ApiKey | None:
        self.reads += 1
        return super().get_key(key_id)


def test_many_who_listen_by_one_key_cost_one_read() -> None:
    ledger = CountingLedger()
    key = ApiKey(name="x", sha256="a" * 64, scopes=(Scope.READ,))
    ledger.add_key(key, action())

    async def looked() -> list[bool]:
        service = serving_all.Service(SimpleNamespace(ledger=ledger))  # type: ignore[arg-type]
        all_of_them = listeners.Listeners(service)
        opened = [all_of_them.present(Caller("x", key=key), asyncio.Event()) for _ in range(50)]
        present = [each.__enter__() for each in opened]
        await all_of_them.look()
        assert not any(each.over for each in present)
        ledger.revoke_key(key.id, action())
        await all_of_them.look()
        service.close()
        return [each.over for each in present]

    assert asyncio.run(looked()) == [True] * 50
    assert ledger.reads == 2


def listened(service: Service, who: dict[str, str], stack: ExitStack) -> int:
    """The status of one more stream, which stays open until the stack ends."""
    line = stack.enter_context(socket.create_connection(service.place, 20))
    more = "".join(f"{name}: {value}\r\n" for name, value in who.items())
    line.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
    heard = b""
    while b"retry:" not in heard and b"too_many_listeners" not in heard:
        heard += line.recv(65536)
    return int(heard.split()[1])


@pytest.mark.parametrize(("share", "admitted", "other"), [(0.25, 2, 200), (1.0, 8, 503)])
def test_a_tenant_gets_a_share_of_the_listeners(app: Forebay, share: float, admitted: int, other: int) -> None:
    """With a share of 1.0, the control, one tenant takes all of them."""
    with serving(app, keyed=True, most_listeners=8, listeners_share=share) as service, ExitStack() as stack:
        a, b = service.keyed("read", tenant="a"), service.keyed("read", tenant="b")
        second = service.keyed("read", tenant="a")
        found = [listened(service, a, stack) for _ in range(admitted)]
        assert found == [200] * admitted
        for refused in (a, second):
            assert listened(service, refused, stack) == (429 if share < 1 else 503)  # get() never ends if admitted
            answer = service.get("/v1/events", headers=refused)
            problem(answer, 429 if share < 1 else 503, "too_many_listeners")
            assert int(answer.headers["retry-after"]) >= 1
        assert listened(service, b, stack) == other


def test_a_key_has_a_bound_of_its_own(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "MAX_PER_KEY", 2)
    with serving(app, keyed=True) as service, ExitStack() as stack:
        one, other = service.keyed("read", tenant="a"), service.keyed("read", tenant="a")
        assert [listened(service, one, stack) for _ in range(3)] == [200, 200, 429]
        assert listened(service, other, stack) == 200


def test_without_keys_one_who_listens_may_have_all(app: Forebay) -> None:
    with serving(app, most_listeners=3) as service, ExitStack() as stack:
        assert [listened(service, {}, stack) for _ in range(4)] == [200, 200, 200, 503]
