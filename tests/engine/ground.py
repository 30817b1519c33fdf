"""Workers in the test's own loop, on a ledger of the test's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from forebay.app.forebay import Forebay
from forebay.app.target import load
from forebay.app.working import make_worker
from forebay.app.working import run as run_to_end
from forebay.engine.desk import runnable
from forebay.engine.worker import Worker
from forebay.model.job import Job
from forebay.model.task import Task
from forebay.settings import load as load_settings

T = TypeVar("T")
TASK = runnable(["a" * 26, "kind", "default", None, None, 0, [], None, 60.0, None, 0, 0, 1, 0, "null"])
HANDLERS = str(Path(__file__).with_name("handlers.py"))


class Ground:
    """One application, loaded anew for each test, and where its handlers leave notes."""

    def __init__(self, folder: Path, handlers: str, **settings: object) -> None:
        self.folder = folder
        self._target = f"{handlers}:app"
        self.notes_file = folder / "notes"
        flags = {"home": str(folder), "lease_s": 2.0, "poll_s": 0.5, "drain_grace_s": 0.5, "processes": 2} | settings
        self.app: Forebay = load(self._target)
        self.app.__dict__["settings"] = load_settings(flags)

    @property
    def notes(self) -> list[str]:
        return self.notes_file.read_text().splitlines() if self.notes_file.exists() else []

    @asynccontextmanager
    async def worker(self, concurrency: int | None = None, processes: int | None = None) -> AsyncIterator[Worker]:
        worker = make_worker(self.app, target=self._target, concurrency=concurrency, processes=processes)
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            if not worker._drains:
                worker.drain()
            await running

    async def ended(self, identifier: str, *, within_s: float = 40.0) -> Task | Job:
        return await self.until(lambda: self._ended(identifier), within_s=within_s)

    def _ended(self, identifier: str) -> Task | Job | None:
        found = self.app.get(identifier)
        return found if found.status.terminal else None

    async def started(self, identifier: str) -> None:
        await self.until(lambda: f"began {identifier}" in self.notes)

    async def until(self, look: Callable[[], T | None], *, within_s: float = 40.0) -> T:
        ends_at = time.monotonic() + within_s
        while time.monotonic() < ends_at:
            found = await asyncio.to_thread(look)
            if found:
                return found
            await asyncio.sleep(0.02)
        raise AssertionError("it did not come to pass")

    def task(self, identifier: str) -> Task:
        found = self.app.get(identifier)
        assert isinstance(found, Task)
        return found

    def outcomes(self, identifier: str) -> list[str]:
        return [attempt.outcome for attempt in self.app.history(identifier)]


def run(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    found: list[T] = []

    async def bounded() -> None:
        async with asyncio.timeout(50):
            found.append(await scenario())

    run_to_end(bounded())
    return found[0]
