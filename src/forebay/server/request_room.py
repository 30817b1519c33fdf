"""Divides the requests that a server answers at once between tenants, so that each of them finds a connection."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from forebay.server.file_limit import MAX_CONNECTIONS
from forebay.server.problems import Refused
from forebay.server.shares import PER_FREE, Shares

PLACE: Final = "forebay_place"
_RETRY_AFTER_S = 2
_MOST_KNOWN = 10_000


class RequestRoom:
    """`most` is how many connections there are. Who came without a key has no share: the connections bound them.

    Whose key it is, is remembered: a request of a tenant that has its share is refused before a store is asked.
    """

    def __init__(self, most: int = MAX_CONNECTIONS, per_free: float = PER_FREE) -> None:
        self._shares = Shares(most, per_free)
        self._known: dict[bytes, str] = {}

    def resize(self, most: int) -> None:
        self._shares.most = most

    def flow_of(self, digest: bytes) -> str | None:
        return self._known.get(digest)

    def remember(self, digest: bytes, flow: str) -> None:
        if digest not in self._known and len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[digest] = flow

    def forget(self, digest: bytes) -> None:
        self._known.pop(digest, None)

    def enter(self, flow: str) -> None:
        if not self._shares.take(flow):
            raise Refused(
                429,
                "too_many_open_requests",
                f"{self._shares.held(flow)} requests of this tenant are under way, which is its share of this server.",
                remedy="Wait for the answers to some of them, or ask another server.",
                headers={"retry-after": str(_RETRY_AFTER_S)},
                closing=True,
            )

    def leave(self, flow: str) -> None:
        self._shares.give_back(flow)


class Place:
    """The place of one request, from when its caller is known to its end."""

    def __init__(self, room: RequestRoom, authorization: bytes | None) -> None:
        self.flow: str | None = None
        self._room = room
        self._digest = None if authorization is None else sha256(authorization).digest()

    def take_if_known(self) -> None:
        """Take a place if the key was seen before, or raise Refused; whether the key still holds is found out later."""
        if self._digest is not None:
            self._enter(self._room.flow_of(self._digest))

    def take(self, flow: str | None) -> None:
        """Take a place for the caller, or raise Refused."""
        if flow == self.flow:
            return
        self.give_back()
        if flow is not None and self._digest is not None:
            self._room.remember(self._digest, flow)
        self._enter(flow)

    def forget(self) -> None:
        """The key does not hold: requests with it are no longer its tenant's."""
        if self._digest is not None:
            self._room.forget(self._digest)
        self.give_back()

    def give_back(self) -> None:
        flow, self.flow = self.flow, None
        if flow is not None:
            self._room.leave(flow)

    def _enter(self, flow: str | None) -> None:
        if flow is not None:
            self._room.enter(flow)
            self.flow = flow
