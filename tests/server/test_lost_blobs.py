"""Blobs that are lost: their store's place is not told, and results are made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.engine.context import Context
from tests.pipelines.works import work
from tests.server.ground import Service, problem


def stored(folder: Path) -> list[Path]:
    return [each for each in (folder / "blobs" / "blobs").rglob("*") if each.is_file()]


def remove(folder: Path) -> None:
    for each in stored(folder):
        each.unlink()


def damage(folder: Path) -> None:
    for each in stored(folder):
        each.chmod(0o600)
        each.write_bytes(each.read_bytes()[:-3] + b"xyz")


def told(service: Service, job_id: str) -> str:
    """All that a tenant can read of a job."""
    paths = [
        "",
        "/why",
        "/chunks",
        "/chunks/0",
        "/result",
        "/result?format=md",
        "/result?partial=1",
        "/result?format=pdf",
    ]
    answers = [service.get(f"/v1/jobs/{job_id}{path}") for path in paths]
    for chunk in service.get(f"/v1/jobs/{job_id}/chunks").json()["items"]:
        answers += [service.get(f"/v1/tasks/{chunk['id']}"), service.get(f"/v1/tasks/{chunk['id']}/history")]
    return "\n".join(answer.text for answer in answers)


@pytest.mark.parametrize("lose", [remove, damage])
def test_the_place_of_the_store_is_told_to_operators_only(
    service: Service,
    tmp_path: Path,
    lose: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "forebay")  # whatever a program in this process chose
    completed = service.submit()
    work(service.app)
    lose(tmp_path)
    assert service.get(f"/v1/jobs/{completed}/result").status_code == (404 if lose is remove else 500)
    assert str(tmp_path) not in told(service, completed)
    assert any(str(tmp_path) in str(getattr(record, "fields", "")) for record in caplog.records)

    waiting = service.submit(params={"reuse": False})
    lose(tmp_path)
    caplog.clear()
    work(service.app)
    said = told(service, waiting)
    assert "The stored copy of the document is lost" in said
    assert str(tmp_path) not in said
    assert any(str(tmp_path) in str(getattr(record, "fields", "")) for record in caplog.records)


@pytest.mark.parametrize("lose", [remove, damage])
def test_a_lost_result_is_made_again_by_a_retry(service: Service, tmp_path: Path, lose: Callable[[Path], None]) -> None:
    job_id = service.submit()
    work(service.app)
    path = f"/v1/jobs/{job_id}"
    before = service.get(f"{path}/result").content
    problem(service.post(f"{path}/retry"), 409, "not_retryable")
    problem(service.post(f"{path}/retry", json={"force": True}), 409, "not_retryable")
    assert service.get(path).json()["generation"] == 1

    merge = service.app.ledger.get(service.get(path).json()["merge_id"])
    assert merge is not None
    (result,) = [each for each in stored(tmp_path) if each.name == merge.result_blob]
    if lose is remove:
        result.unlink()
    else:
        result.chmod(0o600)
        result.write_bytes(b"x" * result.stat().st_size)
    assert service.post(f"{path}/retry").json() == {"id": job_id, "outcome": "done"}
    work(service.app)
    assert service.get(f"{path}/result").content == before
    assert "result_lost" in [event.name for event in service.app.ledger.events(job_id)]
    assert [each.status for each in service.app.ledger.history(service.app.chunk(job_id, 0).id)] == ["completed"]


def test_a_lost_result_is_made_again_when_the_document_is_handed_in_again(service: Service, tmp_path: Path) -> None:
    job_id = service.submit()
    work(service.app)
    path = f"/v1/jobs/{job_id}"
    before = service.get(f"{path}/result").content
    assert service.submit() == job_id
    assert service.get(path).json()["status"] == "completed"
    remove(tmp_path)
    problem(service.get(f"{path}/result"), 404, "blob_missing")
    assert service.submit() == job_id
    assert service.get(path).json()["status"] != "completed"
    work(service.app)
    assert service.get(f"{path}/result").content == before
    assert service.get(f"{path}/chunks/0").status_code == 200


def test_a_retry_of_a_job_that_merges_nothing_is_refused_once_it_is_done(service: Service) -> None:
    halves = service.app.pipeline("halves")

    @halves.process()
    async def half(ctx: Context, number: int) -> float:
        return number / 2

    job_id = service.app.start("halves", chunks=[{"number": 2}]).id
    work(service.app)
    assert service.get(f"/v1/jobs/{job_id}").json()["status"] == "completed"
    problem(service.post(f"/v1/jobs/{job_id}/retry"), 409, "not_retryable")
    assert [each.done for each in service.app.retry(job_id)] == [False]
