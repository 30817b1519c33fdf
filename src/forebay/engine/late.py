"""Takes up the kinds that a worker left out because nobody had defined their limits, once somebody has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from forebay.engine.aside import aside
from forebay.engine.quotas import Quotas
from forebay.engine.registry import Kind, Registry
from forebay.errors import StoreError

_LOOK_S = 3.0


class LeftOut(NamedTuple):
    """Limited kinds of async handlers; `defined`, which blocks, tells those of them whose limits are known by now."""

    kinds: Sequence[Kind] = ()
    defined: Callable[[Sequence[Kind]], Sequence[Kind]] = tuple


NONE_LEFT_OUT = LeftOut()


async def take_up(left_out: LeftOut, registry: Registry, quotas: Quotas, tell: Callable[[], Awaitable[None]]) -> None:
    left = list(left_out.kinds)
    while left:
        await asyncio.sleep(_LOOK_S)
        for kind in await aside("late", left_out.defined, left):
            with suppress(StoreError):  # looked at again
                made = await aside("late", quotas.made, [kind], asyncio.get_running_loop())
                left.remove(kind)
                registry.add(kind)
                quotas.take_up(made)
                await tell()
