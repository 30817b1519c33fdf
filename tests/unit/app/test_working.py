from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Coroutine
from typing import Any

from forebay.app.working import run


def interpreter() -> tuple[tuple[int, int, int], float, int]:
    return gc.get_threshold(), sys.getswitchinterval(), gc.get_freeze_count()


def test_workers_in_two_threads_leave_the_interpreter_to_their_host() -> None:
    first_runs, second_runs, first_ended = threading.Event(), threading.Event(), threading.Event()
    seen = []

    async def first() -> None:
        first_runs.set()
        await asyncio.to_thread(second_runs.wait, 10)
        seen.append(interpreter())

    async def second() -> None:
        second_runs.set()
        await asyncio.to_thread(first_ended.wait, 10)
        seen.append(interpreter())

    def thread(main: Coroutine[Any, Any, None]) -> threading.Thread:
        started = threading.Thread(target=run, args=(main,))
        started.start()
        return started

    frozen_before = gc.get_freeze_count()
    gc.freeze()
    try:
        before = interpreter()
        one = thread(first())
        assert first_runs.wait(10)
        two = thread(second())
        one.join()
        first_ended.set()
        two.join()
        assert before[2] > frozen_before
        assert [*seen, interpreter()] == [before] * 3
    finally:
        gc.unfreeze()
