"""Divides the memory for uploads, and their number, between tenants, so that no tenant can take all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fastapi import Request

from forebay.server.problems import Refused
from forebay.server.shares import PER_FREE, Shares

FREE_BYTES: Final = 64 * 1024
"""Every upload may hold this much without asking; bodies of this size are counted apart from larger ones."""

_MIB = 1 << 20
MAX_HELD_BYTES: Final = 64 * _MIB
MAX_UPLOADS: Final = 512
MAX_SMALL: Final = 1024
SHARE: Final = 0.25
_RETRY_AFTER_S = 5


class UploadRoom:
    """`owner` is a tenant, or a key without one; None, where there are no keys, may have all of it."""

    def __init__(
        self,
        *,
        most_bytes: int = MAX_HELD_BYTES,
        most_uploads: int = MAX_UPLOADS,
        share: float = SHARE,
        most_small: int = MAX_SMALL,
        small_per_free: float = PER_FREE,
    ) -> None:
        self.most_uploads = most_uploads
        self._most_bytes = most_bytes
        self._share = share
        self._held: Counter[str | None] = Counter()
        self._uploads: Counter[str | None] = Counter()
        self._small = Shares(most_small, small_per_free)

    @property
    def held_bytes(self) -> int:
        """Bytes that uploads hold beyond their free ones."""
        return self._held.total()

    @contextmanager
    def enter(self, owner: str | None, *, small: bool) -> Iterator[Held]:
        """Admit one upload, or raise Refused; one that announces a small body has a place of its own kind."""
        if not small:
            self._admit(owner)
        elif not self._small.take(owner):
            raise _refused("As many small uploads are under way as this tenant, or this server, may have.")
        held = Held(self, owner)
        try:
            yield held
        finally:
            held.hold(0)
            if small:
                self._small.give_back(owner)
            else:
                self._drop(self._uploads, owner, 1)

    def _admit(self, owner: str | None) -> None:
        if self._uploads.total() >= self.most_uploads:
            raise _refused("This server takes in as many uploads as it can already.")
        if self._uploads[owner] >= self._part(self.most_uploads, owner):
            raise _refused("As many uploads of this tenant are under way as one tenant may have.")
        self._uploads[owner] += 1

    def resize(self, owner: str | None, before: int, after: int) -> bool:
        """Count `after` bytes in place of `before`. False, and nothing changes, if there is no room for more."""
        more = after - before
        if more > 0 and (
            self._held.total() + more > self._most_bytes
            or self._held[owner] + more > self._part(self._most_bytes, owner)
        ):
            return False
        self._held[owner] += more
        self._drop(self._held, owner, 0)
        return True

    def _part(self, whole: int, owner: str | None) -> int:
        return whole if owner is None else max(1, int(whole * self._share))

    @staticmethod
    def _drop(counter: Counter[str | None], owner: str | None, count: int) -> None:
        counter[owner] -= count
        if not counter[owner]:
            del counter[owner]


class Held:
    """The memory of one upload."""

    def __init__(self, room: UploadRoom, owner: str | None) -> None:
        self._room = room
        self._owner = owner
        self._counted = 0

    def hold(self, size: int) -> bool:
        """Hold `size` bytes in all. False if there is no room for them: write out what is held."""
        wanted = max(0, size - FREE_BYTES)
        if not self._room.resize(self._owner, self._counted, wanted):
            return False
        self._counted = wanted
        return True


def is_small(request: Request) -> bool:
    """By what the client announces: without a length there is no body, or a chunked one."""
    length = request.headers.get("content-length")
    if length is None:
        return "transfer-encoding" not in request.headers
    return length.isascii() and length.isdecimal() and int(length) <= FREE_BYTES


def no_memory() -> Refused:
    return _refused("The memory for uploads of this tenant, or of this server, is taken.")


def _refused(what: str) -> Refused:
    return Refused(
        503,
        "too_many_uploads",
        what,
        remedy="Send the document again in a moment, or wait for the end of others.",
        headers={"retry-after": str(_RETRY_AFTER_S)},
        closing=True,
    )
