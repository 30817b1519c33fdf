"""Asks a store until it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from forebay.errors import StoreClosed, StoreError
from forebay.observe import emit

T = TypeVar("T")
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


async def ask(verb: str, enough: Callable[[], bool], call: Callable[..., T], *arguments: object) -> T:
    """What `call` returns, on a thread; once it is `enough`, the next failure is raised."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await asyncio.to_thread(call, *arguments)
        except StoreClosed:
            raise
        except StoreError as error:
            if enough():
                raise
            emit("store_failed", verb=verb, error_code=error.code, pause_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
