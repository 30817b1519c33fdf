"""One chunk of a job by its number: its record, its result, and the exceptions of a refused retry."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from forebay import ids
from forebay.engine.signals import Permanent
from forebay.errors import ChunkNotFound, NotCompleted, NotFound, NotRetryable, ResultCorrupt, RetryLimitExceeded
from forebay.model.document import Page
from forebay.processors.base import Chunk
from tests.pipelines.ground import Ground, as_pages, pdf


def test_a_chunk_has_its_text_boxes_and_confidence(ground: Ground) -> None:
    ground.register(max_pages=2)
    job = ground.run(pdf(3))
    found = ground.app.chunk_result(job.id, 0)
    assert (found.chunk_index, found.page_start, found.page_end, found.page_count) == (0, 1, 2, 2)
    assert found.full_text == "Page 1\fPage 2"
    assert [(box["text"], box["page"]) for box in found.bounding_boxes] == [
        ("Page", 1),
        ("1", 1),
        ("Page", 2),
        ("2", 2),
    ]
    assert found.overall_confidence == 1.0
    assert found.checksum == ground.app.chunk(job.id, 0).result_blob


def test_a_chunk_whose_bytes_changed_is_not_shown(ground: Ground) -> None:
    ground.register(max_pages=1)
    job = ground.run(pdf(1))
    file = ground.blob_file(ground.app.chunk(job.id, 0).result_blob or "")
    file.write_bytes(file.read_bytes().replace(b"Page", b"Cage"))
    with pytest.raises(ResultCorrupt):
        ground.app.chunk_result(job.id, 0)


@pytest.mark.slow
def test_a_chunk_that_is_not_there_or_not_done_is_said_so(ground: Ground) -> None:
    ground.register(max_pages=1)
    job_id = ground.submit(pdf(1))
    with pytest.raises(ChunkNotFound):
        ground.app.chunk(job_id, 0)
    with pytest.raises(NotFound):
        ground.app.chunk(ids.random_id(), 0)

    def torn(_: Chunk) -> Sequence[Page]:
        raise Permanent("torn", error_class="corrupted_content")

    ground.answer = torn
    ground.work()
    with pytest.raises(NotCompleted):
        ground.app.chunk_result(job_id, 0)


@pytest.mark.slow
def test_a_chunk_that_was_cut_smaller_says_so(ground: Ground) -> None:
    ground.register(max_pages=2)

    def whole(chunk: Chunk) -> Sequence[Page]:
        if chunk.page_end > chunk.page_start:
            raise Permanent("too much", error_class="replan")
        return as_pages(chunk)

    ground.answer = whole
    job = ground.run(pdf(2))
    with pytest.raises(NotCompleted, match="cut into smaller"):
        ground.app.chunk_result(job.id, 0)


@pytest.mark.slow
def test_a_refused_retry_can_be_raised_as_the_exception_of_its_code(ground: Ground) -> None:
    ground.register(max_pages=1)

    def down(_: Chunk) -> Sequence[Page]:
        raise Permanent("down", error_class="service_unavailable")

    ground.answer = down
    job = ground.run(pdf(1))
    for _ in range(3):
        ground.app.retry(job.id, check=True)
        ground.work()
    with pytest.raises(RetryLimitExceeded, match="chunk 0, page 1"):
        ground.app.retry(ground.app.chunk(job.id, 0).id, check=True)
    with pytest.raises(NotFound):
        ground.app.retry(ids.random_id(), check=True)
    ground.answer = as_pages
    ground.app.retry(job.id, check=True, force=True)
    ground.work()
    with pytest.raises(NotRetryable):
        ground.app.retry(job.id, check=True)
