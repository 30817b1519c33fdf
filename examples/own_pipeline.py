"""Your own pipeline counts words: split a text, process each chunk, merge; one chunk fails and is retried."""

from __future__ import annotations

import os
import tempfile

from forebay import Context, Forebay, Retry
from forebay.model.query import Query
from forebay.model.task import Role

TEXT = "the water waits\nbefore the turbine\nand goes in\nas fast as the turbine takes it"

app = Forebay()
words = app.pipeline("words")


@words.split()
async def split(_: Context, text: str) -> list[dict[str, str]]:
    return [{"line": line} for line in text.splitlines()]


# A plain function: it runs in a child process, which can be killed.
@words.process(timeout_s=10)
def count(ctx: Context, line: str) -> int:
    if ctx.chunk_index == 2 and ctx.retry_count == 0:
        raise Retry("the provider closed the connection", delay_s=0.1, error_class="network_error")
    ctx.used("fake_api", "calls")
    return len(line.split())


@words.merge()
async def merge(ctx: Context, text: str) -> dict[str, object]:
    counts = [chunk.result async for chunk in ctx.chunks()]
    return {"characters": len(text), "counts": counts}


def main() -> None:
    job = app.start("words", {"text": TEXT}, idempotency_key="the-water")
    app.work(until_idle=True)
    for chunk in app.ledger.list_tasks(Query(job_id=job.id, role=Role.CHUNK)).items:
        print(f"chunk {chunk.chunk_index}: {', '.join(each.outcome for each in app.history(chunk.id))}")
    print(f"result: {app.result(job.id)!r}")
    print(f"used: {[f'{used.amount:g} {used.unit} of {used.meter}' for used in app.ledger.used()]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("FOREBAY_HOME", folder)
        with app:
            main()
