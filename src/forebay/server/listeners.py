"""Admits listeners within bounds for each key and tenant, and ends the streams of those who may listen no longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from forebay.errors import ForebayError
from forebay.server.callers import Caller
from forebay.server.problems import Refused
from forebay.server.service import Service
from forebay.stores.base import Ledger

_LOOK_S = 2.0
MAX_PER_KEY: Final = 100
_RETRY_AFTER = {"retry-after": "10"}


class Presence:
    """One stream: `over` once its caller may no longer listen, which `told` wakes it for."""

    def __init__(self, told: asyncio.Event, flow: str | None = None) -> None:
        self.over = False
        self.flow = flow
        self._told = told

    def end(self) -> None:
        self.over = True
        self._told.set()


class Listeners:
    """By the id of their key, None if they came without one: each key is read once, however many listen by it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._present: dict[str | None, set[Presence]] = {}

    def check_room(self, caller: Caller) -> None:
        """Refused if one more would be too many: for the server, for the caller's tenant, or for their key."""
        most, share = self._service.most_listeners, self._service.listeners_share
        present = [each for some in self._present.values() for each in some]
        if len(present) >= most:
            raise Refused(
                503,
                "too_many_listeners",
                f"{most} clients listen to this server already.",
                remedy="Ask for the job itself, or another server.",
                headers=_RETRY_AFTER,
            )
        if caller.key is None:
            return
        of_key = min(MAX_PER_KEY, max(1, int(most * share)))
        of_flow = sum(each.flow == caller.flow for each in present)
        if len(self._present.get(caller.key.id, ())) >= of_key or of_flow >= max(1, int(most * share)):
            raise Refused(
                429,
                "too_many_listeners",
                f"This key listens {of_key} times already, or its tenant has its share of this server's listeners.",
                remedy="Close some of the streams, or listen to /v1/events once for all jobs.",
                headers=_RETRY_AFTER,
            )

    @contextmanager
    def present(self, caller: Caller, told: asyncio.Event) -> Iterator[Presence]:
        presence = Presence(told, caller.flow)
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
