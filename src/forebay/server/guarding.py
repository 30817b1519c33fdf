"""Looks at every request before anything else does: its id, its size, whence it comes, and what leaves in the end."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from forebay import ids
from forebay.errors import SchemaTooNew
from forebay.server.problems import UPGRADE, Refused, of_anything
from forebay.server.request_room import PLACE, Place
from forebay.server.service import Service

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024
MAX_TARGET_BYTES = 8 * 1024
_ALIVE = "/livez"
_READY = "/readyz"
_METRICS = "/metrics"  # on loopback nobody needs a key for them
_UNSHARED = {_ALIVE, _READY, _METRICS}
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LOOPBACK = re.compile(
    rf"(localhost|127(\.{_BYTE}){{3}}|\[::1\]|([a-z0-9-]+\.)+localhost)(:\d{{1,5}})?", re.IGNORECASE | re.ASCII
)
_OWN_SITES = {"same-origin", "none"}
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NO_SCRIPT = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox")


class Guard:
    """The outermost layer: what breaks below it becomes a problem document here."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _Headers(scope)
        asked = headers.one(b"x-request-id") or ""
        request_id = asked if _REQUEST_ID.fullmatch(asked) else ids.random_id()
        scope["forebay_request_id"] = request_id
        place = scope[PLACE] = Place(self._service.requests, headers.raw(b"authorization"))
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = _told(message["headers"], request_id)
            await send(message)

        try:
            self._check(scope, headers)
            if scope["path"] not in _UNSHARED:
                place.take_if_known()
            await self._app(scope, receive, sent)
        except Exception as error:
            if begun:
                raise
            await of_anything(error, request_id)(scope, receive, sent)
        finally:
            place.give_back()

    def _check(self, scope: Message, headers: _Headers) -> None:
        if len(scope["headers"]) > MAX_HEADERS or headers.size > MAX_HEADER_BYTES:
            raise Refused(
                431,
                "headers_too_large",
                f"There are more than {MAX_HEADERS} headers or {MAX_HEADER_BYTES} bytes of them.",
                remedy="Send fewer.",
                closing=True,
            )
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_TARGET_BYTES:
            raise Refused(
                414, "target_too_long", f"The path has more than {MAX_TARGET_BYTES} bytes.", remedy="Shorten it."
            )
        if headers.has(b"transfer-encoding") and headers.has(b"content-length"):
            raise Refused(
                400,
                "two_lengths",
                "The request has both Transfer-Encoding and Content-Length.",
                remedy="Send one of them.",
                closing=True,
            )
        open_ = scope["path"] == _METRICS and self._service.loopback
        if open_ or (not self._service.keyed and scope["path"] != _ALIVE):
            _check_near(headers)
        if self._service.newer_schema is not None and scope["path"] not in _UNSHARED:
            raise Refused(503, SchemaTooNew.code, SchemaTooNew.public, remedy=UPGRADE, closing=True)


class _Headers:
    def __init__(self, scope: Message) -> None:
        self._all: list[tuple[bytes, bytes]] = scope["headers"]

    @property
    def size(self) -> int:
        return sum(len(name) + len(value) for name, value in self._all)

    def has(self, name: bytes) -> bool:
        return any(each == name for each, _ in self._all)

    def raw(self, name: bytes) -> bytes | None:
        return next((value for each, value in self._all if each == name), None)

    def one(self, name: bytes) -> str | None:
        found = self.raw(name)
        return None if found is None else found.decode("latin-1")


def _check_near(headers: _Headers) -> None:
    """Without keys anybody on this machine is let in, but no page of a browser, under whatever name it found us."""
    host = headers.one(b"host") or ""
    if not _LOOPBACK.fullmatch(host):
        raise _foreign("foreign_host", f"Host is {ids.shown(host)}, which is not this machine.")
    origin = headers.one(b"origin")
    if origin is not None and _place(origin) != host.lower():
        raise _foreign("foreign_origin", f"Origin is {ids.shown(origin)}, which is another site.")
    site = headers.one(b"sec-fetch-site")
    if site is not None and site not in _OWN_SITES:
        raise _foreign("foreign_site", "Sec-Fetch-Site says that another site asks.")


def _place(origin: str) -> str | None:
    """None if it is no URL that this server could have answered at."""
    try:
        found = urlsplit(origin)
    except ValueError:
        return None
    return found.netloc.lower() if found.scheme == "http" else None


def _foreign(code: str, what: str) -> Refused:
    return Refused(
        403, code, what, remedy="Use http://127.0.0.1, or make an API key: `forebay keys create`.", closing=True
    )


def _told(headers: list[tuple[bytes, bytes]], request_id: str) -> list[tuple[bytes, bytes]]:
    named = {name.lower() for name, _ in headers}
    more = [*_ALWAYS, (b"x-request-id", request_id.encode())]
    if b"content-security-policy" not in named:
        more.append(_NO_SCRIPT)
    if b"cache-control" not in named:
        more.append((b"cache-control", b"no-store"))
    return [*headers, *more]
