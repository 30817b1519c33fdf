"""Ten workers share five calls in flight; two hundred workers' worth of work shares one rate."""

import pytest

from chaos.limits.rules import Rules, Window
from forebay.model.query import Query
from forebay.model.task import Role, Status
from tests.acceptance.conftest import Make

SCALE = 1 / 30  # of a minute: 2 s


@pytest.mark.parametrize(("workers", "documents"), [(4, 1), pytest.param(10, 3, marks=pytest.mark.slow)])
def test_workers_with_many_chunks_under_a_limit_of_five_never_make_a_sixth_call(
    ground: Make, workers: int, documents: int
) -> None:
    with ground(in_flight=5) as here:
        here.work(workers)
        jobs = [here.app.start("pages", chunks=[{"work_s": 0.1}] * 60) for _ in range(documents)]
        for job in jobs:
            assert here.app.wait(job.id, timeout_s=150).result == 60
    seen = here.seen()
    assert len(seen.calls) == 60 * documents
    verdict = here.judged(Rules(in_flight=5))
    assert not verdict.violations, verdict.text()
    assert verdict.figures["most calls in progress"] == 5


@pytest.mark.slow
def test_the_same_ten_workers_with_a_count_then_add_semaphore_are_caught(ground: Make) -> None:
    with ground(in_flight=5, control="count_then_add") as here:
        here.work(10)
        job = here.app.start("pages", chunks=[{"work_s": 0.1}] * 80)
        here.app.wait(job.id, timeout_s=150)
    verdict = here.judged(Rules(in_flight=5))
    assert any("L1" in text for text in verdict.violations), verdict.text()


@pytest.mark.slow
def test_a_thousand_fast_documents_never_exceed_150_in_flight_or_190_in_any_minute(ground: Make) -> None:
    """Times are a thirtieth: windows of 2 s, calls of 5 s / 30."""
    window_s = 60 * SCALE
    with ground(in_flight=150, windows=[(190, window_s)]) as here:
        jobs = [here.app.start("pages", chunks=[{"work_s": 5 * SCALE}]) for _ in range(1000)]
        here.work(4, concurrency=60)
        for job in jobs:
            here.app.wait(job.id, timeout_s=150)
    seen = here.seen()
    assert len(seen.calls) == 1000
    assert {call.status for call in seen.calls} == {200}
    verdict = here.judged(Rules(in_flight=150, windows=(Window(190, window_s),)))
    assert not verdict.violations, verdict.text()


@pytest.mark.slow
def test_the_same_documents_under_a_calendar_minute_counter_are_caught(ground: Make) -> None:
    window_s = 60 * SCALE
    with ground(in_flight=150, windows=[(190, window_s)], control="calendar_window") as here:
        jobs = [here.app.start("pages", chunks=[{"work_s": 5 * SCALE}]) for _ in range(600)]
        here.work(4, concurrency=60)
        for job in jobs:
            here.app.wait(job.id, timeout_s=150)
    verdict = here.judged(Rules(in_flight=150, windows=(Window(190, window_s),)))
    assert any("L2" in text for text in verdict.violations), verdict.text()


# Without a retry the others have five seconds for what takes a tenth of one; with retries they have four tries.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("max_retries", "timeout_s"), [(0, 5.0), pytest.param(3, 1.0, marks=pytest.mark.slow)], ids=["0", "3"]
)
def test_a_chunk_that_hangs_ends_as_timeout_while_the_others_go_on(
    ground: Make, max_retries: int, timeout_s: float
) -> None:
    with ground(in_flight=5) as here:
        chunks = [{"work_s": 60.0 if index == 3 else 0.05} for index in range(20)]
        job = here.app.start("pages", chunks=chunks, timeout_s=timeout_s, max_retries=max_retries)
        here.work(2)
        finished = here.app.wait(job.id, timeout_s=150)
        found = here.app.ledger.list_tasks(Query(job_id=job.id, role=Role.CHUNK)).items
    assert (finished.status, finished.error_class) == ("failed", "pages_failed")
    assert [chunk.status for chunk in found].count(Status.COMPLETED) == 19
    hung = found[3]
    assert (hung.status, hung.error_class, hung.retry_count) == ("failed", "timeout", max_retries)
    others = [chunk.finished_at or 0.0 for chunk in found if chunk is not hung]
    assert max(others) < (hung.finished_at or 0.0)
    assert not here.judged(Rules(in_flight=5)).violations
