from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.pipelines import job_time


def test_while_little_of_its_time_is_left_a_task_that_waits_looks_ever_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float] = []
    enough = asyncio.Event()

    async def wait(running: set[asyncio.Future[str]], **terms: float) -> None:
        looks.append(terms["timeout"])
        if len(looks) == 7:
            enough.set()
            await asyncio.gather(*running)

    async def step() -> str:
        await enough.wait()
        return "done"

    here: Any = SimpleNamespace(waited_s=0.0)
    monkeypatch.setattr(job_time, "_left_s", lambda *_: 0.001)
    monkeypatch.setattr(job_time, "asyncio", SimpleNamespace(**vars(asyncio) | {"wait": wait}))
    assert asyncio.run(job_time.within(here, here, step())) == "done"
    assert looks == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
