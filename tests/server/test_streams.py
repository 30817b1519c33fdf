from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from forebay.app.forebay import Forebay
from forebay.server import watching
from tests.pipelines.works import work
from tests.server.ground import NOBODY, Service, problem, serving

Told = dict[str, str]


def told(lines: Iterator[str]) -> Iterator[Told]:
    """Events as a browser reads them; a comment is an event without a name."""
    event: Told = {}
    for line in lines:
        if line.startswith(":"):
            yield {"comment": line}
        elif line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event:
            yield event
            event = {}


def listened(
    service: Service,
    path: str,
    *,
    opened: Callable[[], object] = lambda: None,
    **options: Any,  # noqa: ANN401 - of httpx2
) -> list[Told]:
    with service.client.stream("GET", path, **options) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        opened()
        return [event for event in told(answer.iter_lines()) if "event" in event]


@pytest.mark.slow
def test_a_job_tells_each_of_its_events_once_and_ends(service: Service) -> None:
    job_id = service.submit()
    path = f"/v1/jobs/{job_id}/events"
    worker = threading.Timer(0.3, work, [service.app])
    worker.start()
    events = listened(service, path)
    worker.join()
    numbers = [int(event["id"]) for event in events if "id" in event]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert [events[0]["event"], events[-2]["event"], events[-1]["event"]] == ["job_created", "job_completed", "end"]
    assert json.loads(events[0]["data"])["number"] == 1
    rest = listened(service, path, headers={"last-event-id": str(numbers[-3])})
    assert [int(event["id"]) for event in rest if "id" in event] == numbers[-2:]
    assert service.get(path, headers={"last-event-id": str(numbers[-1])}).status_code == 204
    assert len(listened(service, path, headers={"last-event-id": "garbage"})) == len(events)
    problem(service.get(f"/v1/jobs/{NOBODY}/events"), 404, "not_found")


def test_who_listens_hears_that_the_line_is_open(app: Forebay) -> None:
    with serving(app, heartbeat_s=0.2) as service:
        job_id = service.submit()
        with service.client.stream("GET", f"/v1/jobs/{job_id}/events") as answer:
            events = told(answer.iter_lines())
            seen = [next(events) for _ in range(4)]
        assert {"comment": ": still here"} in seen


def test_all_jobs_are_told_as_they_are_and_then_as_they_change(service: Service, app: Forebay) -> None:
    first = service.submit()
    with service.client.stream("GET", "/v1/events") as answer:
        events = (event for event in told(answer.iter_lines()) if event.get("event") == "jobs")
        assert [job["id"] for job in json.loads(next(events)["data"])["jobs"]] == [first]
        second = app.process(io.BytesIO(b"%PDF-1.4 other"), name="x.pdf").id
        assert [job["id"] for job in json.loads(next(events)["data"])["jobs"]] == [second]
        app.cancel(first)
        changed = json.loads(next(events)["data"])["jobs"]
        assert [(job["id"], job["status"]) for job in changed] == [(first, "canceled")]


def test_another_server_tells_what_happens_through_the_first(service: Service, app: Forebay) -> None:
    job_id = service.submit()
    with serving(app) as second:
        threading.Timer(0.2, lambda: service.post(f"/v1/jobs/{job_id}/cancel")).start()
        names = [event["event"] for event in listened(second, f"/v1/jobs/{job_id}/events")]
    assert names[-2:] == ["job_canceled", "end"]


def test_listeners_do_not_hold_up_the_end_of_the_server(app: Forebay) -> None:
    with serving(app) as service:
        job_id = service.submit()
        with service.client.stream("GET", f"/v1/jobs/{job_id}/events") as answer:
            events = told(answer.iter_lines())
            next(events)
            service.stop()
            assert [event for event in events if event.get("event") == "end"] == []


def test_a_job_that_is_deleted_ends_its_stream(service: Service, app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_LOOK_AGAIN_S", 0.1)
    job_id = service.submit()
    events = listened(service, f"/v1/jobs/{job_id}/events", opened=lambda: app.delete(job_id))
    assert events[-1]["event"] == "end"


def test_a_listener_who_has_gone_is_forgotten_although_they_had_asked_for_more(app: Forebay) -> None:
    with serving(app, heartbeat_s=0.1, most_listeners=1) as service:
        with socket.create_connection(service.place, 10) as line:
            line.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            heard = b""
            while b"retry:" not in heard:
                heard += line.recv(65536)
            line.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
            problem(service.get("/v1/events"), 503, "too_many_listeners")
        ends_at = time.monotonic() + 20
        while not listens(service):
            assert time.monotonic() < ends_at


def listens(service: Service) -> bool:
    with service.client.stream("GET", "/v1/events") as answer:
        return answer.status_code == 200
