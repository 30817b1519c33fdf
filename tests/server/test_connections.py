"""Connections stay below the limit of open files; a flood of them neither silences the server nor fills its log."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import math
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from forebay.app.forebay import Forebay
from forebay.app.keys import revoke
from forebay.model.key import ApiKey
from forebay.observe.events import subscribe
from forebay.server.file_limit import AcceptErrors, divide
from forebay.server.request_room import RequestRoom
from tests.limits.ground import until
from tests.server.ground import DOCUMENT, PDF, Service, problem, received, serving
from tests.server.test_serve import ended, environment
from tests.server.test_upload_room import admitted, head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILES = 256


@contextmanager
def served_with_few_files(home: Path, log: Path) -> Iterator[tuple[httpx2.Client, subprocess.Popen[bytes]]]:
    code = (
        "import resource, runpy, sys\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES // 2}, {FILES}))\n"
        "sys.argv = ['forebay', 'serve', '--port', '0', '-o', 'ndjson', '--no-worker']\n"
        "runpy.run_module('forebay', run_name='__main__')\n"
    )
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=errors, env=environment(home)
        ) as process,
    ):
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            with httpx2.Client(base_url=address, timeout=20, trust_env=False) as client:
                yield client, process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.slow
def test_a_flood_of_idle_connections_leaves_the_server_answering(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with served_with_few_files(tmp_path, log) as (client, process), ExitStack() as stack:
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        assert (soft, hard) == (FILES, FILES)
        place = ("127.0.0.1", client.base_url.port or 0)
        for n in range(2 * FILES):
            stack.enter_context(socket.create_connection(place, 20))
            if n % 100 == 99:
                assert client.get("/readyz", headers={"connection": "close"}).status_code == 200
                assert len([*Path(f"/proc/{process.pid}/fd").iterdir()]) < FILES
        assert ended(process) == 0
    said = log.read_text()
    assert "out of system resource" not in said
    assert "accept_failed" not in said  # a server without a bound answers again once idle connections time out
    assert len(said) < 5000


@pytest.mark.slow
def test_a_server_out_of_files_logs_it_once_and_answers_once_there_are_files_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with served_with_few_files(tmp_path, log) as (client, process), ExitStack() as stack:
        place = ("127.0.0.1", client.base_url.port or 0)
        client.get("/livez")
        used = len([*Path(f"/proc/{process.pid}/fd").iterdir()])
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used, FILES))
        for _ in range(2 * FILES):
            stack.enter_context(socket.create_connection(place, 20))
        until(lambda: log.read_text().strip(), within_s=20)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        assert client.get("/readyz", headers={"connection": "close"}).status_code == 200
        assert ended(process) == 0
    said = log.read_text()
    assert "out of system resource" not in said
    assert 1 <= said.count("accept_failed") <= 2


def test_when_all_connections_are_busy_another_one_is_told_to_wait(app: Forebay) -> None:
    with serving(app, max_connections=2, most_listeners=9) as service, ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection(service.place, 20)) for _ in range(2)]
        for line in lines:
            line.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert line.recv(65536).startswith(b"HTTP/1.1 200 ")
        answer = said(service)
        assert answer.startswith(b"HTTP/1.1 503 "), answer
        assert b"retry-after: " in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "too_many_connections"
        for line in lines:
            line.settimeout(20)
            assert line.recv(65536)  # they are still served


@contextmanager
def slow_requests(service: Service, who: dict[str, str], count: int) -> Iterator[list[bytes]]:
    """Small uploads that never end, each on a connection of its own; what the server said to the head of each."""
    with ExitStack() as stack:
        answers = []
        for _ in range(count):
            line = stack.enter_context(socket.create_connection(service.place, 20))
            line.sendall(head(who, 60_000))
            answers.append(line.recv(65536))
        yield answers


def alone(who: dict[str, str]) -> dict[str, str]:
    return PDF | who | {"connection": "close"}


def test_slow_requests_of_one_tenant_leave_connections_to_another(app: Forebay) -> None:
    with serving(app, keyed=True, max_connections=16) as service:
        a, b = service.keyed("submit", "read", tenant="a"), service.keyed("submit", "read", tenant="b")
        with slow_requests(service, a, 40) as answers:
            assert admitted(answers) == 12
            for answer in answers[12:]:
                assert answer.startswith(b"HTTP/1.1 429 "), answer
                assert b"too_many_open_requests" in answer
                assert b"retry-after: 2" in answer
            for size in (20, 10_000, 300_000):
                document = (b"%PDF-1.4 " + bytes(size))[:size]
                assert service.post("/v1/jobs", content=document, headers=alone(b)).status_code == 202
            with slow_requests(service, b, 4) as others:
                assert admitted(others) == 3
                assert service.post("/v1/jobs", content=DOCUMENT, headers=alone(service.keyed("submit"))).is_success
        until(lambda: service.get("/v1/jobs", headers=alone(a)).status_code == 200, within_s=20)


def test_without_shares_slow_requests_of_one_tenant_keep_others_out(app: Forebay) -> None:
    """The control of the test above."""
    requests = RequestRoom(per_free=math.inf)
    with serving(app, keyed=True, max_connections=16, requests=requests) as service:
        a, b = service.keyed("submit", tenant="a"), service.keyed("submit", tenant="b")
        with slow_requests(service, a, 16) as answers:
            assert admitted(answers) == 16
            assert b"too_many_connections" in said(service, b)


def test_a_tenant_that_has_its_share_is_refused_without_asking_a_store(
    app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    get_key = app.ledger.get_key

    def counted(key_id: str) -> ApiKey | None:
        asked.append(key_id)
        return get_key(key_id)

    monkeypatch.setattr(app.ledger, "get_key", counted)
    with serving(app, keyed=True, max_connections=4) as service:
        a = service.keyed("submit", "read", tenant="a")
        with slow_requests(service, a, 3):
            before = len(asked)
            for _ in range(20):
                problem(service.get("/v1/jobs", headers=a), 429, "too_many_open_requests")
            assert len(asked) == before
            # Whoever guesses a key learns nothing of it.
            wrong = {"authorization": a["authorization"][:-1] + "?"}
            problem(service.get("/v1/jobs", headers=wrong), 401, "bad_key")


def test_connections_that_are_closed_to_make_room_are_logged_once(app: Forebay) -> None:
    heard: list[Mapping[str, object]] = []
    stop = subscribe(lambda name, fields: heard.append(fields) if name == "connections_full" else None)
    try:
        with serving(app, max_connections=6) as service, ExitStack() as stack:
            for _ in range(6):
                stack.enter_context(socket.create_connection(service.place, 20))
            service.get("/livez")
            assert [fields["connections"] for fields in heard] == [6]
            for _ in range(30):
                stack.enter_context(socket.create_connection(service.place, 20))
            service.get("/livez")
    finally:
        stop()
    assert len(heard) == 1


def test_idle_connections_of_a_crowd_make_room_before_those_of_others(app: Forebay) -> None:
    with serving(app, keyed=True, max_connections=6) as service, ExitStack() as stack:
        a, b = service.keyed("read", tenant="a"), service.keyed("read", tenant="b")
        line = stack.enter_context(socket.create_connection(service.place, 20))
        asked = f"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: {b['authorization']}\r\n\r\n".encode()
        line.sendall(asked)
        assert line.recv(65536).startswith(b"HTTP/1.1 200 ")
        for _ in range(20):
            other = stack.enter_context(httpx2.Client(base_url=service.base, timeout=20, trust_env=False))
            assert other.get("/v1/jobs", headers=a).status_code == 200
        line.sendall(asked)
        assert line.recv(65536).startswith(b"HTTP/1.1 200 ")


def said(service: Service, who: Mapping[str, str] | None = None) -> bytes:
    with socket.create_connection(service.place, 20) as line, suppress(ConnectionResetError, BrokenPipeError):
        more = "".join(f"{name}: {value}\r\n" for name, value in (who or {}).items())
        line.sendall(f"GET /livez HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close\r\n\r\n".encode())
        return received(line)
    return b""


@pytest.mark.parametrize("limit", [64, 200, 1024, 65_536])
def test_what_a_limit_of_files_is_divided_into_fits_into_it(limit: int) -> None:
    room = divide(limit)
    assert room.listeners < room.connections
    assert min(room) > 0
    if limit >= 200:
        assert room.connections + 2 * room.uploads < limit


def test_accepts_that_fail_are_told_once_with_how_many() -> None:
    heard: list[tuple[str, Mapping[str, object]]] = []
    stop = subscribe(lambda name, fields: heard.append((name, fields)))
    loop = asyncio.new_event_loop()
    others: list[dict[str, Any]] = []
    loop.default_exception_handler = others.append  # type: ignore[method-assign,assignment]
    try:
        handler = AcceptErrors()
        failed = {"message": "socket.accept() out of system resource", "exception": OSError(errno.EMFILE, "too many")}
        for _ in range(5000):
            handler(loop, failed)
        handler(loop, {"message": "another"})
    finally:
        stop()
        loop.close()
    assert [name for name, _ in heard] == ["accept_failed"]
    assert others == [{"message": "another"}]


def test_a_key_that_is_revoked_takes_no_more_places_of_its_tenant(app: Forebay) -> None:
    requests = RequestRoom()
    with serving(app, keyed=True, requests=requests) as service:
        a = service.keyed("read", tenant="a")
        digest = hashlib.sha256(a["authorization"].encode()).digest()
        assert service.get("/v1/jobs", headers=a).status_code == 200
        assert requests.flow_of(digest) == "tenant:a"
        (key,) = app.ledger.keys()
        assert revoke(app, key.id).done
        assert service.get("/v1/jobs", headers=a).status_code == 401
        assert requests.flow_of(digest) is None
