"""What an API of the simulator is: it knows its routes, does their work, and has its own words for refusals."""

from __future__ import annotations

from typing import Protocol

from forebay.simulate.fault import Fault
from forebay.simulate.messages import Denial, Reply, Request, Work


class Api(Protocol):
    def find(self, request: Request) -> str | None:
        """The route that the request is for, with what its path holds put into `groups`."""

    async def prepare(self, route: str, request: Request) -> Work:
        """Check the request; raise Refused for one that no quota would have to be asked about."""

    def denied(self, route: str, denial: Denial | None, fault: Fault) -> Reply:
        """Its own 429: `fault` has the form in which to say when to come again, `denial` what was exceeded."""

    def unauthorized(self, route: str) -> Reply: ...

    def broken(self, route: str, status: int) -> Reply:
        """Its own 500, 503 or 504; 502 comes from what stands before it, as HTML."""

    def finish(self, route: str, request: Request, reply: Reply) -> None:
        """Add the headers that all answers have."""
