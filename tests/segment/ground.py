"""An application that makes articles, and how to see what became of them."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

from forebay import Context, Forebay
from forebay.app.working import awork, when_idle
from forebay.model.job import Job
from forebay.model.query import Query
from forebay.model.task import Role, Status, Task
from forebay.processors.base import Chunk
from forebay.processors.function import FunctionProcessor
from forebay.settings import load

COMPLETED, FAILED = Status.COMPLETED, Status.FAILED
TEXT = (
    "# River\n\nThe river fills the basin, and the basin feeds the turbine below.\n\n"
    "## Wehr\n\nDas Wehr ist aus Stein gebaut, und das Wasser steht davor sehr still.\n\n"
    "# Sea\n\nThe sea takes what the river has left of all its stones.\n"
)
ANSWER = b'{"lang": "en", "tags": ["x"]}'
Answer = Callable[[Context, Chunk], Awaitable[bytes]]


class Ground:
    """Settings are given as the environment has them, without their prefix."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        named = {f"FOREBAY_{name.upper()}": value for name, value in settings.items()}
        home = {
            "HOME": str(folder),
            "FOREBAY_HOME": str(folder),
            "FOREBAY_DRAIN_GRACE_S": "0.5",
            "FOREBAY_PROCESSES": "1",
        }
        self.app = Forebay(settings=load(environ=home | named, cwd=folder))
        self.calls: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.app.close()

    def register(self, answer: Answer, name: str = "mine", **options: Any) -> None:  # noqa: ANN401 - of FunctionProcessor
        """A processor of articles that writes down each call."""

        async def noted(ctx: Context, chunk: Chunk) -> bytes:
            self.calls.append(chunk.page_start)
            return await answer(ctx, chunk)

        self.app.documents.pipeline.add(FunctionProcessor(name=name, function=noted, pipeline="segment", **options))

    def allow(self, seconds: float) -> None:
        """From now on a job may run so long in all."""
        self.app.settings = self.app.settings.model_copy(update={"segment_timeout_s": seconds})

    def ran_s(self, ctx: Context) -> float:
        """At most, by the clock."""
        return time.time() - (self.job(ctx.job_id or "").started_at or 0)

    def submit(self, raw: bytes | str, name: str = "notes.md", **terms: Any) -> str:  # noqa: ANN401 - of app.process
        given = raw.encode() if isinstance(raw, str) else raw
        return self.app.process(io.BytesIO(given), name=name, **({"pipeline": "segment"} | terms)).id

    def work(self) -> None:
        asyncio.run(asyncio.wait_for(awork(self.app, when_idle(self.app)), 50))

    def work_until(self, condition: Callable[[], bool]) -> None:
        async def beside(drain: Callable[[str], None]) -> None:
            while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - it is the ledger that changes
                await asyncio.sleep(0.02)
            drain("seen")

        asyncio.run(asyncio.wait_for(awork(self.app, beside), 50))

    def run(self, raw: bytes | str, **terms: Any) -> Job:  # noqa: ANN401 - same
        job_id = self.submit(raw, **terms)
        self.work()
        return self.job(job_id)

    def job(self, job_id: str) -> Job:
        found = self.app.get(job_id)
        assert isinstance(found, Job)
        return found

    def result(self, job: Job) -> dict[str, Any]:
        assert job.status is COMPLETED, job.error_text
        raw = self.app.result(job.id)
        assert isinstance(raw, bytes)
        whole: dict[str, Any] = json.loads(raw)
        return whole

    def articles(self, job: Job) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.result(job)["articles"]
        return found

    def chunks(self, job_id: str) -> list[Task]:
        listed = self.app.ledger.list_tasks(Query(job_id=job_id, role=Role.CHUNK, size=500)).items
        found = [self.app.ledger.get(task.id) for task in listed]
        return [task for task in found if task is not None]

    def kinds(self, job_id: str) -> list[str]:
        return [task.kind for task in self.chunks(job_id)]
