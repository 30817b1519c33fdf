"""Retry of what has no retries left: refused by name, unless it is forced."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.app.forebay import Forebay
from forebay.engine.signals import Permanent
from forebay.model.document import Page
from forebay.processors.base import Chunk
from tests.pipelines.ground import Ground, as_pages, pdf
from tests.server.ground import Service, problem


def torn(chunk: Chunk) -> list[Page]:
    if chunk.page_start == 2:
        raise Permanent("It is down", error_class="service_unavailable")
    return as_pages(chunk)


@pytest.fixture
def ground(app: Forebay, tmp_path: Path) -> Ground:
    made = Ground(app, tmp_path, answer=torn)
    made.register(max_pages=1)
    return made


def exhausted(ground: Ground, service: Service) -> str:
    """A job of which one chunk was retried as often as it may be."""
    job_id = service.submit(pdf(3), params={"processor": "noted"})
    ground.work()
    for _ in range(3):
        assert service.post(f"/v1/jobs/{job_id}/retry").status_code == 202
        ground.work()
    return job_id


@pytest.mark.slow
def test_a_job_without_retries_is_refused_by_name_and_runs_again_by_force(service: Service, ground: Ground) -> None:
    job_id = exhausted(ground, service)
    path = f"/v1/jobs/{job_id}"
    for order in (None, {}, {"force": False, "note": "once more"}):
        found = problem(service.post(f"{path}/retry", json=order), 409, "RETRY_LIMIT_EXCEEDED")
        assert "chunk 1, page 2 (3 of 3 " in found["detail"]
        assert "force" in found["remedy"]
        assert "--" not in found["detail"] + found["remedy"]
    stands = service.get(path).json()
    assert (stands["status"], stands["generation"]) == ("failed", 4)

    ground.answer = as_pages
    calls = [*ground.calls]
    done = service.post(f"{path}/retry", json={"force": True, "note": "mended"})
    assert (done.status_code, done.json()) == (202, {"id": job_id, "outcome": "done"})
    ground.work()
    assert service.get(path).json()["status"] == "completed"
    assert ground.calls == [*calls, (2, 2)]
    assert ground.chunk(job_id, 1).requested_retry_count == 0
    (line,) = [each for each in service.get("/v1/audit").json()["items"] if each["verb"] == "force"]
    assert line["note"] == "mended"


@pytest.mark.slow
def test_so_is_a_dead_letter(service: Service, ground: Ground) -> None:
    job_id = exhausted(ground, service)
    (letter,) = service.get("/v1/dead").json()["items"]
    path = f"/v1/dead/{letter['id']}/requeue"
    found = problem(service.post(path), 409, "RETRY_LIMIT_EXCEEDED")
    assert "force" in found["remedy"]
    ground.answer = as_pages
    assert service.post(path, json={"force": True}).status_code == 202
    ground.work()
    assert service.get(f"/v1/jobs/{job_id}").json()["status"] == "completed"
    problem(service.post(path, json={"force": True}), 409, "not_dead")


def test_the_options_of_chunks_are_sent_with_the_document(service: Service, ground: Ground) -> None:
    ground.answer = as_pages
    options = {"max_retries": "7", "timeout_s": "5", "max_reschedules": "2"}
    job_id = service.submit(pdf(2), params={"processor": "noted", **options})
    ground.work()
    items = service.get(f"/v1/jobs/{job_id}/chunks").json()["items"]
    assert [(each["max_retries"], each["timeout_s"], each["max_reschedules"]) for each in items] == [(7, 5.0, 2)] * 2
    assert [(each["page_start"], each["page_end"]) for each in items] == [(1, 1), (2, 2)]
    problem(service.post("/v1/jobs", params={"max_retries": "-1"}, content=pdf(1)), 422, "invalid_request")


def test_one_chunk_is_shown_with_what_was_read_of_it(service: Service, ground: Ground) -> None:
    job_id = service.submit(pdf(3), params={"processor": "noted"})
    ground.work()
    found = service.get(f"/v1/jobs/{job_id}/chunks/2").json()
    assert (found["chunk_index"], found["status"], found["page_start"]) == (2, "completed", 3)
    result = found["result"]
    assert (result["full_text"], result["page_count"], result["overall_confidence"]) == ("Page 3", 1, 1.0)
    assert [(each["text"], each["page"]) for each in result["bounding_boxes"]] == [("Page", 3), ("3", 3)]
    assert result["checksum"] == found["result_blob"]
    failed = service.get(f"/v1/jobs/{job_id}/chunks/1").json()
    assert (failed["status"], failed["error_class"], failed["result"]) == ("failed", "service_unavailable", None)
    problem(service.get(f"/v1/jobs/{job_id}/chunks/3"), 404, "chunk_not_found")
