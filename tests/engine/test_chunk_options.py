"""What a job of your own pipeline is started with holds for the chunks that its split makes."""

from __future__ import annotations

from forebay import Context, Forebay
from forebay.model.query import Query
from forebay.model.task import Role


def chunk_bounds(app: Forebay, **options: int) -> set[tuple[int, float, int | None]]:
    words = app.pipeline("words")

    @words.split(max_retries=1)
    async def split(_: Context, text: str) -> list[str]:
        return text.split()

    @words.process(max_retries=5, timeout_s=9)
    async def count(_: Context, word: str) -> int:
        return len(word)

    job = app.start("words", {"text": "one two"}, **options)  # type: ignore[arg-type]  # some of Options
    app.work(until_idle=True)
    found = app.ledger.list_tasks(Query(job_id=job.id, role=Role.CHUNK)).items
    return {(task.max_retries, task.timeout_s, task.max_reschedules) for task in found}


def test_options_that_were_given_reach_the_chunks_of_a_split() -> None:
    with Forebay("memory://") as app:
        assert chunk_bounds(app, max_retries=7, max_reschedules=2) == {(7, 9.0, 2)}


def test_without_any_the_chunks_keep_those_of_their_kind() -> None:
    with Forebay("memory://") as app:
        assert chunk_bounds(app) == {(5, 9.0, None)}
