"""Bad input and broken clients, each with the exact status that they get."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forebay.app.forebay import Forebay
from forebay.errors import StoreFull, StoreUnreachable
from forebay.model.query import Query
from forebay.server.upload_room import UploadRoom
from forebay.settings import load
from tests.server.ground import DOCUMENT, NOBODY, PDF, Service, problem, received, serving

JSON = {"content-type": "application/json"}
HEAD = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """For requests that leave nothing behind."""
    folder = tmp_path_factory.mktemp("shared")
    with Forebay(f"sqlite:///{folder}/forebay.db", blobs=f"file://{folder}/blobs") as app, serving(app) as service:
        yield service


def status(raw: bytes) -> int:
    assert raw.startswith(b"HTTP/1.1 "), raw[:200]
    assert b"application/problem+json" in raw, raw
    return int(raw.split()[1])


def answered(line: socket.socket) -> bytes:
    """One problem document, on a line that may stay open."""
    found = b""
    while not found.endswith(b"}"):
        piece = line.recv(65536)
        assert piece, found
        found += piece
    return found


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b'{"kind": "x",}',
        b'{"kind": "x", "payload": NaN}',
        b'{"kind": "x", "payload": -Infinity}',
        b'{"kind": "x", "kind": "y"}',
        b'{"kind": "x", "payload": {"a": 1, "a": 2}}',
        b'{"kind": "x", "payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"kind": "x", "payload": ' + b"[" * 33 + b"]" * 33 + b"}",
        b'{"kind": "x", "payload": ' + b"9" * 5000 + b"}",
        b'\xff{"kind": "x"}',
    ],
)
def test_what_is_no_json_is_a_400(shared: Service, body: bytes) -> None:
    answer = shared.post("/v1/tasks", content=body, headers=JSON)
    if body:
        problem(answer, 400, "bad_json")
    else:
        problem(answer, 422, "invalid_request")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"kind": "x", "priority": 101}, "body.priority"),
        ({"kind": "X Y"}, "body.kind"),
        ({"kind": "x", "tags": ["a"] * 33}, "body.tags"),
        ({"kind": "x", "color": 1}, "body.color"),
        ({"payload": 1}, "body.kind"),
        ([], "body"),
        ("text", "body"),
    ],
)
def test_what_does_not_fit_the_shape_is_a_422_that_names_the_field(shared: Service, body: object, named: str) -> None:
    found = problem(shared.post("/v1/tasks", json=body), 422, "invalid_request")
    assert found["errors"][0]["at"] == named


@pytest.mark.parametrize("payload", [b'"a\\u0000b"', b'"\\ud800"', b'{"\\u0000": 1}'])
def test_text_that_no_store_can_hold_is_a_422(shared: Service, payload: bytes) -> None:
    answer = shared.post("/v1/tasks", content=b'{"kind": "x", "payload": ' + payload + b"}", headers=JSON)
    problem(answer, 422, "bad_json")


def test_a_json_body_that_is_too_large_is_a_413(shared: Service) -> None:
    large = json.dumps({"kind": "x", "payload": "a" * (1 << 20)}).encode()
    problem(shared.post("/v1/tasks", content=large, headers=JSON), 413, "too_large")
    problem(shared.post("/v1/tasks", content=iter([large]), headers=JSON), 413, "too_large")


def test_what_is_not_sent_as_json_is_a_415(shared: Service) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/xml", "x"):
        answer = shared.post("/v1/tasks", content=b'{"kind": "x"}', headers={"content-type": kind})
        problem(answer, 415, "not_json")


@pytest.mark.parametrize("bad", ["' OR 1=1--", "..%2Fx", "a" * 7000, "%00", "A" * 26, "ä" * 26, "%F0%9F%98%80"])
def test_an_id_that_is_none_is_a_404_or_422(shared: Service, bad: str) -> None:
    for path in (f"/v1/jobs/{bad}", f"/v1/tasks/{bad}/history", f"/v1/dead/{bad}/requeue"):
        method = "POST" if path.endswith("requeue") else "GET"
        answer = shared.client.request(method, path)
        assert answer.status_code in {404, 422}, answer.text
        problem(answer, answer.status_code, answer.json()["code"])
        assert len(answer.content) < 2000


def test_what_is_too_long_or_too_much_for_a_head_is_refused(shared: Service) -> None:
    problem(shared.get(f"/v1/jobs/{'a' * 9000}"), 414, "target_too_long")
    problem(shared.get("/v1/jobs", headers={f"x-{n}": "1" for n in range(120)}), 431, "headers_too_large")
    problem(shared.get("/v1/jobs", headers={"x-large": "a" * 40_000}), 431, "headers_too_large")
    assert status(shared.say(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000)) == 431
    assert status(shared.say(b"\r\n" * 50_000)) == 431
    assert status(shared.say(b"GET /" + b"a" * 100_000)) == 414
    assert status(shared.say(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")) == 414


def test_two_lengths_are_refused(shared: Service) -> None:
    both = b"Content-Length: 13\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + b'{"kind": "x"}' + b"\r\n0\r\n\r\n"
    assert status(shared.say(HEAD + both)) == 400


def test_what_is_no_http_is_refused(shared: Service) -> None:
    assert status(shared.say(b"\x16\x03\x01\x02\x00\x01 hello\r\n\r\n")) == 400
    assert status(shared.say(b"GET  HTTP/9\r\n\r\n")) == 400
    assert status(shared.say(HEAD + b"Content-Length: -5\r\n\r\n")) == 400
    bad_chunk = HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
    assert b"HTTP/1.1 200" not in shared.say(bad_chunk)
    assert shared.get("/livez").status_code == 200


def test_a_head_names_one_host_and_a_version_that_we_speak(shared: Service) -> None:
    assert shared.say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").startswith(
        b"HTTP/1.1 200"
    )
    assert shared.say(b"GET /livez HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert status(shared.say(b"GET /livez HTTP/1.1\r\n\r\n")) == 400
    assert status(shared.say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n")) == 400
    assert status(shared.say(b"GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n")) == 400


def test_what_comes_before_bad_http_is_answered_first(shared: Service) -> None:
    whole = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    heard = shared.say(whole + b"\x00\x01 no HTTP\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in heard


def test_trailers_are_bounded_and_are_no_headers(shared: Service) -> None:
    chunked = HEAD + b'Connection: close\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n{"kind": "x"}\r\n0\r\n'
    heard = shared.say(chunked + b"X-Request-Id: from-a-trailer\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 202")
    assert b"from-a-trailer" not in heard
    assert not shared.say(chunked + b"X: " + b"a" * 1_000_000).startswith(b"HTTP/1.1 2")


def test_a_client_that_waits_for_no_answer_is_answered_up_to_a_bound(shared: Service) -> None:
    asked = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert shared.say(asked * 9 + last).count(b"HTTP/1.1 200") == 10
    assert 0 < shared.say(asked * 999 + last).count(b"HTTP/1.1 200") < 1000


def test_a_listener_who_sends_a_head_without_an_end_is_let_go(shared: Service) -> None:
    listens = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(shared.place, 10) as line, suppress(ConnectionError):
        line.sendall(listens)
        assert line.recv(65536).startswith(b"HTTP/1.1 200")
        line.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000)
        while line.recv(65536):
            pass


def test_another_protocol_is_not_spoken_and_the_request_is_answered(shared: Service) -> None:
    wanted = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    heard = shared.say(wanted)
    assert heard.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in heard


def test_a_body_that_ends_too_early_leaves_no_row(service: Service, app: Forebay, tmp_path: Path) -> None:
    for head in (
        HEAD + b'Content-Length: 999\r\n\r\n{"kind": "x"',
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n" + DOCUMENT,
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%PDF-\r\n",
    ):
        with socket.create_connection(service.place, 10) as line:
            line.sendall(head)
            line.shutdown(socket.SHUT_WR)
            assert not received(line).startswith(b"HTTP/1.1 2")
    ends_at = time.monotonic() + 40
    while [*(tmp_path / "blobs" / "tmp").iterdir()] and time.monotonic() < ends_at:
        time.sleep(0.01)
    assert [*(tmp_path / "blobs" / "tmp").iterdir()] == []
    assert app.ledger.list_jobs(Query()).items == ()
    assert app.ledger.list_tasks(Query()).items == ()


@pytest.mark.slow
def test_a_head_that_does_not_come_is_let_go_and_others_are_not_affected(app: Forebay) -> None:
    with serving(app, headers_within_s=1.0) as service:
        with socket.create_connection(service.place, 10) as slow, socket.create_connection(service.place, 10) as silent:
            slow.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n")
            assert service.get("/livez").status_code == 200
            assert status(received(slow)) == 408
            assert status(received(silent)) == 408
        assert service.get("/livez").status_code == 200


def test_a_body_that_trickles_is_let_go(app: Forebay, tmp_path: Path) -> None:
    with serving(app, slow_after_s=0.4) as service:
        with socket.create_connection(service.place, 10) as slow:
            slow.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n%PDF-1.4")
            for _ in range(3):
                time.sleep(0.05)
                slow.sendall(b"x")
            assert status(received(slow)) == 408
        assert [*(tmp_path / "blobs" / "tmp").iterdir()] == []


def test_a_json_body_that_trickles_is_let_go(app: Forebay) -> None:
    with serving(app, slow_after_s=0.4) as service:
        assert status(service.say(HEAD + b'Content-Length: 9999\r\n\r\n{"kind":')) == 408


@pytest.mark.slow
def test_the_rest_of_a_body_that_was_refused_is_not_waited_for(app: Forebay) -> None:
    with serving(app, headers_within_s=1.0, keyed=True) as service:
        for path in (b"tasks", b"jobs"):
            with socket.create_connection(service.place, 10) as line:
                line.sendall(HEAD.replace(b"tasks", path) + b"Content-Length: 9999\r\n\r\n")
                assert status(answered(line)) == 401
                line.sendall(b"x")
                with suppress(ConnectionResetError):
                    assert line.recv(65536) == b""


def test_who_sends_the_rest_of_a_body_that_was_refused_may_ask_again(app: Forebay) -> None:
    with serving(app, keyed=True) as service, socket.create_connection(service.place, 10) as line:
        line.sendall(HEAD + b"Content-Length: 3\r\n\r\n")
        assert status(answered(line)) == 401
        line.sendall(b"xyzGET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert received(line).startswith(b"HTTP/1.1 200 ")


def test_too_many_uploads_at_once_are_told_to_wait(app: Forebay) -> None:
    large = DOCUMENT + b"%" * 100_000
    with serving(app, uploads=UploadRoom(most_uploads=1)) as service:
        with socket.create_connection(service.place, 10) as first:
            first.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n%PDF-1.4")
            ends_at = time.monotonic() + 40
            while (answer := service.post("/v1/jobs", content=large, headers=PDF)).status_code == 202:
                assert time.monotonic() < ends_at
            problem(answer, 503, "too_many_uploads")
        while service.post("/v1/jobs", content=large, headers=PDF).status_code != 202:
            assert time.monotonic() < ends_at


@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreUnreachable("down", remedy="wait"), "store_unreachable"), (StoreFull("full", remedy="room"), "store_full")],
)
def test_a_store_in_trouble_is_a_503_that_says_when_to_come_back(
    app: Forebay, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    def fails(*_: object, **__: object) -> object:
        raise error

    with serving(app) as service:
        for verb in ("list_jobs", "get_job", "submit", "keys"):
            monkeypatch.setattr(app.ledger, verb, fails)
        for answer in (
            service.get("/v1/jobs"),
            service.get(f"/v1/jobs/{NOBODY}"),
            service.post("/v1/jobs", content=DOCUMENT, headers=PDF),
            service.post("/v1/tasks", json={"kind": "x"}),
        ):
            problem(answer, 503, code)
            assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.slow
def test_a_ledger_that_is_gone_is_told_in_time(tmp_path: Path) -> None:
    address = "postgresql://nobody@127.0.0.1:1/none"
    settings = load({"ledger": address, "home": str(tmp_path)})
    with (
        Forebay(settings=settings, blobs=f"file://{tmp_path}/blobs") as app,
        serving(app, keyed=True, answer_within_s=1.5) as service,
    ):
        began = time.monotonic()
        answer = service.get("/v1/jobs", headers={"authorization": f"Bearer fb_{NOBODY}_{'a' * 43}"})
        assert time.monotonic() - began < 20
        problem(answer, 503, answer.json()["code"])
        assert problem(service.get("/readyz"), 503, "not_ready")["checks"]["ledger"]
        assert service.get("/livez").status_code == 200


NAMES = [
    "../../x",
    "..\\..\\x",
    "C:\\x",
    "a\nb",
    "x" * 4000,
    "\u202egnp.pdf",
    "CON",
    ".htaccess",
    "",
    "ä/ö",
    "'; DROP--",
]


def test_a_name_is_a_label_and_no_path(service: Service, tmp_path: Path) -> None:
    service.submit()
    before = {*tmp_path.iterdir()}
    for name in NAMES:
        job_id = service.submit(params={"name": name, "reuse": "false"})
        label = service.get(f"/v1/jobs/{job_id}").json()["label"]
        assert 0 < len(label) <= 200
        assert label.isprintable()
        assert not {"/", "\\", "\u202e"} & set(label)
    assert {*tmp_path.iterdir()} == before


UPLOAD = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/pdf\r\n"


@pytest.mark.parametrize("body", [b"zz\r\n", b"5\r\nabcdefgh\r\n0\r\n\r\n", b"-1\r\n", b"FFFFFFFFFFFFFFFFFF\r\n"])
def test_a_body_that_is_framed_badly_is_a_400_and_the_connection_ends(shared: Service, body: bytes) -> None:
    for start in (b"", b"4\r\n%PDF\r\n"):
        answer = shared.say(UPLOAD + b"Transfer-Encoding: chunked\r\n\r\n", then=start + body)
        assert status(answer) == 400, answer
        assert b"connection: close" in answer
        assert answer.count(b"HTTP/1.1 4") == 1


@pytest.mark.parametrize("coding", [b"xchunked", b"gzip, chunked", b"gzip"])
def test_a_transfer_coding_that_is_not_known_is_a_501(shared: Service, coding: bytes) -> None:
    answer = shared.say(UPLOAD + b"Transfer-Encoding: " + coding + b"\r\n\r\n0\r\n\r\n")
    assert status(answer) == 501, answer
    assert b"connection: close" in answer


def test_an_option_both_in_the_query_and_in_the_form_is_a_422(shared: Service) -> None:
    form = shared.post("/v1/jobs", params={"priority": "1"}, files={"file": DOCUMENT}, data={"priority": "2"})
    found = problem(form, 422, "invalid_request")
    assert found["errors"] == [{"at": "form.priority", "what": "is given in the query as well"}]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/tasks", {"kind": "x", "max_retries": False}),
        ("POST", "/v1/tasks", {"kind": "x", "delay_s": "5"}),
        ("POST", "/v1/tasks", {"kind": "x", "priority": True}),
        ("DELETE", f"/v1/limits/api/slots/{NOBODY}", {"retry_after_s": False}),
        ("PATCH", f"/v1/limits/api/slots/{NOBODY}", {"start": 0}),
        ("POST", "/v1/limits/api/slots", {"wait_s": "1"}),
        ("POST", "/v1/limits/api/reset", {"everything": "yes"}),
        ("POST", f"/v1/jobs/{NOBODY}/retry", {"force": 1}),
    ],
)
def test_a_value_of_another_type_is_a_422(shared: Service, method: str, path: str, body: dict[str, object]) -> None:
    problem(shared.client.request(method, path, json=body), 422, "invalid_request")


def test_a_task_whose_kind_nobody_runs_is_taken_with_a_warning(service: Service) -> None:
    unknown = service.post("/v1/tasks", json={"kind": "typo"})
    assert unknown.status_code == 202
    assert "typo" in unknown.json()["warnings"][0]
    service.app.task("known")(_nothing)
    assert "warnings" not in service.post("/v1/tasks", json={"kind": "known"}).json()


async def _nothing(ctx: object) -> None:
    """Never called."""


@pytest.mark.parametrize("host", ["127.999.1.1", "127.0.0.256", "127.0.0.1.example.com", "127.0.0.1:123456"])
def test_a_host_that_is_no_address_of_this_machine_is_refused(shared: Service, host: str) -> None:
    problem(shared.get("/v1/jobs", headers={"host": host}), 403, "foreign_host")


@pytest.mark.parametrize("scheme", ["https", "file", "ftp"])
def test_an_origin_of_another_scheme_is_another_site(shared: Service, scheme: str) -> None:
    own = shared.base.removeprefix("http://")
    assert shared.get("/v1/jobs", headers={"origin": f"http://{own}"}).status_code == 200
    problem(shared.get("/v1/jobs", headers={"origin": f"{scheme}://{own}"}), 403, "foreign_origin")


def test_every_path_may_be_too_long_and_says_so(shared: Service) -> None:
    for path, methods in shared.get("/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            assert "414" in operation["responses"], (method, path)
