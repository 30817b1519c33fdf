"""Documents to articles through the engine, with nothing but this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from forebay import Context, Limit, Page, Permanent, Reschedule, Retry, Window
from forebay.errors import BadDocument, BadInput
from forebay.model.budget import Budget, Period
from forebay.model.exchange import Action
from forebay.model.task import Status
from forebay.pipelines.tracking import track
from forebay.processors.base import Chunk
from forebay.processors.function import FunctionProcessor
from forebay.processors.parsers import Parsers
from tests.pipelines.ground import pdf, texts
from tests.pipelines.works import lost_after_the_first
from tests.processors.ground import alive, until
from tests.segment.ground import ANSWER, COMPLETED, FAILED, TEXT, Ground
from tests.segment.written import docx, paragraph, pptx, xlsx


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ground]:
    with Ground(tmp_path) as found:
        yield found


async def answered(ctx: Context, chunk: Chunk) -> bytes:
    return ANSWER


def test_a_text_becomes_articles_with_their_language_and_tags_and_no_key(here: Ground) -> None:
    job = here.run(TEXT)
    result = here.result(job)
    assert (job.pipeline, job.chunk_count) == ("segment", 3)
    assert [(each["ordinal"], each["title"], each["group"], each["lang"]) for each in result["articles"]] == [
        (1, "River", None, "en"), (2, "Wehr", "River", "de"), (3, "Sea", None, "en")
    ]  # fmt: skip
    assert {(each["lang_by"], each["tags_by"], each["page"]) for each in result["articles"]} == {
        ("local", "keywords", None)
    }
    assert result["articles"][0]["tags"][:2] == ["River", "basin"]
    assert "".join(each["text"] for each in result["articles"]) == TEXT + "\n"
    summary = result["summary"]
    assert (summary["article_count"], summary["languages"], summary["lang_by"]) == (3, {"en": 2, "de": 1}, {"local": 3})
    assert (summary["holes"], summary["untagged"]) == ([], [])


@pytest.mark.slow
def test_every_kind_of_document_goes_the_same_way(here: Ground) -> None:
    expected: dict[bytes, tuple[list[str], list[int | None]]] = {
        docx(paragraph("One", heading=1), paragraph("Text of the first.")): (["One"], [None]),
        pptx(("One", ["a"]), ("Two", ["b"])): (["One", "Two"], [1, 2]),
        xlsx({"One": [["a"]], "None": [], "Three": [["b"]]}): (["One", "Three"], [1, 3]),
        b"<html><h2>One</h2><p>Text of the first.</p>": (["One"], [None]),
        b"A text without any heading.\n": (["A text without any heading."], [None]),
    }
    jobs = {raw: here.submit(raw, name="whatever.bin") for raw in expected}
    here.work()
    for raw, (titles, pages) in expected.items():
        job = here.job(jobs[raw])
        found = here.articles(job)
        assert ([each["title"] for each in found], [each["page"] for each in found]) == (titles, pages)
        seen = track(here.app.ledger, job)
        assert seen is not None
        assert seen.page_count == seen.done_page_count == max(each or 1 for each in pages)


def test_a_long_article_is_cut_and_each_part_is_tagged(here: Ground) -> None:
    here.register(answered)
    job = here.run("# Long\n\n" + "Words of it. " * 60, processor="mine", options={"max_size": 300})
    found = here.articles(job)
    assert len(found) > 2
    assert {each["title"] for each in found} == {"Long"}
    assert all(len(each["text"].strip()) <= 300 for each in found)


# --- pages


def test_a_pdf_is_read_by_its_pages_and_articles_know_theirs(here: Ground) -> None:
    job = here.run(pdf(3, "Page {} tells of rivers and of weirs"), name="scan.pdf")
    found = here.articles(job)
    assert [each["page"] for each in found] == [1, 2, 3][: len(found)]
    assert "Page 3 tells" in found[-1]["text"]
    assert here.kinds(job.id)[0] == "ocr.local"
    seen = track(here.app.ledger, job)
    assert seen is not None
    assert (seen.page_count, seen.done_page_count) == (3, 3)


@pytest.mark.slow
def test_pages_that_ocr_has_read_are_not_read_again(here: Ground) -> None:
    raw = pdf(2)
    here.run(raw, name="scan.pdf", pipeline="ocr")
    job = here.run(raw, name="scan.pdf")
    assert here.kinds(job.id)[0] == "ocr.stored"
    assert here.articles(job)


class Reader:
    """Reads pages, unless it is told not to."""

    def __init__(self, here: Ground) -> None:
        self.calls: list[int] = []
        self.refused: set[int] = set()
        self.first: Callable[[Context], Awaitable[object]] = lambda _: asyncio.sleep(0)
        here.app.documents.pipeline.add(FunctionProcessor(name="reader", function=self._read, max_pages=1))

    async def _read(self, ctx: Context, chunk: Chunk) -> list[Page]:
        self.calls.append(chunk.page_start)
        if chunk.page_start in self.refused:
            raise Permanent("It is torn.", error_class="refused")
        await self.first(ctx)
        return [Page.of_text(text, processor="reader", version="1") for text in texts(chunk)]


@pytest.mark.slow
def test_a_page_that_cannot_be_read_fails_the_document_and_a_retry_reads_only_that(here: Ground) -> None:
    reader = Reader(here)
    reader.refused = {2}
    job = here.run(pdf(3), name="scan.pdf", options={"reader": "reader"})
    assert (job.status, job.error_class) == (FAILED, "segment_failed")
    assert "Pages 2-2 could not be read" in (job.error_text or "")
    reader.refused.clear()
    here.app.retry(job.id, force=True)
    here.work()
    assert here.articles(here.job(job.id))[-1]["page_end"] == 3
    assert sorted(reader.calls) == [1, 2, 2, 3]


def test_pages_without_a_word_have_no_articles(here: Ground) -> None:
    Reader(here)
    result = here.result(here.run(pdf(2, ""), name="scan.pdf", options={"reader": "reader"}))
    assert (result["articles"], result["summary"]["article_count"], result["summary"]["page_count"]) == ([], 0, 2)


@pytest.mark.slow
def test_the_time_of_a_job_bounds_the_reading_of_its_pages_too(here: Ground) -> None:
    reader = Reader(here)
    reader.first = lambda _: asyncio.sleep(150)
    job_id = here.submit(pdf(1), name="scan.pdf", options={"reader": "reader"})
    here.app.ledger.pause("ocr.reader", Action(who="test"))
    here.work_until(lambda: here.job(job_id).chunk_count == 2)
    here.allow(time.time() - (here.job(job_id).started_at or 0) + 0.3)
    here.app.ledger.resume("ocr.reader", Action(who="test"))
    began_at = time.monotonic()
    here.work()
    assert time.monotonic() - began_at < 100
    assert reader.calls == [1]
    assert here.job(job_id).error_text == "Job cancelled due to timeout"


def test_with_holes_allowed_the_missing_page_is_named_in_its_place(here: Ground) -> None:
    reader = Reader(here)
    reader.refused = {2}
    job = here.run(pdf(3), name="scan.pdf", options={"reader": "reader"}, allow_holes=True)
    result = here.result(job)
    assert [(hole["page_start"], hole["page_end"]) for hole in result["summary"]["holes"]] == [(2, 2)]
    assert "**Page 2 is missing**" in "".join(each["text"] for each in result["articles"])


@pytest.mark.slow
def test_a_page_whose_stored_result_is_damaged_is_read_again(here: Ground) -> None:
    reader = Reader(here)
    job_id = here.submit(pdf(2), name="scan.pdf", options={"reader": "reader"})

    def read() -> bool:
        return sum(task.status is COMPLETED for task in here.chunks(job_id) if task.kind == "ocr.reader") == 2

    here.app.ledger.pause("segment.articles", Action(who="test"))
    here.work_until(read)
    blob = next(task.result_blob for task in here.chunks(job_id) if task.kind == "ocr.reader")
    (file,) = (here.folder / "blobs").rglob(str(blob))
    file.chmod(0o600)
    file.write_bytes(b"damaged")
    here.app.ledger.resume("segment.articles", Action(who="test"))
    here.work()
    assert here.articles(here.job(job_id))
    assert len(reader.calls) == 3


# --- articles are chunks


def test_an_article_is_retried_alone(here: Ground) -> None:
    async def once(ctx: Context, chunk: Chunk) -> bytes:
        if chunk.page_start == 2 and ctx.attempt == 1:
            raise Retry("not now", delay_s=0)
        return ANSWER

    here.register(once)
    assert [each["tags"] for each in here.articles(here.run(TEXT, processor="mine"))] == [["x"]] * 3
    assert sorted(here.calls) == [1, 2, 2, 3]


@pytest.mark.slow
def test_what_was_answered_is_not_asked_again_in_another_job(here: Ground) -> None:
    here.register(answered)
    first = here.run(TEXT, processor="mine")
    second = here.run(TEXT, processor="mine", options={"max_size": 4000})
    assert first.id != second.id
    assert sorted(here.calls) == [1, 2, 3]
    assert here.articles(first) == here.articles(second)
    here.run(TEXT, processor="mine", reuse=False)
    assert sorted(here.calls) == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("reuse", [True, False])
def test_what_was_answered_before_a_worker_was_lost_is_not_asked_again(
    here: Ground,
    monkeypatch: pytest.MonkeyPatch,
    reuse: bool,  # noqa: FBT001 - parametrized
) -> None:
    here.register(answered)
    lost_after_the_first(here.app, monkeypatch)
    assert len(here.articles(here.run("# One\n\nThe river fills the basin.\n", processor="mine", reuse=reuse))) == 1
    assert here.calls == [1]


@pytest.mark.slow
def test_an_article_that_fails_for_good_fails_the_job_or_is_named(here: Ground) -> None:
    async def refuse(ctx: Context, chunk: Chunk) -> bytes:
        if chunk.page_start == 2:
            raise Permanent("no", error_class="refused")
        return ANSWER

    here.register(refuse)
    job = here.run(TEXT, processor="mine")
    assert (job.status, job.error_text) == (FAILED, "1 of 3 chunks failed: chunk 1 (refused: no)")
    result = here.result(here.run(TEXT, processor="mine", allow_holes=True))
    assert result["summary"]["untagged"] == [2]
    assert result["articles"][1]["missing"] == {"error_class": "refused", "error_text": "no"}
    assert result["articles"][1]["text"].startswith("## Wehr")


@pytest.mark.slow
def test_what_a_processor_answers_is_checked(here: Ground) -> None:
    wrong = [
        b"no",
        b"[]",
        b'{"lang": "en"}',
        b'{"lang": "", "tags": []}',
        b'{"lang": "en", "tags": [1]}',
        b" " * 99_999,
    ]

    async def say(ctx: Context, chunk: Chunk) -> bytes:
        return wrong[chunk.page_start - 1]

    here.register(say)
    job = here.run("".join(f"# {n}\n\ntext\n\n" for n in range(len(wrong))), processor="mine")
    assert (job.failed_count, job.completed_count) == (len(wrong), 0)


def test_a_budget_holds_articles_back(here: Ground) -> None:
    here.register(answered)
    here.app.budget(Budget(unit="calls", most=2, per=Period.DAY, processor="mine"))
    job_id = here.submit(TEXT, processor="mine")
    here.work_until(lambda: here.job(job_id).completed_count == 2 and not here.job(job_id).running_count)
    waiting = [task for task in here.chunks(job_id) if task.status is Status.PENDING]
    assert [task.wait_reason for task in waiting] == ["budget"]


# --- refusals


def test_what_is_no_document_is_refused_before_anything_is_stored(here: Ground) -> None:
    with pytest.raises(BadDocument, match="unknown format"):
        here.submit(b"\x00\x01\x02")
    with pytest.raises(BadInput, match="max_size"):
        here.submit(TEXT, options={"max_size": 1})
    with pytest.raises(BadInput, match="max_tags"):
        here.submit(TEXT, options={"max_tags": -1})
    with pytest.raises(BadInput, match="does not read pages"):
        here.submit(TEXT, options={"reader": "keywords"})
    with pytest.raises(BadInput, match="has no option 'colour'"):
        here.submit(TEXT, options={"colour": "red"})
    with pytest.raises(BadInput, match="is of the pipeline 'ocr', not of 'segment'"):
        here.submit(TEXT, processor="local")
    with pytest.raises(BadInput, match="There is no pipeline 'fold'"):
        here.submit(TEXT, pipeline="fold")
    with pytest.raises(BadInput, match="'llm' is not set up"):
        here.submit(TEXT, processor="llm")
    with pytest.raises(BadDocument, match="neither a PDF nor an image"):
        here.submit(TEXT, pipeline="ocr")
    assert not (here.folder / "blobs").exists()


@pytest.mark.slow
def test_a_name_that_points_elsewhere_is_only_a_label(here: Ground) -> None:
    job = here.run(TEXT, name="../../etc/pass\x00wd\u202e.md")
    assert job.label == "passwd.md"


# --- time


@pytest.mark.slow
def test_a_job_that_runs_too_long_is_ended_and_what_is_stuck_in_c_is_killed(tmp_path: Path) -> None:
    with Ground(tmp_path, segment_timeout_s="2") as here:
        here.app.documents._parsers = parsers = Parsers(1, verbs="tests.segment.verbs:VERBS")
        job_id = here.submit(TEXT)
        stuck: set[int] = set()

        def ended() -> bool:
            stuck.update(child.process.pid for child in [*parsers._children])
            return here.job(job_id).status.terminal

        here.work_until(ended)
        job = here.job(job_id)
        assert (job.status, job.error_class, job.error_text) == (FAILED, "timeout", "Job cancelled due to timeout")
        assert len(stuck) == 1
        until(lambda: not any(map(alive, stuck)))
        assert (job.finished_at or 0) - (job.started_at or 0) < 30


@pytest.mark.slow
def test_the_time_of_a_job_is_that_of_all_its_articles(tmp_path: Path) -> None:
    with Ground(tmp_path, concurrency="1") as here:

        async def slow(ctx: Context, chunk: Chunk) -> bytes:
            if len(here.calls) == 1:
                here.allow(here.ran_s(ctx) + 0.9)
            await asyncio.sleep(0.6)
            return ANSWER

        here.register(slow)
        job = here.run(TEXT, processor="mine")
        assert (job.status, job.completed_count) == (FAILED, 1)
        assert (job.error_class, job.error_text) == ("timeout", "Job cancelled due to timeout")
        assert here.calls == [1, 2]
        # A person who runs it again gives it its time again, and what was answered stays.
        here.allow(0.9)
        here.app.retry(job.id)
        here.work()
        assert here.job(job.id).completed_count == 2
        assert here.calls[2] == 2


@pytest.mark.slow
def test_waiting_is_not_running(here: Ground) -> None:
    async def later(ctx: Context, chunk: Chunk) -> bytes:
        if ctx.reschedule_count == 0:
            here.allow(here.ran_s(ctx) + 0.7)
        if ctx.reschedule_count < 3:
            raise Reschedule(delay_s=0.5)
        return ANSWER

    here.register(later)
    job = here.run("One text.", processor="mine")
    assert here.articles(job)
    assert job.finished_at is not None
    assert job.finished_at - (job.started_at or 0) > here.app.settings.segment_timeout_s


@pytest.mark.slow
def test_what_others_of_a_job_waited_for_slots_is_not_running_either(here: Ground) -> None:
    async def limited(ctx: Context, chunk: Chunk) -> bytes:
        if len(here.calls) == 1:
            here.allow(here.ran_s(ctx) + 2)
        async with ctx.slot():
            return ANSWER

    here.app.limit(Limit("slow", windows=[Window(1, per_s=2)]))
    here.register(limited, limit="slow", slot="call")
    job = here.run(TEXT, processor="mine")
    assert len(here.articles(job)) == 3
    assert job.finished_at is not None
    assert job.finished_at - (job.started_at or 0) > here.app.settings.segment_timeout_s


def test_a_job_that_is_canceled_asks_for_no_further_article(here: Ground) -> None:
    async def cancel(ctx: Context, chunk: Chunk) -> bytes:
        await asyncio.to_thread(here.app.cancel, ctx.job_id or "")
        await asyncio.sleep(5)
        ctx.checkpoint()
        return ANSWER

    here.register(cancel)
    job = here.run(TEXT, processor="mine")
    assert job.status is Status.CANCELED
