"""Asks again and again whether those who listen may still do so, and ends the streams of those who may not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from forebay.errors import ForebayError
from forebay.server.callers import Caller
from forebay.server.service import Service
from forebay.stores.base import Ledger

_LOOK_S = 2.0


class Presence:
    """One stream: `over` once its caller may no longer listen, which `told` wakes it for."""

    def __init__(self, told: asyncio.Event) -> None:
        self.over = False
        self._told = told

    def end(self) -> None:
        self.over = True
        self._told.set()


class Listeners:
    """By the id of their key, None if they came without one: each key is read once, however many listen by it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._present: dict[str | None, set[Presence]] = {}

    @contextmanager
    def present(self, caller: Caller, told: asyncio.Event) -> Iterator[Presence]:
        presence = Presence(told)
        key_id = caller.key.id if caller.key else None
        self._present.setdefault(key_id, set()).add(presence)
        try:
            yield presence
        finally:
            self._present[key_id].discard(presence)
            if not self._present[key_id]:
                del self._present[key_id]

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            # A store that is silent has nothing to tell them either.
            with suppress(ForebayError):
                await self.look()

    async def look(self) -> None:
        service = self._service
        if None in self._present:
            service.keyed = service.keyed or await service.any_key()
            if service.keyed:
                self._end(None)
        asked = [key_id for key_id in self._present if key_id is not None]
        if asked:
            for key_id in await service.ask(_ended, service.app.ledger, asked):
                self._end(key_id)

    def _end(self, key_id: str | None) -> None:
        for presence in self._present.get(key_id, ()):
            presence.end()


def _ended(ledger: Ledger, key_ids: Sequence[str]) -> list[str]:
    now = time.time()
    found = ((key_id, ledger.get_key(key_id)) for key_id in key_ids)
    return [key_id for key_id, key in found if key is None or not key.alive(now)]
