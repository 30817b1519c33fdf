"""An application whose worker runs until it is idle, or until something can be seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from forebay import Forebay
from forebay.app.working import awork, when_idle
from forebay.model.exchange import Remembered
from forebay.model.job import Job

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


class Works:
    app: Forebay

    def work(self) -> None:
        asyncio.run(asyncio.wait_for(awork(self.app, when_idle(self.app)), _LONGEST_S))

    def work_until(self, condition: Callable[[], bool]) -> None:
        async def beside(drain: Callable[[str], None]) -> None:
            while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - it is somebody else who changes it
                await asyncio.sleep(0.02)
            drain("seen")

        asyncio.run(asyncio.wait_for(awork(self.app, beside), _LONGEST_S))

    def job(self, job_id: str) -> Job:
        found = self.app.get(job_id)
        assert isinstance(found, Job)
        return found
