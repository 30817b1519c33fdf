"""An application whose worker runs until it is idle, or until something can be seen."""

from __future__ import annotations

import asyncio
import faulthandler
import io
import tempfile
from collections.abc import Callable, Sequence

import pytest

from forebay import Forebay
from forebay.app.working import Beside, awork, when_idle
from forebay.model.exchange import Remembered
from forebay.model.job import Job
from forebay.model.query import Query

_LONGEST_S = 60


def lost_after_the_first(app: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as a result is remembered, once, whoever made it is taken for lost before it can settle."""
    ledger = app.ledger
    remember = ledger.remember

    def then_lost(results: Sequence[Remembered]) -> None:
        remember(results)
        monkeypatch.setattr(ledger, "remember", remember)
        for session in ledger.sessions():
            ledger.close_session(session.id)

    monkeypatch.setattr(ledger, "remember", then_lost)


def work(app: Forebay, beside: Beside | None = None) -> None:
    """Run a worker until it is idle, or as long as `beside` says; a worker that hangs fails with what it was doing."""

    async def run() -> None:
        working = asyncio.create_task(awork(app, beside or when_idle(app)))
        if not (await asyncio.wait({working}, timeout=_LONGEST_S))[0]:
            report = _report_of_hang(app)
            working.cancel()
            raise AssertionError(report)
        working.result()

    asyncio.run(run())


def _report_of_hang(app: Forebay) -> str:
    lines = io.StringIO()
    lines.write(f"The worker was not idle after {_LONGEST_S} s.\n")
    for task in app.ledger.list_tasks(Query()).items:
        lines.write(f"{task}\n")
    for coroutine in asyncio.all_tasks():
        coroutine.print_stack(file=lines)
    with tempfile.TemporaryFile("w+") as stacks:
        faulthandler.dump_traceback(stacks)
        stacks.seek(0)
        lines.write(stacks.read())
    return lines.getvalue()


class Works:
    app: Forebay

    def work(self) -> None:
        work(self.app)

    def work_until(self, condition: Callable[[], bool]) -> None:
        async def beside(drain: Callable[[str], None]) -> None:
            while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - it is somebody else who changes it
                await asyncio.sleep(0.02)
            drain("seen")

        work(self.app, beside)

    def job(self, job_id: str) -> Job:
        found = self.app.get(job_id)
        assert isinstance(found, Job)
        return found
