"""Retry of a document: only what failed is processed again, and what is stored is checked before it is used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from forebay.engine.signals import Permanent, Retry
from forebay.errors import BadInput, NotRetryable, RetryLimitExceeded
from forebay.model.document import Page
from forebay.model.query import Query
from forebay.model.task import Role, Task
from forebay.processors.base import Chunk
from tests.pipelines.ground import COMPLETED, FAILED, Ground, as_pages, page_texts, pdf


def failing_on(page: int) -> object:
    def answer(chunk: Chunk) -> Sequence[Page]:
        if chunk.page_start == page:
            raise Permanent("it is down", error_class="service_unavailable")
        return as_pages(chunk)

    return answer


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_chunk_that_was_retried_three_times_is_refused_without_force(ground: Ground) -> None:
    ground.register(max_pages=1)
    ground.answer = failing_on(2)  # type: ignore[assignment]
    job = ground.run(pdf(3))
    for _ in range(3):
        assert ground.app.retry(job.id)[0].done
        ground.work()
    chunk = ground.chunk(job.id, 1)
    assert (chunk.retry_count, chunk.requested_retry_count) == (0, 3)
    assert (chunk.error_text or "").startswith("PERMANENT: it is down")
    acted = ground.app.retry(job.id)[0]
    assert acted.outcome == RetryLimitExceeded.code
    assert "chunk 1, page 2 (3 of 3" in acted.text
    assert ground.job(job.id).error_class == "ocr_failed"
    assert "retry_partial_failure" in dict(ground.events(job.id))
    ground.answer = as_pages
    assert ground.app.retry(job.id, force=True)[0].done
    ground.work()
    assert ground.job(job.id).status is COMPLETED


@pytest.mark.slow
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


@pytest.mark.slow
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
            raise Permanent("it is down", error_class="service_unavailable")
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


def down(_: Chunk) -> Sequence[Page]:
    raise Retry("down", error_class="service_unavailable", delay_s=0.0)


@pytest.mark.slow
def test_a_document_that_failed_in_an_outage_needs_no_force_afterwards(ground: Ground) -> None:
    ground.register(max_pages=1)
    ground.answer = down
    job = ground.run(pdf(1))
    assert (job.status, len(ground.calls)) == (FAILED, 4)
    assert ground.app.retry(job.id)[0].done
    task = ground.chunk(job.id, 0)
    assert (task.status, task.retry_count, task.requested_retry_count) == ("pending", 0, 1)
    assert (task.error_class, task.error_text) == (None, None)
    ground.work()
    assert len(ground.calls) == 8  # its own retries began again
    ground.answer = as_pages
    assert ground.app.retry(job.id)[0].done
    ground.work()
    assert ground.job(job.id).status is COMPLETED


def test_what_a_document_cannot_help_is_not_retried_without_force(ground: Ground) -> None:
    ground.register(max_pages=1)

    def torn(_: Chunk) -> Sequence[Page]:
        raise Permanent("torn", error_class="corrupted_content")

    ground.answer = torn
    job = ground.run(pdf(1))
    acted = ground.app.retry(job.id)[0]
    assert (acted.outcome, "corrupted_content" in acted.text) == (NotRetryable.code, True)
    ground.work()
    assert len(ground.calls) == 1


def test_a_chunks_record_has_its_pages_and_the_jobs_error_names_them(ground: Ground) -> None:
    ground.register(max_pages=2)

    def answer(chunk: Chunk) -> Sequence[Page]:
        if chunk.page_start > 2:
            raise Permanent("it is down", error_class="service_unavailable")
        return as_pages(chunk)

    ground.answer = answer
    job = ground.run(pdf(7))
    chunks = sorted(ground.app.ledger.list_tasks(Query(job_id=job.id, role=Role.CHUNK)).items, key=lambda each: each.id)
    pages = sorted((each.chunk_index, each.page_start, each.page_end) for each in chunks)
    assert pages == [(0, 1, 2), (1, 3, 4), (2, 5, 6), (3, 7, 7)]
    assert job.error_text == "3 of 4 chunks failed: pages 3-7 (service_unavailable: it is down)"


OPTIONS = {"timeout_s": 5.0, "max_retries": 7, "max_reschedules": 2}


def options_of(task: Task) -> dict[str, object]:
    return {name: getattr(task, name) for name in OPTIONS}


def test_the_options_of_chunks_reach_the_chunks_and_only_them(ground: Ground) -> None:
    ground.register(max_pages=1)
    job_id = ground.submit(pdf(2), **OPTIONS)
    ground.work()
    tasks = ground.app.ledger.list_tasks(Query(job_id=job_id)).items
    of_chunks = [options_of(task) for task in tasks if task.role is Role.CHUNK]
    others = [options_of(task) for task in tasks if task.role is not Role.CHUNK]
    assert of_chunks == [OPTIONS] * 2
    assert len(others) == 2
    assert all(each["max_retries"] == 3 and each["max_reschedules"] is None for each in others)
    with pytest.raises(BadInput):
        ground.submit(pdf(2), max_retries=-1)


def test_a_chunk_that_is_cut_in_halves_hands_its_options_on(ground: Ground) -> None:
    ground.register(max_pages=4)

    def answer(chunk: Chunk) -> Sequence[Page]:
        if chunk.page_end - chunk.page_start > 1:
            raise Permanent("too much", error_class="replan")
        return as_pages(chunk)

    ground.answer = answer
    job_id = ground.submit(pdf(4), **OPTIONS)
    ground.work()
    chunks = ground.app.ledger.list_tasks(Query(job_id=job_id, role=Role.CHUNK)).items
    assert sorted((each.page_start, each.page_end) for each in chunks) == [(1, 2), (1, 4), (3, 4)]
    assert [options_of(each) for each in chunks] == [OPTIONS] * 3


@pytest.mark.slow
def test_the_options_of_chunks_belong_to_what_a_job_is_known_by(ground: Ground) -> None:
    ground.register(max_pages=1)
    first = ground.run(pdf(2))
    assert ground.submit(pdf(2)) == first.id
    again = ground.submit(pdf(2), max_retries=20)
    assert again != first.id
    ground.work()
    assert ground.job(again).status is COMPLETED
    assert len(ground.calls) == 2  # what is stored is not paid for again
