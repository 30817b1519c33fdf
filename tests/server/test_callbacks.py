"""Callbacks by HTTP: which URLs a job may name, and what can be done with those that it did."""

from __future__ import annotations

import asyncio

import pytest

from forebay.app import callbacks
from forebay.app.forebay import Forebay
from forebay.model.query import Query
from forebay.model.task import Task
from tests.server.ground import DOCUMENT, NOBODY, PDF, Service, problem

GOOD = "https://example.com/hooks/forebay"
REFUSED = [
    "ftp://example.com/x",
    "file:///etc/passwd",
    "gopher://example.com",
    "data:text/plain,x",
    "https://user:pass@example.com/",
    "https:///nowhere",
    "example.com/x",
    "https://example.com/" + "a" * 1990,
    "https://example.com/a\nb",
    "http://example.com/",
    "https://example.com:25/",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://0x7f000001/",
    "https://2130706433/",
    "https://0177.0.0.1/",
    "https://\u2460\u2461\u2466.0.0.1/",
    "https://127\u30020\u30020\u30021/",
    "https://0/",
    "https://[::]/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://localhost/",
    "https://localhost./",
    "https://169.254.169.254/latest/meta-data",
    "https://10.0.0.1/",
    "https://192.168.0.1/",
    "https://100.64.0.1/",
    "https://[fd00::1]/",
    "https://./",
    "https://a..b.invalid/",
    "https://.example.com/",
    "https://example.com../",
    f"https://{'a' * 64}.invalid/",
    f"https://{'a.' * 127}invalid/",
    "https://example.com:0/",
    "https://example.com:99999/",
]


def test_a_url_that_callbacks_may_not_go_to_is_a_422(service: Service, app: Forebay) -> None:
    for url in REFUSED:
        answer = service.post("/v1/jobs", content=DOCUMENT, headers=PDF, params={"callback": url})
        assert answer.status_code == 422, (url, answer.text)
        problem(answer, 422, answer.json()["code"])
        form = service.post("/v1/jobs", files={"file": DOCUMENT}, data={"callback": url})
        assert form.status_code == 422, (url, form.text)
    assert app.ledger.list_jobs(Query()).items == ()
    assert service.get("/v1/callbacks").json()["items"] == []


def test_to_tell_of_each_chunk_takes_somebody_to_tell(service: Service) -> None:
    asked = {"callback_each": "true"}
    problem(service.post("/v1/jobs", content=DOCUMENT, headers=PDF, params=asked), 422, "bad_input")
    problem(service.post("/v1/jobs", files={"file": DOCUMENT}, data=asked), 422, "bad_input")
    mixed = service.post("/v1/jobs", params={"callback": GOOD}, files={"file": DOCUMENT}, data=asked)
    assert mixed.status_code == 202, mixed.text


def test_a_job_tells_the_url_that_it_was_given(service: Service, app: Forebay) -> None:
    service.submit(params={"callback": GOOD, "callback_each": "true"})
    (endpoint,) = service.get("/v1/callbacks").json()["items"]
    assert (endpoint["url"], endpoint["disabled_at"]) == (GOOD, None)
    assert "secret" not in endpoint
    path = f"/v1/callbacks/{endpoint['id']}"
    tested = service.post(f"{path}/test")
    assert tested.status_code == 202
    (sent,) = service.get(path).json()["deliveries"]
    assert sent["id"] == tested.json()["id"]
    problem(service.post(f"/v1/callbacks/{sent['id']}/resend"), 409, "not_retryable")
    first = service.post(f"{path}/rotate").json()["secret"]
    second = service.post(f"{path}/rotate").json()["secret"]
    assert first.startswith("whsec_")
    assert first != second
    lines = [line for line in service.get("/v1/audit").json()["items"] if line["verb"] == "rotate"]
    assert [(line["who"], line["targets"]) for line in lines] == [("http", [endpoint["id"]])] * 2
    for verb in ("test", "rotate", "resend"):
        problem(service.post(f"/v1/callbacks/{NOBODY}/{verb}"), 404, "not_found")


def test_the_endpoints_of_others_are_not_there(service: Service) -> None:
    ann, bob = (service.keyed("read", "submit", "operate", tenant=name) for name in ("ann", "bob"))
    service.submit(headers=ann, params={"callback": GOOD})
    (endpoint,) = service.get("/v1/callbacks", headers=ann).json()["items"]
    assert service.get("/v1/callbacks", headers=bob).json()["items"] == []
    path = f"/v1/callbacks/{endpoint['id']}"
    problem(service.get(path, headers=bob), 404, "not_found")
    for verb in ("test", "rotate"):
        problem(service.post(f"{path}/{verb}", headers=bob), 404, "not_found")
    assert service.get(path, headers=ann).status_code == 200


def test_nobody_learns_by_handing_in_a_name_where_it_leads(service: Service, app: Forebay) -> None:
    asked: list[str] = []

    async def look_up(host: str, port: int) -> list[str]:
        await asyncio.sleep(0)
        asked.append(host)
        return {"inside.example": ["10.0.0.7"]}.get(host, [])

    app.callbacks.look_up = look_up
    for host in ("inside.example", "outside.example", "unknown.example"):
        service.submit(params={"callback": f"https://{host}/"})
    assert asked == []


def test_what_was_sent_to_an_endpoint_is_looked_for_no_longer_than_a_moment(
    service: Service, app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, quiet = (app.callbacks.known_endpoint(f"https://example.com/{name}") for name in ("busy", "quiet"))
    app.callbacks.test(quiet)
    for _ in range(10):
        app.callbacks.test(busy)
    looked_at: list[str] = []
    get = app.ledger.get

    def slow(task_id: str) -> Task | None:
        looked_at.append(task_id)
        return get(task_id)

    monkeypatch.setattr(app.ledger, "get", slow)
    assert len(service.get(f"/v1/callbacks/{quiet.id}").json()["deliveries"]) == 1
    assert len(looked_at) == 11
    looked_at.clear()
    monkeypatch.setattr(callbacks, "monotonic", lambda: 0.3 * len(looked_at))
    assert service.get(f"/v1/callbacks/{quiet.id}").json()["deliveries"] == []
    assert len(looked_at) == 4
    looked_at.clear()
    assert len(service.get(f"/v1/callbacks/{busy.id}").json()["deliveries"]) == 4
