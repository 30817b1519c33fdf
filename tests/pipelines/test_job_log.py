"""Retry decisions and trouble with results are lines of the log, with job, chunk and pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from forebay import Forebay
from forebay.engine.signals import Permanent, Retry
from forebay.model.document import Page
from forebay.observe import subscribe
from forebay.processors.base import Chunk
from tests.pipelines.ground import Ground, as_pages, pdf

Heard = list[tuple[str, dict[str, object]]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    found: Heard = []
    unsubscribe = subscribe(lambda name, fields: found.append((name, dict(fields))))
    yield found
    unsubscribe()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with Forebay(f"sqlite:///{tmp_path}/forebay.db", blobs=f"file://{tmp_path}/blobs") as app:
        made = Ground(app, tmp_path)
        made.register(max_pages=1)
        yield made


def of(heard: Heard, name: str) -> list[dict[str, object]]:
    return [fields for each, fields in heard if each == name]


def failing(page: int, error: Callable[[], Exception]) -> Callable[[Chunk], Sequence[Page]]:
    def answer(chunk: Chunk) -> Sequence[Page]:
        if chunk.page_start == page:
            raise error()
        return as_pages(chunk)

    return answer


@pytest.mark.slow
def test_the_retry_of_a_document_can_be_followed_in_the_log(ground: Ground, heard: Heard) -> None:
    ground.answer = failing(2, lambda: Permanent("it is down", error_class="service_unavailable"))
    job = ground.run(pdf(3))
    failed = {"job_id": job.id, "index": 1, "page_start": 2, "page_end": 2, "error_class": "service_unavailable"}
    assert of(heard, "chunk_permanently_failed") == [failed]
    (line,) = of(heard, "task_failed")
    assert (line["job_id"], line["chunk"]) == (job.id, "chunk 1, page 2")
    assert of(heard, "all_chunks_completed_merging") == []

    ground.app.retry(job.id, who="anna", note="it is back")
    assert of(heard, "retrying_failed_chunks") == [{"job_id": job.id, "failed": 1, "kept": 2}]
    (asked,) = of(heard, "retry_requested")
    assert (asked["who"], asked["targets"], asked["done_count"], asked["force"]) == ("anna", [job.id], 1, False)
    ground.work()
    assert of(heard, "retry_partial_failure") == [{"job_id": job.id, "failed": 1, "kept": 2}]

    ground.answer = as_pages
    ground.app.retry(job.id)
    ground.work()
    assert of(heard, "all_chunks_completed_merging") == [{"job_id": job.id, "chunks": 3, "holes": 0}]


@pytest.mark.slow
def test_an_automatic_retry_names_job_and_chunk(ground: Ground, heard: Heard) -> None:
    ground.answer = failing(1, lambda: Retry("down", error_class="network_error", delay_s=0))
    job = ground.run(pdf(1), max_retries=1)
    (line,) = of(heard, "task_retried")
    assert (line["job_id"], line["chunk"], line["error_class"]) == (job.id, "chunk 0, page 1", "network_error")


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_a_result_that_was_lost_is_in_the_log(ground: Ground, heard: Heard, damage: str) -> None:
    ground.answer = failing(2, lambda: Permanent("it is down", error_class="service_unavailable"))
    job = ground.run(pdf(2))
    stored = ground.chunk(job.id, 0).result_blob
    assert stored is not None
    file = ground.blob_file(stored)
    if damage == "flipped":
        file.write_bytes(file.read_bytes()[:-2] + b"X\n")
    else:
        file.unlink()
    ground.answer = as_pages
    ground.app.retry(job.id)
    ground.work()
    if damage == "flipped":
        (line,) = of(heard, "chunk_result_checksum_mismatch")
        assert (line["job_id"], line["index"], line["expected"]) == (job.id, 0, stored)
        assert line["computed"] not in {None, stored}
    else:
        (line,) = of(heard, "chunk_result_load_failed")
        assert (line["job_id"], line["index"], line["expected"]) == (job.id, 0, stored)
