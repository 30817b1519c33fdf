"""Reads bodies in time, and JSON within bounds: size, depth, no key twice, no NaN; what is wrong with it is a 400."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from forebay.errors import BadPayload, ForebayError, TooLarge
from forebay.model.payload import MAX_BYTES, Json, parse
from forebay.server.callers import Needs, known_caller
from forebay.server.problems import Refused
from forebay.server.queries import StrictRoute
from forebay.server.service import service_of
from forebay.server.upload_room import is_small, no_memory

_LESS = "Send less at once."
_LEAST_BYTES_S = 1024
_DOUBLINGS = 5


class _Carried(HTTPException):
    """FastAPI lets nothing else through while it reads a body."""

    def __init__(self, error: ForebayError) -> None:
        super().__init__(error.http_status)
        self.error = error


class _JsonRequest(Request):
    async def body(self) -> bytes:
        try:
            return await bounded(self)
        except ForebayError as error:
            raise _Carried(error) from None

    async def json(self) -> Json:
        try:
            return decoded(await self.body())
        except ForebayError as error:
            raise _Carried(error) from None


class JsonRoute(StrictRoute):
    """Of somebody who may not ask, no body is read: FastAPI would find out who it is only afterwards."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        takes_body = self.body_field is not None
        doors = [each.call for each in self.dependant.dependencies if isinstance(each.call, Needs)]

        async def handled(request: Request) -> Response:
            if not takes_body:
                return await handle(request)
            for door in doors:
                await door(request)
            try:
                return await handle(_JsonRequest(request.scope, request.receive))
            except _Carried as carried:
                raise carried.error from None

        return handled


async def bounded(request: Request, *, most: int = MAX_BYTES) -> bytes:
    """The whole body, which has to be JSON by its type if there is any."""
    if hasattr(request, "_body"):
        kept: bytes = request._body  # noqa: SLF001 - where starlette keeps what was read
        return kept
    check_length(request, most)
    service, caller = service_of(request), known_caller(request)
    owner = None if caller is None else caller.flow
    pieces: list[bytes] = []
    size = 0
    with service.uploads.enter(owner, small=is_small(request)) as memory:
        async for piece in in_time(request, service.slow_after_s):
            size += len(piece)
            if size > most:
                raise too_large(most)
            if not memory.hold(size):
                raise no_memory()
            pieces.append(piece)
    body = b"".join(pieces)
    if body and _media_type(request) != "application/json":
        raise Refused(415, "not_json", "The body is not sent as JSON.", remedy="Send Content-Type: application/json.")
    request._body = body  # noqa: SLF001 - same
    return body


async def in_time(
    request: Request, slow_after_s: float, still_here: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[bytes]:
    """The body, as long as it comes at more than a trickle; `still_here` is called every few seconds meanwhile."""
    loop = asyncio.get_running_loop()
    pieces = _pieces(request)
    told_at = time.monotonic()
    waited_s, got, least, left_s = 0.0, 0, least_bytes_s(0, slow_after_s), slow_after_s
    while True:
        asked_at = loop.time()
        try:
            async with asyncio.timeout(left_s):
                data = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(
                408,
                "too_slow",
                f"Less than {least} bytes a second came for {slow_after_s:g} s.",
                remedy="Send it again over a faster line.",
                closing=True,
            ) from None
        # Only the time that the sender took counts, not that of our own stores.
        took_s = loop.time() - asked_at
        waited_s += took_s
        left_s -= took_s
        got += len(data)
        if got >= least * slow_after_s:
            got, least, left_s = 0, least_bytes_s(waited_s, slow_after_s), slow_after_s
        yield data
        del data  # or a slow body would be held twice while its next piece is waited for
        if still_here is not None and time.monotonic() - told_at > slow_after_s / 3:
            told_at = time.monotonic()
            await still_here()


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes; starlette's own would keep each piece until the next one, which may be a long time."""
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        more = message.get("more_body", False)
        yield message.pop("body", b"")


def least_bytes_s(waited_s: float, slow_after_s: float) -> int:
    """The least speed of a body that has taken so long: it doubles a few times, so that no body lasts for ever."""
    return int(_LEAST_BYTES_S * 2 ** min(_DOUBLINGS, waited_s // slow_after_s))


def decoded(body: bytes) -> Json:
    try:
        return parse(body.decode("utf-8"), what="body")
    except TooLarge:
        raise
    except (UnicodeDecodeError, BadPayload) as error:
        what = error.what if isinstance(error, BadPayload) else "The body is not UTF-8."
        # What is JSON, but holds what no store can, is a matter of its content.
        status = 422 if "surrogate" in what or "NUL" in what else 400
        raise Refused(status, "bad_json", what, remedy="Send one JSON object.") from None


def check_length(request: Request, most: int, *, remedy: str = _LESS) -> int | None:
    """By what the client announces, before anything is read."""
    said = request.headers.get("content-length")
    if said is None:
        return None
    length = int(said) if said.isascii() and said.isdecimal() else -1
    if length > most:
        raise too_large(most, remedy=remedy)
    return length


def too_large(most: int, *, remedy: str = _LESS) -> Refused:
    return Refused(413, "too_large", f"The body has more than {most:,} bytes.", remedy=remedy, closing=True)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
