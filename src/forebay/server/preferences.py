"""Reads what a client prefers: how long it would wait for an end, and which status says that the store is full."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from fastapi import Header

from forebay.app.waiting import looks
from forebay.errors import StoreError
from forebay.model.job import Job
from forebay.model.task import Task

if TYPE_CHECKING:
    from forebay.server.service import Service

MAX_WAIT_S = 60
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?(?=$|[,;\s])")
_FULL = re.compile(r"(?:^|[,;\s])full\s*=\s*\"?507\"?(?=$|[,;\s])")
Prefer = Annotated[
    str | None,
    Header(
        max_length=256,
        description=f"`wait=N`: answer when it has ended, or after N s, {MAX_WAIT_S} at most. "
        "`full=507`: a store without room is a 507, not a 503.",
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        description="The same request again under the same key gets the first answer, and is done once.",
    ),
]


def wait_s(prefer: str | None) -> float:
    found = _WAIT.search(prefer or "")
    return 0.0 if found is None else float(min(MAX_WAIT_S, int(found[1])))


def full_507(prefer: str | None) -> bool:
    return _FULL.search(prefer or "") is not None


async def ended(service: Service, identifier: str, within_s: float) -> Task | Job | None:
    """What it has become once it has ended; None if it has not within that time."""
    for pause_s in looks(within_s):
        # It is stored: that the store is silent now must not look as if it were not.
        with suppress(StoreError):
            found = await service.ask(service.app.get, identifier)
            if found.status.terminal:
                return found
        if service.stopping.is_set() or not pause_s:
            break
        await asyncio.sleep(pause_s)
    return None
