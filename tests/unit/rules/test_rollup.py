from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.job import Job, member_id
from forebay.model.task import NewTask, Role, Status
from forebay.rules.rollup import (
    JOB_TIMEOUT,
    Effect,
    Ended,
    Hole,
    Tally,
    chunks_closed,
    counted,
    effect,
    failure_text,
    finish,
    merge_task,
    merge_template,
    noted,
    progress,
    started,
    tally,
)
from forebay.rules.settlement import MOVES
from tests.unit.builders import BLOB, JOB_ID, NOW, TASK_ID, job

PENDING, RUNNING, COMPLETED, FAILED, CANCELED = Status
TEMPLATE = merge_template(NewTask(kind="merge", role=Role.MERGE))
STEPS = sorted({(before, after) for row in MOVES.values() for before, after in row.items()})


def ended(role: Role, status: Status, *, generation: int = 1, error: str = "it broke") -> Ended:
    failed = status is not COMPLETED
    return Ended(TASK_ID, role, status, generation, "bug" if failed else None, error if failed else None)


def no_holes() -> Sequence[Hole]:
    return []


def unasked() -> Sequence[Hole]:
    raise AssertionError("asked for holes while the job goes on")


def names(change: Effect) -> list[str]:
    return [event.name for event in change.events]


def closed(**changes: object) -> Job:
    """A job of three chunks that have all ended."""
    return job(**({"chunk_count": 3, "completed_count": 3, "merge_json": TEMPLATE} | changes))


def recounted(chunks: Sequence[Status]) -> Tally:
    by = Counter(chunks)
    return Tally(
        chunk_count=len(chunks),
        open_count=by[PENDING] + by[RUNNING],
        running_count=by[RUNNING],
        completed_count=by[COMPLETED],
        failed_count=by[FAILED],
        canceled_count=by[CANCELED],
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=60))
def test_tallies_sum_to_a_recount_after_any_legal_moves(moves: list[tuple[int, int]]) -> None:
    chunks: list[Status] = []
    total = Tally()
    for which, choice in moves:
        if which >= len(chunks):
            chunks.append(PENDING)
            total = total.plus(tally(Role.CHUNK, None, PENDING))
            continue
        before = chunks[which]
        to = [after for status, after in STEPS if status is before]
        chunks[which] = to[choice % len(to)]
        total = total.plus(tally(Role.CHUNK, before, chunks[which]))
        assert total == recounted(chunks)
    assert total == recounted(chunks)


@pytest.mark.parametrize(("role", "step"), [(role, step) for role in Role if role is not Role.CHUNK for step in STEPS])
def test_only_chunks_are_counted(role: Role, step: tuple[Status, Status]) -> None:
    assert tally(role, *step) == tally(role, None, step[1]) == Tally()


def test_a_tally_is_added_to_the_counters_of_its_job() -> None:
    before = job(chunk_count=9, open_count=5, running_count=4, completed_count=3, failed_count=1, canceled_count=0)
    after = counted(before, Tally(1, -2, -3, 2, 1, 1))
    assert after == replace(
        before, chunk_count=10, open_count=3, running_count=1, completed_count=5, failed_count=2, canceled_count=1
    )


def test_a_job_starts_once() -> None:
    first = started(job(status=PENDING, started_at=None), NOW)
    assert (first.status, first.started_at) == (RUNNING, NOW)
    assert started(replace(first, status=PENDING), NOW + 60).started_at == NOW


def test_an_event_is_numbered_by_the_new_count() -> None:
    assert noted(job(event_count=4)).event_count == 5


@pytest.mark.parametrize("status", [COMPLETED, FAILED, CANCELED])
def test_nothing_follows_while_other_chunks_are_open(status: Status) -> None:
    running = job(chunk_count=3, open_count=1, merge_json=TEMPLATE)
    assert effect(running, [ended(Role.CHUNK, status)], unasked, NOW) == Effect(running)


def test_the_last_chunk_starts_the_merge() -> None:
    change = effect(closed(), [ended(Role.CHUNK, COMPLETED)], no_holes, NOW)
    (merge,) = change.tasks
    assert (merge.id, merge.role, merge.kind) == (member_id(JOB_ID, Role.MERGE, 1), Role.MERGE, "merge")
    assert change.job == replace(closed(), merge_id=merge.id)
    assert [(event.name, dict(event.fields)) for event in change.events] == [
        ("all_chunks_completed_merging", {"chunks": 3, "holes": 0})
    ]


def test_a_retry_that_leaves_holes_says_how_many_were_kept() -> None:
    job = replace(closed(), generation=2, completed_count=2, failed_count=1)
    change = effect(job, [ended(Role.CHUNK, FAILED)], lambda: [Hole(1, "timeout", "slow")], NOW)
    assert names(change) == ["retry_partial_failure", "job_failed"]
    assert dict(change.events[0].fields) == {"failed": 1, "kept": 2}


def test_several_chunks_that_end_at_once_start_one_merge() -> None:
    change = effect(closed(), [ended(Role.CHUNK, COMPLETED)] * 3, no_holes, NOW)
    assert (len(change.tasks), names(change)) == (1, ["all_chunks_completed_merging"])


def test_without_a_merge_the_last_chunk_completes_the_job() -> None:
    change = effect(closed(merge_json=None), [ended(Role.CHUNK, COMPLETED)], no_holes, NOW)
    assert change.job == replace(closed(merge_json=None), status=COMPLETED, finished_at=NOW)
    assert (change.tasks, names(change)) == ((), ["job_completed"])


HOLES = [Hole(1, "invalid_pdf", "no pages"), Hole(2, "invalid_pdf", "no pages")]


@pytest.mark.parametrize("status", [COMPLETED, FAILED, CANCELED])
def test_holes_fail_the_job_whichever_chunk_ended_last(status: Status) -> None:
    before = closed(completed_count=1, failed_count=2)
    change = effect(before, [ended(Role.CHUNK, status)], lambda: HOLES, NOW)
    text = "2 of 3 chunks failed: chunks 1-2 (invalid_pdf: no pages)"
    assert change.job == replace(before, status=FAILED, error_class="ocr_failed", error_text=text, finished_at=NOW)
    assert change.tasks == ()
    assert [(event.name, dict(event.fields)) for event in change.events] == [
        ("job_failed", {"error_class": "ocr_failed", "error_text": text})
    ]


@pytest.mark.parametrize("role", [Role.SPLIT, Role.MERGE, Role.CHUNK])
@pytest.mark.parametrize(
    ("error", "error_class"),
    [(("timeout", JOB_TIMEOUT), "timeout"), (("timeout", "60 s"), "ocr_failed"), (("bug", JOB_TIMEOUT), "ocr_failed")],
)
def test_only_the_time_of_the_whole_job_makes_its_failure_a_timeout(
    role: Role, error: tuple[str, str], error_class: str
) -> None:
    before = closed(completed_count=2, failed_count=1)
    last = Ended(TASK_ID, role, FAILED, 1, *error)
    change = effect(before, [last], lambda: [Hole(2, *error)], NOW)
    assert (change.job.status, change.job.error_class) == (FAILED, error_class)
    if error_class == "timeout":
        assert change.job.error_text == JOB_TIMEOUT


def test_a_failure_is_named_after_the_pipeline() -> None:
    change = chunks_closed(closed(pipeline="autotag"), HOLES, NOW)
    assert change.job.error_class == "autotag_failed"


def test_holes_are_merged_over_where_they_are_allowed() -> None:
    change = chunks_closed(closed(allow_holes=True, completed_count=1), HOLES, NOW)
    assert [task.role for task in change.tasks] == [Role.MERGE]
    assert [(event.name, dict(event.fields)) for event in change.events] == [
        ("merging_with_holes", {"chunks": 3, "holes": 2})
    ]


def test_holes_alone_are_a_failure_even_where_they_are_allowed() -> None:
    assert chunks_closed(closed(allow_holes=True, completed_count=0), HOLES, NOW).job.status is FAILED


@pytest.mark.parametrize(("holes", "allowed"), list(product(([], HOLES), (True, False))))
def test_a_job_that_was_to_be_canceled_is_canceled_once_nothing_is_open(holes: list[Hole], allowed: bool) -> None:  # noqa: FBT001 - a case
    before = closed(cancel_requested_at=NOW - 5, allow_holes=allowed)
    change = effect(before, [ended(Role.CHUNK, COMPLETED)], lambda: holes, NOW)
    assert (change.job.status, change.job.error_class, change.job.finished_at) == (CANCELED, "canceled", NOW)
    assert (change.tasks, names(change)) == ((), ["job_canceled"])


def test_a_split_that_found_nothing_goes_on_to_the_merge_or_the_end() -> None:
    split = [ended(Role.SPLIT, COMPLETED)]
    change = effect(job(merge_json=TEMPLATE), split, no_holes, NOW)
    assert [task.role for task in change.tasks] == [Role.MERGE]
    assert effect(job(), split, no_holes, NOW).job.status is COMPLETED


def test_a_split_that_brought_chunks_is_waited_for_no_longer() -> None:
    running = job(chunk_count=2, open_count=2, merge_json=TEMPLATE)
    assert effect(running, [ended(Role.SPLIT, COMPLETED)], unasked, NOW) == Effect(running)


def test_a_failed_split_fails_its_job() -> None:
    change = effect(job(merge_json=TEMPLATE), [ended(Role.SPLIT, FAILED, error="no pages")], unasked, NOW)
    assert (change.job.status, change.job.error_class) == (FAILED, "ocr_failed")
    assert change.job.error_text == "split failed: bug: no pages"
    assert names(change) == ["job_failed"]


def test_a_canceled_stage_cancels_its_job() -> None:
    for role in (Role.SPLIT, Role.MERGE):
        change = effect(job(merge_json=TEMPLATE), [ended(role, CANCELED, error="Canceled")], unasked, NOW)
        assert (change.job.status, change.job.error_class) == (CANCELED, "canceled")
        assert (change.job.error_text, names(change)) == ("Canceled", ["job_canceled"])


def test_the_merge_completes_its_job_even_if_a_cancel_came_too_late() -> None:
    for asked in (None, NOW - 1):
        change = effect(closed(cancel_requested_at=asked), [ended(Role.MERGE, COMPLETED)], unasked, NOW)
        assert (change.job.status, change.job.finished_at, change.job.error_class) == (COMPLETED, NOW, None)
        assert (change.tasks, names(change)) == ((), ["job_completed"])


def test_a_failed_merge_fails_its_job() -> None:
    change = effect(closed(), [ended(Role.MERGE, FAILED, error="out of memory")], unasked, NOW)
    assert (change.job.status, change.job.error_class) == (FAILED, "ocr_failed")
    assert change.job.error_text == "merge failed: bug: out of memory"


@pytest.mark.parametrize("status", [COMPLETED, FAILED, CANCELED])
def test_a_merge_of_an_older_generation_counts_for_nothing(status: Status) -> None:
    before = closed(generation=2)
    assert effect(before, [ended(Role.MERGE, status, generation=1)], unasked, NOW) == Effect(before)


def test_an_old_merge_does_not_hide_the_chunk_that_ended_with_it() -> None:
    both = [ended(Role.MERGE, COMPLETED, generation=1), ended(Role.CHUNK, COMPLETED)]
    change = effect(closed(generation=2), both, no_holes, NOW)
    assert [task.id for task in change.tasks] == [member_id(JOB_ID, Role.MERGE, 2)]


@pytest.mark.parametrize("status", [COMPLETED, FAILED, CANCELED])
def test_a_follow_up_changes_nothing_in_its_job(status: Status) -> None:
    assert effect(closed(), [ended(Role.FOLLOW, status)], unasked, NOW) == Effect(closed())


@pytest.mark.parametrize("status", [COMPLETED, FAILED, CANCELED])
def test_a_chunk_of_a_job_that_has_ended_changes_nothing(status: Status) -> None:
    before = closed(status=status)
    assert effect(before, [ended(Role.CHUNK, COMPLETED)], unasked, NOW) == Effect(before)


def test_nothing_that_ended_changes_nothing() -> None:
    assert effect(closed(), [], unasked, NOW) == Effect(closed())


def test_an_event_of_an_end_keeps_a_long_text_short() -> None:
    change = finish(job(), FAILED, "ocr_failed", "x" * 100_000, NOW)
    assert change.job.error_text == "x" * 100_000
    assert len(str(change.events[0].fields["error_text"])) == 4000
    assert dict(finish(job(), CANCELED, "canceled", None, NOW).events[0].fields)["error_text"] == ""


def test_a_merge_is_kept_with_all_that_was_asked_of_it() -> None:
    merge = NewTask(
        kind="merge",
        role=Role.MERGE,
        payload={"format": "md", "ü": [1, None]},
        payload_blob=BLOB,
        environment="prod",
        limit="cpu",
        priority=7,
        deadline_at=NOW + 60,
        timeout_s=5.5,
        max_retries=1,
        max_reschedules=9,
        fairness_key="acme",
        tags=("a", "b"),
    )
    made = merge_task(job(merge_json=merge_template(merge), tenant="acme", generation=3))
    assert made == replace(merge, id=member_id(JOB_ID, Role.MERGE, 3), tenant="acme")
    assert merge_template(None) is None


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.booleans(), st.sampled_from(Status))
def test_progress_is_a_share(open_count: int, done: int, failed: int, merges: bool, status: Status) -> None:  # noqa: FBT001 - a case
    share = progress(
        job(
            status=status,
            chunk_count=open_count + done + failed,
            open_count=open_count,
            completed_count=done,
            failed_count=failed,
            merge_json=TEMPLATE if merges else None,
        )
    )
    assert 0 <= share <= 1
    assert (share == 1) == (status is COMPLETED or (open_count == 0 and done + failed > 0 and not merges))


def test_progress_rises_with_every_chunk_that_ends_and_is_whole_after_the_merge() -> None:
    shares = [progress(job(chunk_count=4, open_count=left, merge_json=TEMPLATE)) for left in (4, 3, 2, 1, 0)]
    assert shares == [0, 0.2, 0.4, 0.6, 0.8]
    assert progress(closed(status=COMPLETED)) == 1


def test_a_job_that_is_not_split_yet_has_no_progress() -> None:
    assert progress(job()) == progress(job(merge_json=TEMPLATE)) == 0


def named_in(text: str) -> list[int]:
    """Read the indexes back from a failure text."""
    return numbers_in(text, "chunk")


def numbers_in(text: str, noun: str) -> list[int]:
    found: list[int] = []
    for listed in re.findall(rf"{noun}s? (\d[\d, -]*?)(?:, [a-z]| \()", text):
        for part in listed.split(", "):
            first, _, last = part.partition("-")
            found.extend(range(int(first), int(last or first) + 1))
    return found


WORDS = st.none() | st.sampled_from(["", "no pages", "torn"]) | st.text("abcxyz äß", max_size=400)
BROKEN = st.lists(
    st.builds(
        Hole,
        st.integers(0, 300),
        st.none() | st.sampled_from(["invalid_pdf", "timeout", "bug"]),
        WORDS,
        st.none(),
        st.none(),
    ),
    min_size=1,
    max_size=80,
    unique_by=lambda hole: hole.chunk_index,
)


@pytest.mark.slow
@given(BROKEN)
def test_a_failure_names_every_chunk_exactly_once(holes: list[Hole]) -> None:
    text = failure_text(301, holes)
    assert text.startswith(f"{len(holes)} of 301 chunks failed: ")
    assert sorted(named_in(text)) == sorted(hole.chunk_index for hole in holes)


@given(BROKEN, st.integers(1, 20), st.sets(st.integers(0, 300)))
def test_a_failure_names_every_page_exactly_once(holes: list[Hole], size: int, unpaged: set[int]) -> None:
    paged = [
        hole
        if hole.chunk_index in unpaged
        else hole._replace(page_start=1 + hole.chunk_index * size, page_end=(hole.chunk_index + 1) * size)
        for hole in holes
    ]
    text = failure_text(301, paged)
    lost = {page for hole in paged if hole.page_start for page in range(hole.page_start, (hole.page_end or 0) + 1)}
    assert sorted(numbers_in(text, "page")) == sorted(lost)
    assert sorted(numbers_in(text, "chunk")) == sorted(h.chunk_index for h in paged if h.page_start is None)


def test_pages_are_named_in_their_order_also_of_pieces_with_high_numbers() -> None:
    holes = [
        Hole(1_000_091, "timeout", "60 s", 91, 100),
        Hole(3, "timeout", "60 s", 61, 80),
        Hole(12, "service_unavailable", "503", 241, 241),
    ]
    assert failure_text(13, holes) == (
        "3 of 13 chunks failed: pages 61-80, 91-100 (timeout: 60 s); page 241 (service_unavailable: 503)"
    )


@pytest.mark.slow
@pytest.mark.parametrize("apart", [1, 2])
def test_a_failure_names_all_of_ten_thousand_chunks_though_each_failed_in_its_own_words(apart: int) -> None:
    holes = [Hole(index, "bug", f"{index:x}" * 100) for index in range(0, 10_000, apart)]
    text = failure_text(10_000, holes)
    assert named_in(text) == list(range(0, 10_000, apart))
    assert len(text) < 64 * 1024
    assert text.endswith(" (bug)")


def test_chunks_that_failed_alike_are_named_together() -> None:
    holes = [Hole(index, "invalid_pdf", "no pages") for index in (7, 1, 3, 2)] + [
        Hole(5, "timeout", None),
        Hole(0, None, ""),
    ]
    assert failure_text(9, holes) == (
        "6 of 9 chunks failed: chunk 0 (unknown); chunks 1-3, 7 (invalid_pdf: no pages); chunk 5 (timeout)"
    )


def test_a_single_run_of_chunks_is_plural_and_a_single_chunk_is_not() -> None:
    assert failure_text(9, [Hole(3, "bug", None), Hole(4, "bug", None)]) == "2 of 9 chunks failed: chunks 3-4 (bug)"
    assert failure_text(9, [Hole(3, "bug", None)]) == "1 of 9 chunks failed: chunk 3 (bug)"
    assert failure_text(9, [Hole(3, "bug", None), Hole(5, "bug", None)]) == "2 of 9 chunks failed: chunks 3, 5 (bug)"


def lengthened(hole: Hole, more: int) -> Hole:
    return hole._replace(error_text=f"{hole.error_text}{'x' * more}")


@pytest.mark.parametrize(("over", "spoken"), [(0, True), (1, False)])
def test_the_words_are_left_out_only_when_they_take_more_than_64_kib(over: int, spoken: bool) -> None:  # noqa: FBT001 - a case
    head = len("300 of 300 chunks failed: ")
    holes = [Hole(index, "bug", f"{index:03}" + "x" * 190) for index in range(300)]
    short_by = 64 * 1024 + over - (len(failure_text(300, holes)) - head)
    longer = [
        lengthened(hole, short_by * (index + 1) // 300 - short_by * index // 300) for index, hole in enumerate(holes)
    ]
    text = failure_text(300, longer)
    assert named_in(text) == list(range(300))
    assert ("xxx" in text) == spoken
    assert not spoken or len(text) - head == 64 * 1024


def test_the_words_of_one_failure_are_cut_at_300_characters() -> None:
    assert failure_text(1, [Hole(0, "bug", "x" * 300)]) == f"1 of 1 chunks failed: chunk 0 (bug: {'x' * 300})"
    assert failure_text(1, [Hole(0, "bug", "x" * 301)]) == f"1 of 1 chunks failed: chunk 0 (bug: {'x' * 298} …)"


def test_the_words_of_a_failure_are_short_and_fit_to_be_stored() -> None:
    text = failure_text(1, [Hole(0, "bug", "a\0" + "b" * 1000)])
    assert "\0" not in text
    assert text.endswith("b …)")
    assert len(text) < 350
