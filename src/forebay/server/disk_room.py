"""Remembers that a store had no room for a request, and finds out when it has room again."""

from __future__ import annotations

import asyncio
import time
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

from forebay import ids
from forebay.app.forebay import Forebay
from forebay.blobs.os_errors import in_temp_folder
from forebay.errors import StoreError
from forebay.model.task import DEFAULT_TENANT

if TYPE_CHECKING:
    from forebay.server.service import Service

PROBE_BYTES: Final = 1 << 20
_EVERY_S = 1.0
_HELD_S = 1.0


class DiskRoom:
    """A store that was full is tried by a write, when somebody asks and at most once a second."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._full_at: float | None = None
        self._probed_at = float("-inf")
        self._probing = asyncio.Lock()

    def is_full(self) -> None:
        self._full_at = time.monotonic()

    def has_room(self) -> None:
        self._full_at = None

    async def still_full(self) -> bool:
        if self._full_at is None:
            return False
        async with self._probing:
            full_at, now = self._full_at, time.monotonic()
            if full_at is None or now - self._probed_at < _EVERY_S:
                return full_at is not None
            try:
                await self._service.ask(_write, self._service.app)
            except StoreError:
                return True
            finally:
                # At its end: who waited for a store that was silent has the answer, and need not wait as long again.
                self._probed_at = time.monotonic()
            # Another request may have found it full meanwhile.
            if self._full_at == full_at:
                self._full_at = None
            return self._full_at is not None


def _write(app: Forebay) -> None:
    """Write to the temporary folder and both stores; nothing stays."""
    with in_temp_folder(), TemporaryFile() as copy:
        copy.write(bytes(PROBE_BYTES))
    with app.blobs.writing(DEFAULT_TENANT) as draft:
        draft.write(bytes(PROBE_BYTES))
    key = token = ids.random_id()
    app.ledger.begin_request(DEFAULT_TENANT, key, token, _HELD_S)
    app.ledger.end_request(DEFAULT_TENANT, key, token)
