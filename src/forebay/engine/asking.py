"""Asks a store until it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from forebay.engine.aside import aside
from forebay.errors import MaybeApplied, StoreBusy, StoreError, StoreFull, StoreUnreachable
from forebay.observe import emit

T = TypeVar("T")
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_PASSING = (StoreUnreachable, StoreBusy, StoreFull, MaybeApplied)


def passes(error: StoreError) -> bool:
    """Whether waiting may mend it; not so no such database, a wrong password, a file that is none of ours."""
    return isinstance(error, _PASSING)


async def ask(verb: str, enough: Callable[[StoreError], bool], call: Callable[..., T], *arguments: object) -> T:
    """What `call` returns, on a thread of its own; a failure that is `enough` is raised."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await aside(verb, call, *arguments)
        except StoreError as error:
            if enough(error):
                raise
            emit("store_failed", verb=verb, error_code=error.code, text=str(error), pause_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
