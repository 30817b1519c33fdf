"""What comes in and what goes out, whatever the API."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json


@dataclass
class Request:
    """`route` and `groups` are filled in by the one who found the route; `body` when it has arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    base: str
    arrived: float
    body: bytes = b""
    groups: dict[str, str] = field(default_factory=dict)

    def bearer(self) -> str:
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if kind.lower() == "bearer" else ""

    def json(self) -> dict[str, Any] | None:
        """The object in the body; None if there is none."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


@dataclass
class Reply:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def json_reply(status: int, content: object, **headers: str) -> Reply:
    return encoded_reply(status, encoded(content), **headers)


def encoded(content: object) -> bytes:
    return to_json(content)


def encoded_reply(status: int, body: bytes, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, body, {"content-type": "application/json; charset=UTF-8", **named})


class Refused(Exception):
    """The request is refused for what it is: the reply says so."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


@dataclass
class Work:
    """What an accepted request asks for: `units` are known before, `used` (for money) may be more exact."""

    do: Callable[[], Awaitable[Reply]]
    units: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    fingerprint: str = ""
    special: Callable[[str], Reply | None] = lambda _: None
    """The answer to a fault that only this API knows, by its kind."""
    also: str = ""
    """A second route that the call begins, and that ends later: a job."""


@dataclass(frozen=True)
class Denial:
    """Why a quota refuses: which bound of it, and when the call would have fitted, if ever."""

    quota: str
    bound: str
    unit: str
    limit: int
    per_s: float | None
    retry_in_s: float
    month: bool = False
