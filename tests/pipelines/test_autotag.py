"""The pipeline of tagged PDFs: the same steps as for text, with another sort of result."""

from __future__ import annotations

import io
from typing import Any

import pytest

from forebay import Chunk, Context, Permanent, Reschedule
from forebay.errors import BadInput
from forebay.model.budget import Budget
from forebay.model.task import Status, WaitReason
from forebay.processors.base import Price
from forebay.processors.function import FunctionProcessor
from forebay.simulate.tagging import tagged
from tests.autotag.ground import checked, words
from tests.pipelines.ground import COMPLETED, FAILED, Ground, pdf


class Tagger:
    """Tags as an API would; `refuses` are pages that it does not take, `sleeps` how often it asks to wait first."""

    def __init__(self, ground: Ground, **options: Any) -> None:  # noqa: ANN401 - of FunctionProcessor
        self.calls: list[tuple[int, int]] = []
        self.sent: dict[int, bytes] = {}
        self.begun = 0
        self.refuses: set[int] = set()
        self.sleeps = 0
        options = {"max_pages": 2, **options}
        ground.app.documents.pipeline.add(
            FunctionProcessor(name="tagger", function=self._tag, pipeline="autotag", **options)
        )
        self.ground = ground

    async def _tag(self, _: Context, chunk: Chunk) -> bytes:
        if self.sleeps:
            if chunk.under_way.job is None:
                self.begun += 1
                self.sent[chunk.page_start] = chunk.read()
                await chunk.under_way.begin({"first": chunk.page_start})
                raise Reschedule("begun", delay_s=0)
            self.sleeps -= 1
            if self.sleeps:
                assert chunk.read() == b""
                raise Reschedule("not yet", delay_s=0)
            return tagged(self.sent[chunk.under_way.job["first"]], language="en")  # type: ignore[index]  # as above
        self.calls.append((chunk.page_start, chunk.page_end))
        if self.refuses & set(range(chunk.page_start, chunk.page_end + 1)):
            raise Permanent("Too complex.", error_class="refused")
        return tagged(chunk.read(), language="en")

    def run(self, pages: int, **terms: Any) -> Any:  # noqa: ANN401 - a job
        job_id = self.ground.app.process(io.BytesIO(pdf(pages)), name="a.pdf", processor="tagger", **terms).id
        self.ground.work()
        return self.ground.job(job_id)

    def result(self, job_id: str) -> bytes:
        found = self.ground.app.result(job_id)
        assert isinstance(found, bytes)
        return found


def test_chunks_become_one_tagged_document(ground: Ground) -> None:
    tagger = Tagger(ground)
    job = tagger.run(5)
    assert (job.status, job.pipeline) == (COMPLETED, "autotag")
    assert sorted(tagger.calls) == [(1, 2), (3, 4), (5, 5)]
    assert [text for _, text in words(tagger.result(job.id))] == [f"Page {number}" for number in range(1, 6)]
    assert {task.kind for task in ground.chunks(job.id)} == {"autotag.tagger"}
    merge = ground.app.ledger.get(job.merge_id or "")
    assert merge is not None
    assert isinstance(merge.result, dict)
    assert merge.result["page_count"] == 5
    assert merge.result["problem_count"] == 0


@pytest.mark.slow
def test_as_many_chunks_as_there_are_pages_fit_into_one_merge(ground: Ground) -> None:
    """More than a parser may have files open."""
    tagger = Tagger(ground, max_pages=1)
    job = tagger.run(70)
    assert job.status is COMPLETED
    assert checked(tagger.result(job.id))["mark_count"] == 70


@pytest.mark.slow
def test_what_is_stored_is_used_again(ground: Ground) -> None:
    tagger = Tagger(ground)
    first = tagger.run(3)
    again = tagger.run(3, allow_holes=True)
    assert again.id != first.id
    assert len(tagger.calls) == 2
    assert {task.kind for task in ground.chunks(again.id)} == {"autotag.stored"}
    assert tagger.result(again.id) == tagger.result(first.id)


@pytest.mark.slow
def test_a_page_that_cannot_be_tagged_fails_the_document_unless_holes_are_allowed(ground: Ground) -> None:
    tagger = Tagger(ground, max_pages=4)
    tagger.refuses = {2}
    failed = tagger.run(4)
    assert failed.status is FAILED
    assert failed.error_class == "autotag_failed"
    holed = tagger.run(4, allow_holes=True)
    assert holed.status is COMPLETED
    whole = tagger.result(holed.id)
    assert [text for _, text in words(whole)] == ["Page 1", "Page 3", "Page 4"]
    said = checked(whole, (2, 2))
    assert (said["page_count"], said["problem_count"]) == (4, 0)
    merge = ground.app.ledger.get(holed.merge_id or "")
    assert merge is not None
    assert isinstance(merge.result, dict)
    assert merge.result["holes"] == [
        {"page_start": 2, "page_end": 2, "error_class": "refused", "error_text": "Too complex."}
    ]


@pytest.mark.parametrize("answer", [b"rubbish", pdf(2), tagged(pdf(1), language="en")], ids=["none", "bare", "short"])
def test_what_are_not_the_tagged_pages_is_a_bad_response(ground: Ground, answer: bytes) -> None:
    async def wrong(_: Context, __: Chunk) -> bytes:
        return answer

    ground.app.documents.pipeline.add(FunctionProcessor(name="wrong", function=wrong, pipeline="autotag", max_pages=2))
    job_id = ground.app.process(io.BytesIO(pdf(2)), name="a.pdf", processor="wrong").id
    ground.work_until(lambda: any(task.error_class for task in ground.chunks(job_id)))
    (task,) = ground.chunks(job_id)
    assert (task.status, task.error_class) == (Status.PENDING, "bad_response")


@pytest.mark.slow
def test_a_job_that_gave_what_are_not_the_tagged_pages_is_over_and_a_retry_begins_another(ground: Ground) -> None:
    sent: list[bytes] = []

    async def second(_: Context, chunk: Chunk) -> bytes:
        if chunk.under_way.job is None:
            sent.append(chunk.read())
            await chunk.under_way.begin({"number": len(sent)})
            raise Reschedule("begun", delay_s=0)
        return pdf(2) if chunk.under_way.job["number"] == 1 else tagged(sent[-1], language="en")

    ground.app.documents.pipeline.add(
        FunctionProcessor(name="second", function=second, pipeline="autotag", max_pages=2)
    )
    job_id = ground.app.process(io.BytesIO(pdf(2)), name="a.pdf", processor="second").id
    ground.work()
    assert ground.job(job_id).status is COMPLETED
    assert len(sent) == 2
    (task,) = ground.chunks(job_id)
    assert task.retry_count == 1


@pytest.mark.slow
def test_a_result_that_was_lost_is_made_again(ground: Ground) -> None:
    tagger = Tagger(ground)
    job_id = ground.app.process(io.BytesIO(pdf(3)), name="a.pdf", processor="tagger").id
    ground.work_until(lambda: all(task.status is COMPLETED for task in ground.chunks(job_id)) and len(tagger.calls) > 1)
    ground.work()
    blob = ground.chunks(job_id)[0].result_blob
    assert blob is not None
    ground.blob_file(blob).write_bytes(b"damaged")
    again = tagger.run(3, allow_holes=True)
    assert again.status is COMPLETED
    assert len(tagger.calls) == 3


def test_what_a_provider_works_on_is_remembered_through_every_attempt_and_booked_once(ground: Ground) -> None:
    tagger = Tagger(ground, price=Price(per_page={"transactions": 10}))
    tagger.sleeps = 4
    job = tagger.run(2)
    assert job.status is COMPLETED
    assert tagger.begun == 1
    used = {row.unit: row.amount for row in ground.app.ledger.used(tenant=None, since=0.0)}
    assert (used["transactions"], used["pages"]) == (20, 2)
    (task,) = ground.chunks(job.id)
    assert task.reschedule_count == 4


@pytest.mark.slow
def test_without_reuse_what_others_have_under_way_is_not_looked_for(ground: Ground) -> None:
    tagger = Tagger(ground)
    tagger.sleeps = 2
    tagger.run(2)
    tagger.sleeps = 2
    tagger.run(2, reuse=False)
    assert tagger.begun == 2


@pytest.mark.slow
def test_a_budget_holds_back_before_it_is_begun_and_not_after(ground: Ground) -> None:
    ground.app.budget(Budget(unit="transactions", most=20, processor="tagger"))
    tagger = Tagger(ground, max_pages=1, price=Price(per_page={"transactions": 10}))
    tagger.sleeps = 10**6
    job_id = ground.app.process(io.BytesIO(pdf(3)), name="a.pdf", processor="tagger").id
    ground.work_until(lambda: any(task.wait_reason is WaitReason.BUDGET for task in ground.chunks(job_id)))
    assert tagger.begun == 2
    tagger.sleeps = 1
    ground.work_until(lambda: any(task.status is COMPLETED for task in ground.chunks(job_id)))


def test_a_processor_of_a_pipeline_that_there_is_not_is_refused(ground: Ground) -> None:
    async def nothing(_: Context, __: Chunk) -> bytes:
        return b""

    with pytest.raises(BadInput, match="There are: ocr, autotag, segment"):
        ground.app.documents.pipeline.add(FunctionProcessor(name="x", function=nothing, pipeline="summary"))
