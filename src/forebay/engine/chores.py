"""Does what has to be done now and then, and may take long: one thing at a time, beside a worker that ends any time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from forebay.engine.aside import aside
from forebay.errors import StoreError, StoreUnreachable
from forebay.observe import emit

_FIRST_S = 60.0


@dataclass(frozen=True, slots=True)
class Chore:
    """`run` blocks; it is safe for any number of workers at once."""

    name: str
    every_s: float
    run: Callable[[], None]


async def keep(chore: Chore) -> None:
    pause_s = min(_FIRST_S, chore.every_s)
    while True:
        await asyncio.sleep(_spread(pause_s))
        pause_s = chore.every_s
        try:
            await aside(chore.name, chore.run)
        except StoreUnreachable:
            pass  # a blob store that was never written to is not there either; who needs it says so
        except StoreError as error:
            emit("store_failed", verb=chore.name, error_code=error.code, text=str(error), pause_s=pause_s)


def _spread(seconds: float) -> float:
    """Not all workers at once."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
