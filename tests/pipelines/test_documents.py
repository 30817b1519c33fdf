"""A document through the engine: split, process, merge, reuse, halving, holes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from forebay.app.working import awork, when_idle
from forebay.engine.signals import Permanent, Retry
from forebay.errors import BadInput, NotFound
from forebay.limits.usage import Holding
from forebay.model.document import Page
from forebay.processors.base import Chunk
from forebay.rules.chunks import piece_index
from forebay.testing.workers import action
from tests.pipelines.ground import COMPLETED, FAILED, Ground, as_pages, page_texts, pdf, texts
from tests.pipelines.works import lost_after_the_first


def test_a_document_is_split_processed_and_merged_in_order(ground: Ground) -> None:
    ground.register(max_pages=2)
    job = ground.run(pdf(5))
    assert (job.status, job.chunk_count, job.completed_count) == (COMPLETED, 3, 3)
    result = ground.result(job.id)
    assert page_texts(result) == [f"Page {n}" for n in range(1, 6)]
    assert [page["number"] for page in result["pages"]] == [1, 2, 3, 4, 5]
    assert [page["text_start"] for page in result["pages"]] == [0, 7, 14, 21, 28]
    assert result["summary"]["page_count"] == 5
    assert sorted(ground.calls) == [(1, 2), (3, 4), (5, 5)]


def test_the_same_bytes_again_make_no_call(ground: Ground) -> None:
    ground.register()
    first = ground.run(pdf(5))
    calls = list(ground.calls)
    again = ground.run(pdf(5))
    assert again.id == first.id
    assert ground.calls == calls


@pytest.mark.slow
def test_another_job_over_the_same_bytes_uses_what_is_stored(ground: Ground) -> None:
    ground.register()
    first = ground.run(pdf(5))
    calls = list(ground.calls)
    other = ground.run(pdf(5), allow_holes=True)
    assert other.id != first.id
    assert ground.calls == calls
    assert {task.kind for task in ground.chunks(other.id)} == {"ocr.stored"}
    assert ground.result(other.id) == ground.result(first.id)


def test_what_was_stored_since_a_document_was_split_is_used_all_the_same(ground: Ground) -> None:
    """Such as by an attempt that lost its lease after the call: its chunk is open, and its result is paid for."""
    ground.register()
    first, second = (ground.submit(pdf(4), allow_holes=holes) for holes in (False, True))
    ground.app.ledger.pause("ocr.noted", action())
    ground.work_until(lambda: [len(ground.chunks(each)) for each in (first, second)] == [2, 2])
    assert ground.calls == []
    ground.app.ledger.resume("ocr.noted", action())
    asyncio.run(asyncio.wait_for(awork(ground.app, when_idle(ground.app), concurrency=1), 60))
    assert sorted(ground.calls) == [(1, 2), (3, 4)]
    assert {ground.job(each).status for each in (first, second)} == {COMPLETED}


@pytest.mark.slow
def test_without_reuse_everything_is_processed_again(ground: Ground) -> None:
    ground.register()
    ground.run(pdf(5))
    ground.run(pdf(5), reuse=False)
    assert sorted(ground.calls) == sorted([(1, 2), (3, 4), (5, 5)] * 2)


@pytest.mark.parametrize("reuse", [True, False])
def test_what_was_stored_before_a_worker_was_lost_is_not_processed_again(
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
    reuse: bool,  # noqa: FBT001 - parametrized
) -> None:
    ground.register()
    lost_after_the_first(ground.app, monkeypatch)
    assert ground.run(pdf(2), reuse=reuse).status is COMPLETED
    assert ground.calls == [(1, 2)]


@pytest.mark.slow
def test_what_was_processed_without_reuse_is_there_for_others(ground: Ground) -> None:
    ground.register()
    ground.run(pdf(2), reuse=False)
    ground.run(pdf(2))
    assert ground.calls == [(1, 2)]


@pytest.mark.slow
def test_other_options_are_another_result(ground: Ground) -> None:
    ground.register()
    ground.run(pdf(2))
    ground.run(pdf(2), options={"language": "deu"})
    assert ground.calls == [(1, 2), (1, 2)]


@pytest.mark.slow
def test_one_tenant_does_not_use_what_another_paid_for(ground: Ground) -> None:
    ground.register()
    ground.run(pdf(2))
    ground.run(pdf(2), tenant="other")
    assert ground.calls == [(1, 2), (1, 2)]


def refusing(number: int, error: Exception) -> Callable[[Chunk], Sequence[Page]]:
    """Cannot read one page, and so no chunk that has it."""

    def answer(chunk: Chunk) -> Sequence[Page]:
        if f"Page {number}" in texts(chunk):
            raise error
        return as_pages(chunk)

    return answer


@pytest.mark.slow
def test_a_chunk_that_is_too_much_is_halved_without_touching_its_siblings(ground: Ground) -> None:
    def answer(chunk: Chunk) -> Sequence[Page]:
        if chunk.page_start >= 5 and chunk.page_count > 1:
            raise Permanent("too many pages", error_class="replan")
        return as_pages(chunk)

    ground.register(max_pages=4)
    ground.answer = answer
    job = ground.run(pdf(8))
    assert job.status is COMPLETED
    assert page_texts(ground.result(job.id)) == [f"Page {n}" for n in range(1, 9)]
    assert ground.calls.count((1, 4)) == 1
    assert sorted(ground.calls) == [(1, 4), (5, 5), (5, 6), (5, 8), (6, 6), (7, 7), (7, 8), (8, 8)]
    replanned = [fields for name, fields in ground.events(job.id) if name == "chunk_replanned"]
    assert {(each["page_start"], each["page_end"]) for each in replanned} == {(5, 8), (5, 6), (7, 8)}
    assert ground.chunk(job.id, piece_index(2, 8)).status is COMPLETED


def too_much(chunk: Chunk) -> Sequence[Page]:
    if chunk.page_count > 1:
        raise Permanent("too much", error_class="replan")
    return as_pages(chunk)


@pytest.mark.slow
def test_a_chunk_that_was_halved_is_cut_at_once_in_another_job_and_nothing_is_paid_again(ground: Ground) -> None:
    ground.register(max_pages=4)
    ground.answer = too_much
    first = ground.run(pdf(4))
    ground.calls.clear()
    ground.answer = as_pages  # it would take them whole now, and be paid for it
    second = ground.run(pdf(4), allow_holes=True)
    assert (second.id != first.id, second.status) == (True, COMPLETED)
    assert ground.calls == []
    assert page_texts(ground.result(second.id)) == page_texts(ground.result(first.id))
    cuts = [fields["error_text"] for name, fields in ground.events(second.id) if name == "chunk_replanned"]
    assert cuts == ["too much"] * 3


@pytest.mark.slow
def test_a_chunk_that_was_halved_is_tried_whole_again_if_nothing_of_it_is_stored(ground: Ground) -> None:
    def refuse(_: Chunk) -> Sequence[Page]:
        raise Permanent("no", error_class="refused")

    ground.register(max_pages=2)
    ground.answer = refuse
    assert ground.run(pdf(2)).status is FAILED
    ground.calls.clear()
    ground.answer = as_pages
    assert ground.run(pdf(2), allow_holes=True).status is COMPLETED
    assert ground.calls == [(1, 2)]


@pytest.mark.slow
def test_without_reuse_a_chunk_that_was_halved_is_tried_whole_again(ground: Ground) -> None:
    ground.register(max_pages=2)
    ground.answer = too_much
    ground.run(pdf(2))
    ground.calls.clear()
    ground.answer = as_pages
    ground.run(pdf(2), reuse=False)
    assert ground.calls == [(1, 2)]


def test_an_unreadable_page_fails_the_document_and_is_named(ground: Ground) -> None:
    ground.register(max_pages=4)
    ground.answer = refusing(3, Permanent("page 3 is damaged", error_class="corrupted_content"))
    job = ground.run(pdf(4))
    assert (job.status, job.error_class) == (FAILED, "ocr_failed")
    assert "corrupted_content: page 3 is damaged" in (job.error_text or "")


def test_with_holes_allowed_the_missing_page_is_named_in_the_result(ground: Ground) -> None:
    ground.register(max_pages=4)
    ground.answer = refusing(3, Permanent("page 3 is damaged", error_class="corrupted_content"))
    job = ground.run(pdf(4), allow_holes=True)
    assert job.status is COMPLETED
    result = ground.result(job.id)
    assert [page.get("missing") for page in result["pages"]][2] == {
        "error_class": "corrupted_content",
        "error_text": "page 3 is damaged",
    }
    assert [page.get("text") for page in result["pages"]] == ["Page 1", "Page 2", None, "Page 4"]
    assert result["summary"]["holes"][0]["page_start"] == 3


def test_a_transient_error_is_retried_and_never_halves(ground: Ground) -> None:
    failures = [Retry("down", error_class="service_unavailable", delay_s=0.0)]

    def answer(chunk: Chunk) -> Sequence[Page]:
        if failures:
            raise failures.pop()
        return as_pages(chunk)

    ground.register(max_pages=4)
    ground.answer = answer
    job = ground.run(pdf(4))
    assert job.status is COMPLETED
    assert ground.calls == [(1, 4), (1, 4)]
    assert ground.chunk(job.id, 0).retry_count == 1


@pytest.mark.slow
def test_a_processor_that_returns_too_few_pages_is_a_bug_and_remembers_nothing(ground: Ground) -> None:
    ground.register(max_pages=4)
    ground.answer = lambda chunk: as_pages(chunk)[:-1]
    job = ground.run(pdf(4))
    assert job.status is FAILED
    assert "ends after page 3" in (ground.chunk(job.id, 0).error_text or "")
    ground.answer = as_pages
    assert ground.run(pdf(4), allow_holes=True).status is COMPLETED


@pytest.mark.parametrize(
    ("raw", "error_class"),
    [(b"%PDF-1.7 nothing of a document", "corrupted_content"), (pdf(3).replace(b"/Count 3", b"/Count 0"), None)],
)
def test_a_document_that_cannot_be_read_fails_before_any_call(
    ground: Ground, raw: bytes, error_class: str | None
) -> None:
    ground.register()
    job = ground.run(raw)
    if error_class is None:  # lying counts are looked through
        assert job.status is COMPLETED
        return
    assert job.status is FAILED
    assert error_class in (job.error_text or "")
    assert ground.calls == []


def test_a_processor_that_nobody_knows_is_refused(ground: Ground) -> None:
    with pytest.raises(NotFound, match=r"no processor 'noted'.*local"):
        ground.submit(pdf(1))


def test_a_processor_is_an_async_function_and_has_a_name_of_its_own(ground: Ground) -> None:
    with pytest.raises(BadInput, match="async def"):
        ground.app.processor("mine")(as_pages)  # type: ignore[type-var]
    ground.register()
    with pytest.raises(BadInput, match="already"):
        ground.register()


def test_a_slot_says_which_pages_of_which_document_it_is_for(ground: Ground) -> None:
    from forebay import Limit  # noqa: PLC0415

    ground.app.limit(Limit("paid", in_flight=1))
    seen: list[Holding] = []

    def looks(chunk: Chunk) -> list[Page]:
        seen.extend(call for holder in ground.app.limiter.usage("paid").holders for call in holder.calls)
        return as_pages(chunk)

    ground.answer = looks
    ground.register(max_pages=2, limit="paid")
    job = ground.run(pdf(3))
    assert sorted(call.label for call in seen) == ["scan.pdf p. 1-2 (ocr.noted)", "scan.pdf p. 3 (ocr.noted)"]
    assert {call.job_id for call in seen} == {job.id}
    assert {call.task_id for call in seen} == {task.id for task in ground.chunks(job.id)}


@pytest.mark.slow
def test_a_limited_processor_takes_a_slot_for_each_call_and_none_for_what_is_stored(ground: Ground) -> None:
    from forebay import Limit  # noqa: PLC0415

    ground.app.limit(Limit("api", in_flight=1))
    ground.register(max_pages=1, limit="api")
    job = ground.run(pdf(3))
    assert job.status is COMPLETED
    used = {(each.meter, each.unit): each.amount for each in ground.app.ledger.used()}
    assert used == {("noted", "calls"): 3, ("noted", "pages"): 3}
    ground.run(pdf(3), allow_holes=True)
    assert {(each.meter, each.unit): each.amount for each in ground.app.ledger.used()} == used
