"""Reads JSON bodies within bounds: size, depth, no key twice, no NaN; what is wrong with one is a 400, not a crash."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from forebay.errors import BadPayload, ForebayError, TooLarge
from forebay.model.payload import MAX_BYTES, Json, parse
from forebay.server.problems import Refused
from forebay.server.queries import StrictRoute

_LESS = "Send less at once."


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
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        takes_body = self.body_field is not None

        async def handled(request: Request) -> Response:
            if not takes_body:
                return await handle(request)
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
    pieces: list[bytes] = []
    size = 0
    async for piece in Request.stream(request):
        size += len(piece)
        if size > most:
            raise too_large(most)
        pieces.append(piece)
    body = b"".join(pieces)
    if body and _media_type(request) != "application/json":
        raise Refused(415, "not_json", "The body is not sent as JSON.", remedy="Send Content-Type: application/json.")
    request._body = body  # noqa: SLF001 - same
    return body


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
