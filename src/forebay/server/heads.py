"""Answers HEAD as GET without the body; streams of events, which have no end, have none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.types import ASGIApp

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


_RANGES = {b"range", b"if-range"}


def has_head(path: str) -> bool:
    """Of a path that GET is answered at."""
    return not path.endswith("/events")


class Heads:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or not has_head(scope["path"]):
            await self._app(scope, receive, send)
            return
        ended = False

        async def sent(message: Message) -> None:
            nonlocal ended
            if message["type"] != "http.response.body":
                await send(message)
            elif not ended:
                ended = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        # A range is of GET alone.
        headers = [each for each in scope["headers"] if each[0] not in _RANGES]
        await self._app({**scope, "method": "GET", "headers": headers}, receive, sent)
