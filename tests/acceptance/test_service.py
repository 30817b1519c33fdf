"""The service as processes: any server answers for all of them, and none takes with it what it has accepted."""

from __future__ import annotations

import io
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import httpx2
import pikepdf
import pytest

from forebay import ids
from forebay.app.forebay import Forebay
from forebay.model.exchange import Action, Submitted
from forebay.model.job import Job
from forebay.model.query import Query
from forebay.model.task import Role, Status
from tests.acceptance.fleet import Fleet, until
from tests.acceptance.load import CLIENTS, Told, struck, was_accepted
from tests.pipelines.ground import pdf
from tests.server.ground import DOCUMENT, PDF, Service, problem, received, serving
from tests.server.test_streams import listened
from tests.servers.fresh import fresh_schema
from tests.servers.postgres import postgres
from tests.servers.server import Server


def book() -> bytes:
    """Of three chunks, and so large that it is being written before all of it has come."""
    raw = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf(60))) as made:
        made.Root.Padding = made.make_stream(Random(1).randbytes(1_500_000))
        made.save(raw)
    return raw.getvalue()


@pytest.fixture
def fleet(postgres_server: Server, tmp_path: Path) -> Iterator[Fleet]:
    with fresh_schema(postgres_server) as address, Fleet(tmp_path, address) as made:
        yield made


@contextmanager
def begun(service: Service, body: bytes, key: str) -> Iterator[socket.socket]:
    """An upload that lacks its last byte."""
    with socket.create_connection(service.place, 20) as line:
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\nConnection: close\r\n"
        line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:-1])
        yield line


@pytest.mark.slow
def test_two_servers_and_two_workers_on_postgresql_serve_one_job(fleet: Fleet, tmp_path: Path) -> None:
    whole_book = book()
    both = [service for service, _ in fleet.serve(2)]
    first, second = both
    ledger, chunks = fleet.app.ledger, "ocr.local"
    ledger.pause(chunks, Action(who="test"))
    workers = {name: fleet.work("--name", name) for name in ("ann", "bob")}
    key = {"idempotency-key": "order-1"}
    again = partial(second.post, "/v1/jobs", headers=PDF | key)
    with begun(first, whole_book, "order-1") as line:
        until(lambda: [*(tmp_path / "blobs" / "tmp").iterdir()])
        problem(again(content=whole_book), 409, "request_running")
        line.sendall(whole_book[-1:])
        assert was_accepted(received(line))
    answer = again(content=whole_book)
    assert (answer.status_code, answer.headers["forebay-replayed"]) == (202, "true")
    problem(again(content=DOCUMENT), 422, "idempotency_conflict")
    path = answer.headers["location"]
    job_id = answer.json()["id"]
    assert [[job["id"] for job in each.get("/v1/jobs").json()["items"]] for each in both] == [[job_id]] * 2

    with ThreadPoolExecutor(2) as pool:
        following = [pool.submit(listened, each, f"{path}/events") for each in both]
        until(lambda: _job(fleet.app, job_id).pending_count == 3 and len(_workers(first)) == 2)
        # Each does its share: who has split it ends, and the other one reads its pages.
        splitter = _who_did(fleet.app, job_id, Role.SPLIT)
        reader = {"ann", "bob"} - splitter
        assert _workers(first) == _workers(second)
        assert second.post(f"/v1/workers/{_workers(second)[min(splitter)]}/drain").status_code == 202
        assert workers[min(splitter)].ended() == 0
        ledger.resume(chunks, Action(who="test"))
        told = [each.result(50) for each in following]
    assert _who_did(fleet.app, job_id, Role.CHUNK) == reader
    assert [_workers(each).keys() for each in both] == [reader] * 2
    assert told[0] == told[1]
    numbers = [int(event["id"]) for event in told[0] if "id" in event]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert [event["event"] for event in told[0][-2:]] == ["job_completed", "end"]
    # Who lost the line to one of them goes on at the other.
    middle = str(numbers[len(numbers) // 2])
    rest = [listened(each, f"{path}/events", headers={"last-event-id": middle}) for each in both]
    assert rest[0] == rest[1] == told[0][numbers.index(int(middle)) + 1 :]

    for look in (path, f"{path}/chunks", "/v1/audit", "/v1/usage"):
        found = [each.get(look) for each in both]
        assert found[0].status_code == 200
        assert found[0].json() == found[1].json()
    _check_one_result(both, path)
    workers[min(reader)].struck(signal.SIGTERM)
    assert workers[min(reader)].ended() == 0


def _check_one_result(both: list[Service], path: str) -> None:
    whole = [each.get(f"{path}/result") for each in both]
    assert whole[0].content == whole[1].content
    assert whole[0].json()["summary"]["page_count"] == 60
    etag = whole[0].headers["etag"]
    assert whole[1].headers["etag"] == etag
    for each in both:
        assert each.get(f"{path}/result", headers={"if-none-match": etag}).status_code == 304
        part = each.get(f"{path}/result", headers={"range": "bytes=10-99"})
        assert (part.status_code, part.content) == (206, whole[0].content[10:100])


def _workers(service: Service) -> dict[str, str]:
    """Sessions by the names of their workers."""
    return {worker["worker"]: worker["id"] for worker in service.get("/v1/workers").json()["items"]}


def _who_did(app: Forebay, job_id: str, role: Role) -> set[str]:
    tasks = app.ledger.list_tasks(Query(job_id=job_id, role=role)).items
    return {attempt.worker for task in tasks for attempt in app.history(task.id)}


def _job(app: Forebay, job_id: str) -> Job:
    job = app.ledger.get_job(job_id)
    assert job is not None, "an accepted upload was lost"
    return job


def lost(app: Forebay, told: Told) -> list[str]:
    """What was accepted and has not become a job that ended well."""
    found = {job_id: app.ledger.get_job(job_id) for job_id in told.all_accepted}
    return [job_id for job_id, job in found.items() if job is None or job.status is not Status.COMPLETED]


@pytest.mark.slow
def test_servers_that_are_ended_or_killed_under_load_lose_no_upload_that_they_accepted(
    fleet: Fleet, tmp_path: Path
) -> None:
    (first, one), (second, two) = fleet.serve(2)
    ended = struck(first, first.stop)
    assert one.ended() == 0
    # What was on its way is taken in to its end.
    assert [was_accepted(answer) for answer in ended.half_way] == [True] * 3
    assert [*(tmp_path / "blobs" / "tmp").iterdir()] == []
    stored = len(fleet.app.ledger.list_jobs(Query(size=500)).items)
    assert stored == len(ended.all_accepted)
    killed = struck(second, partial(two.struck, signal.SIGKILL))
    assert two.ended() == -signal.SIGKILL
    # No job is made of a half; one more for each client, of which the answer did not come through, is the most.
    assert [was_accepted(answer) for answer in killed.half_way] == [False] * 3
    more = len(fleet.app.ledger.list_jobs(Query(size=500)).items) - stored
    assert len(killed.accepted) <= more <= len(killed.accepted) + CLIENTS
    assert fleet.work("--until-idle").ended() == 0
    assert lost(fleet.app, ended) == lost(fleet.app, killed) == []


@pytest.mark.slow
def test_a_server_that_answers_before_it_has_stored_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hasty(*_: object) -> Submitted:
        return Submitted(ids.random_id(), "created")

    with Forebay(f"sqlite:///{tmp_path}/forebay.db", blobs=f"file://{tmp_path}/blobs") as app:
        monkeypatch.setattr(app, "store", hasty)
        with serving(app) as service:
            told = struck(service, service.stop)
        assert lost(app, told) == told.all_accepted


class Poller:
    """Looks at a job again and again, as clients do."""

    def __init__(self, base: str, path: str) -> None:
        self.answers: list[httpx2.Response] = []
        self._base = base
        self._path = path
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with httpx2.Client(base_url=self._base, timeout=20, trust_env=False) as own:
            ends_at = time.monotonic() + 50
            while time.monotonic() < ends_at:
                self.answers.append(answer := own.get(self._path))
                if answer.status_code == 200 and answer.json()["status"] == "completed":
                    return
                time.sleep(0.05)

    @property
    def statuses(self) -> list[int]:
        return [answer.status_code for answer in [*self.answers]]

    def close(self) -> None:
        self._thread.join(60)


def waited(base: str) -> httpx2.Response:
    with httpx2.Client(base_url=base, timeout=60, trust_env=False) as own:
        return own.post("/v1/jobs", content=DOCUMENT + b"\n% another\n", headers=PDF | {"prefer": "wait=50"})


@pytest.mark.slow
def test_a_restart_of_the_database_is_survived_by_all_who_poll_listen_and_wait(tmp_path: Path) -> None:
    with postgres(own=True) as database, Fleet(tmp_path, database.url) as fleet, ThreadPoolExecutor(2) as pool:
        worker = fleet.work()
        ((service, server),) = fleet.serve()
        ledger, chunks = fleet.app.ledger, "ocr.local"
        ledger.pause(chunks, Action(who="test"))
        job_id = service.submit()
        events = pool.submit(listened, service, f"/v1/jobs/{job_id}/events", timeout=60)
        waiting = pool.submit(waited, service.base)
        poller = Poller(service.base, f"/v1/jobs/{job_id}")
        until(lambda: _job(fleet.app, job_id).pending_count)
        until(lambda: len(ledger.list_jobs(Query()).items) == 2)  # who waits has been accepted

        database.kill()
        until(lambda: 503 in poller.statuses)
        with httpx2.Client(base_url=service.base, timeout=20, trust_env=False) as other:
            assert problem(other.get("/readyz"), 503, "not_ready")["checks"]["ledger"]
            assert other.get("/livez").status_code == 200
        database.start()

        until(lambda: poller.statuses[-1] == 200)
        ledger.resume(chunks, Action(who="test"))
        told, answer = events.result(50), waiting.result(50)
        poller.close()
        # The same processes, and nobody was told anything but the truth.
        assert (worker.running.poll(), server.running.poll()) == (None, None)
        _check_polled(poller)
        numbers = [int(event["id"]) for event in told if "id" in event]
        assert numbers == [*range(1, len(numbers) + 1)]
        assert [event["event"] for event in told[-2:]] == ["job_completed", "end"]
        assert answer.status_code == 201, answer.text
        assert answer.json()["status"] == "completed"
        for process in (worker, server):
            process.struck(signal.SIGTERM)
            assert process.ended() == 0


def _check_polled(poller: Poller) -> None:
    assert set(poller.statuses) == {200, 503}
    for answer in poller.answers:
        if answer.status_code == 503:
            assert int(problem(answer, 503, answer.json()["code"])["retry_after"]) >= 1
    changes = [pair for pair in pairwise(poller.statuses) if pair[0] != pair[1]]
    assert changes[-1] == (503, 200)
