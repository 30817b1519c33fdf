"""Pipelines of one's own: split, process each chunk, merge."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.errors import BadInput, NotCompleted, TooLarge
from forebay.model.exchange import Action
from forebay.model.job import Job
from forebay.model.query import Query
from forebay.model.task import Role, Status
from tests.engine.ground import Ground, run

Make = Callable[..., Ground]


def test_a_job_is_split_processed_and_merged(ground: Make) -> None:
    here = ground()
    job = here.app.start("words", {"text": "one\ntwo words\nand three words"})

    async def scenario() -> None:
        async with here.worker():
            await here.ended(job.id)

    run(scenario)
    assert here.app.result(job.id) == {"counts": [1, 2, 3], "characters": 29}


def test_siblings_go_on_when_one_chunk_fails_and_the_job_names_it(ground: Make) -> None:
    here = ground()
    job = here.app.start("words", {"text": "one\nbad\ntwo words"})

    async def scenario() -> None:
        async with here.worker():
            await here.ended(job.id)

    run(scenario)
    chunks = here.app.ledger.list_tasks(Query(job_id=job.id, role=Role.CHUNK)).items
    assert [chunk.status for chunk in chunks] == [Status.COMPLETED, Status.FAILED, Status.COMPLETED]
    with pytest.raises(NotCompleted, match="chunk 1"):
        here.app.result(job.id)


@pytest.mark.slow
def test_blocking_merge_reads_large_chunks_and_sees_holes(ground: Make) -> None:
    here = ground(payload_max_bytes=2048)
    job = here.app.start("heavy", {"base": 7}, chunks=[{"size": 10}, {"size": -1}, {"size": 5000}])

    async def scenario() -> None:
        async with here.worker():
            await here.ended(job.id)

    run(scenario)
    assert here.app.result(job.id) == [7, 10, "refused", 5000]


@pytest.mark.slow
def test_blocking_split_makes_chunks_and_a_job_without_merge_just_ends(ground: Make) -> None:
    here = ground()
    job = here.app.start("halves", {"numbers": [2, 4, 6]})

    async def scenario() -> None:
        async with here.worker():
            await here.ended(job.id)

    run(scenario)
    chunks = here.app.ledger.list_tasks(Query(job_id=job.id, role=Role.CHUNK)).items
    assert [here.task(chunk.id).result for chunk in chunks] == [1.0, 2.0, 3.0]
    assert here.app.wait(job.id).result is None


@pytest.mark.slow
def test_a_damaged_chunk_result_is_made_again_before_the_merge(ground: Make, tmp_path: Path) -> None:
    here = ground(payload_max_bytes=1024)
    job = here.app.start("heavy", {"base": 1}, chunks=[{"size": 3000}, {"size": 4000}])

    def damage() -> bool:
        blobs = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file() and path.stat().st_size == 4002]
        for path in blobs:
            path.chmod(0o600)
            path.write_bytes(b"damaged")
        return bool(blobs)

    async def scenario() -> None:
        here.app.ledger.pause("heavy.merge", Action(who="test"))
        async with here.worker():
            await here.until(lambda: _merging(here, job.id))
            assert damage()
            here.app.ledger.resume("heavy.merge", Action(who="test"))
            await here.ended(job.id)

    run(scenario)
    assert here.app.result(job.id) == [1, 3000, 4000]
    found = here.app.get(job.id)
    assert isinstance(found, Job)
    assert found.generation == 2
    assert "result_lost" in [event.name for event in here.app.ledger.events(job.id)]


def _merging(here: Ground, job_id: str) -> bool:
    found = here.app.get(job_id)
    return isinstance(found, Job) and found.merge_id is not None


@pytest.mark.slow
def test_ten_thousand_chunks_first_do_not_starve_a_job_of_two(ground: Make) -> None:
    here = ground()
    huge = here.app.start("heavy", {"base": 0}, chunks=[{"size": 0}] * 10_000)
    small = here.app.start("heavy", {"base": 0}, chunks=[{"size": 1}, {"size": 1}])

    async def scenario() -> None:
        async with here.worker(concurrency=20):
            await here.ended(small.id)
            here.app.ledger.cancel([huge.id], Action(who="test"))

    run(scenario)
    found = here.app.get(huge.id)
    assert isinstance(found, Job)
    assert found.completed_count < 200


def test_a_job_has_a_bounded_number_of_chunks(ground: Make) -> None:
    here = ground()
    with pytest.raises(TooLarge, match="at most 50000 chunks"):
        here.app.start("heavy", {"base": 1}, chunks=({"size": 0} for _ in range(10**9)))
    job = here.app.start("words", {"text": "\n" * 50_001})

    async def scenario() -> None:
        async with here.worker():
            await here.ended(job.id)

    run(scenario)
    found = here.app.get(job.id)
    assert found.status is Status.FAILED
    assert "at most 50000 chunks" in (found.error_text or "")


def test_a_pipeline_says_what_it_needs(ground: Make) -> None:
    here = ground()
    with pytest.raises(BadInput, match="has no split"):
        here.app.start("heavy", {"base": 1})
    with pytest.raises(BadInput, match="splits by itself"):
        here.app.start("words", {"text": ""}, chunks=[1])
