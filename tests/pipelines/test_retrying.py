"""Retry of a document: only what failed is processed again, and what is stored is checked before it is used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from forebay.engine.signals import Permanent, Retry
from forebay.errors import RetryLimitExceeded
from forebay.model.document import Page
from forebay.processors.base import Chunk
from tests.pipelines.ground import COMPLETED, FAILED, Ground, as_pages, page_texts, pdf


def failing_on(page: int) -> object:
    def answer(chunk: Chunk) -> Sequence[Page]:
        if chunk.page_start == page:
            raise Permanent("refused", error_class="refused")
        return as_pages(chunk)

    return answer


def test_ten_completed_and_one_failed_reprocesses_exactly_one_and_reads_ten_from_storage(ground: Ground) -> None:
    ground.register(max_pages=1)
    ground.answer = failing_on(7)  # type: ignore[assignment]
    job = ground.run(pdf(11))
    assert (job.status, job.completed_count, job.failed_count) == (FAILED, 10, 1)
    ground.calls.clear()
    ground.answer = as_pages
    assert ground.app.retry(job.id)[0].done
    ground.work()
    assert ground.calls == [(7, 7)]
    assert ground.job(job.id).status is COMPLETED
    assert page_texts(ground.result(job.id)) == [f"Page {n}" for n in range(1, 12)]
    events = dict(ground.events(job.id))
    assert events["retrying_failed_chunks"] == {"failed": 1, "kept": 10}
    assert events["all_chunks_completed_merging"] == {"chunks": 11, "holes": 0}
    assert events["chunk_permanently_failed"]["index"] == 6


def test_a_chunk_that_was_retried_three_times_is_refused_without_force(ground: Ground) -> None:
    ground.register(max_pages=1)
    ground.answer = failing_on(2)  # type: ignore[assignment]
    job = ground.run(pdf(3))
    for _ in range(3):
        assert ground.app.retry(job.id)[0].done
        ground.work()
    assert ground.chunk(job.id, 1).retry_count == 3
    acted = ground.app.retry(job.id)[0]
    assert acted.outcome == RetryLimitExceeded.code
    assert "chunk 1 (3 of 3)" in acted.text
    assert ground.job(job.id).error_class == "ocr_failed"
    assert "retry_partial_failure" in dict(ground.events(job.id))
    ground.answer = as_pages
    assert ground.app.retry(job.id, force=True)[0].done
    ground.work()
    assert ground.job(job.id).status is COMPLETED


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_one_flipped_byte_or_a_missing_file_is_redone_and_never_served(ground: Ground, damage: str) -> None:
    ground.register(max_pages=1)
    ground.answer = failing_on(3)  # type: ignore[assignment]
    job = ground.run(pdf(3))
    stored = ground.chunk(job.id, 0).result_blob
    assert stored is not None
    file = ground.blob_file(stored)
    whole = file.read_bytes()
    if damage == "flipped":
        file.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    else:
        file.unlink()
    ground.calls.clear()
    ground.answer = as_pages
    ground.app.retry(job.id)
    ground.work()
    assert sorted(ground.calls) == [(1, 1), (3, 3)]
    assert ground.job(job.id).status is COMPLETED
    assert page_texts(ground.result(job.id)) == ["Page 1", "Page 2", "Page 3"]
    assert ground.chunk(job.id, 0).retry_count == 0
    events = dict(ground.events(job.id))
    if damage == "flipped":
        told = events["chunk_result_checksum_mismatch"]
        assert told["expected"] == stored
        assert told["computed"] not in {None, stored}
    else:
        assert events["chunk_result_load_failed"]["expected"] == stored


def test_a_damaged_result_of_before_is_not_used_again(ground: Ground) -> None:
    ground.register(max_pages=1)
    first = ground.run(pdf(2))
    stored = ground.chunk(first.id, 0).result_blob
    assert stored is not None
    ground.blob_file(stored).write_bytes(b"{}\n")
    ground.calls.clear()
    other = ground.run(pdf(2), allow_holes=True)
    assert ground.calls == [(1, 1)]
    assert page_texts(ground.result(other.id)) == ["Page 1", "Page 2"]


def test_a_retry_during_a_run_waits_for_the_chunks_that_are_open(ground: Ground) -> None:
    released = threading.Event()
    failed = threading.Event()

    def answer(chunk: Chunk) -> Sequence[Page]:
        if chunk.page_start == 1 and not failed.is_set():
            failed.set()
            raise Permanent("refused", error_class="refused")
        return as_pages(chunk)

    async def slowly(ctx: object, chunk: Chunk) -> Sequence[Page]:
        ground.calls.append((chunk.page_start, chunk.page_end))
        if chunk.page_start == 2:
            await asyncio.to_thread(released.wait, 30)
        return answer(chunk)

    ground.app.processor("noted", max_pages=1)(slowly)
    job_id = ground.submit(pdf(2))
    worker = threading.Thread(target=ground.work)
    worker.start()
    ground.wait_for(lambda: failed.is_set() and ground.job(job_id).failed_count == 1)
    assert ground.app.retry(job_id)[0].done
    ground.wait_for(lambda: ground.calls.count((1, 1)) == 2 and ground.job(job_id).open_count == 1)
    assert ground.job(job_id).merge_id is None
    released.set()
    worker.join(60)
    assert ground.job(job_id).status is COMPLETED
    assert sorted(ground.calls) == [(1, 1), (1, 1), (2, 2)]


def test_retries_of_their_own_and_by_people_share_a_count(ground: Ground) -> None:
    ground.register(max_pages=1)

    def answer(chunk: Chunk) -> Sequence[Page]:
        raise Retry("down", error_class="service_unavailable", delay_s=0.0)

    ground.answer = answer
    job = ground.run(pdf(1))
    assert (job.status, len(ground.calls)) == (FAILED, 4)
    assert ground.app.retry(job.id)[0].outcome == RetryLimitExceeded.code
