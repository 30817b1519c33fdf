"""Tokens for Adobe's gateway: one for a process, fetched when it is needed, kept until shortly before it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from forebay.clock import steady
from forebay.engine.context import Context
from forebay.engine.signals import Retry
from forebay.errors import BadInput
from forebay.ids import printable
from forebay.observe.redact import hide, hide_given
from forebay.processors.adobe_errors import judged_token
from forebay.processors.credentials import read_text
from forebay.processors.messages import Request
from forebay.processors.origins import origin
from forebay.processors.transport import Transport
from forebay.rules.verdict import ErrorClass

_EARLY_S: Final = 300.0
_EARLY_SHARE: Final = 0.1
_SAME_S: Final = 0.5
_MAX_REPLY: Final = 65_536
_FORM: Final = {"content-type": "application/x-www-form-urlencoded"}


class Client:
    """Who we are: an id and a secret, as they are or in the file that Adobe hands out, read again for each token."""

    def __init__(self, given: tuple[str, str] | None = None, *, file: Path | None = None) -> None:
        if (given is None) == (file is None):
            raise BadInput("A client of Adobe is given as it is or in a file.", remedy="Give exactly one of them.")
        self._given = given
        self._file = file

    def read(self) -> tuple[str, str]:
        """Blocking; BadInput for what is not a client."""
        found = self._given if self._file is None else _in_file(self._file)
        if found is None or not all(each.isascii() and each.isprintable() and each.strip() for each in found):
            where = "What is set" if self._file is None else f"What is in {printable(str(self._file))}"
            raise BadInput(
                f"{where} is not a client of Adobe.", remedy="Give client_id and client_secret of its credentials file."
            )
        hide_given(found[1])
        return found


def _in_file(path: Path) -> tuple[str, str] | None:
    try:
        told: Any = json.loads(read_text(path))
    except ValueError:
        return None
    told = told.get("client_credentials", told) if isinstance(told, dict) else None
    match told:
        case {"client_id": str(name), "client_secret": str(secret)}:
            return name, secret
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _Kept:
    headers: Mapping[str, str]
    until: float


class Token:
    """Its fetching is a call of the limit like any other."""

    def __init__(self, url: str, client: Client, *, transport: Callable[[], Transport], limit: str) -> None:
        self._url = f"{url.rstrip('/')}/token"
        self._client = client
        self._transport = transport
        self._limit = limit
        self._kept: _Kept | None = None
        self._failed: tuple[float, Exception] | None = None
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def of(self, ctx: Context, url: str) -> Bound:
        """For the calls of one attempt to the origin of this address."""
        return Bound(self, ctx, origin(url))

    async def headers(self, ctx: Context, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Those at hand, unless they are over or were refused; of many who ask at once, one fetches."""
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            kept = self._kept
            if kept is None or steady() >= kept.until or kept.headers == refused:
                kept = self._kept = await self._tried(ctx)
            return kept.headers

    async def _tried(self, ctx: Context) -> _Kept:
        """Those who stood behind one that got none get the same answer, instead of asking one after the other."""
        if self._failed is not None and steady() < self._failed[0] + _SAME_S:
            raise self._failed[1].with_traceback(None)
        try:
            return await self._fetched(ctx)
        except Exception as error:
            self._failed = (steady(), error)
            raise

    async def _fetched(self, ctx: Context) -> _Kept:
        try:
            name, secret = await asyncio.to_thread(self._client.read)
        except BadInput as error:
            raise Retry(str(error), error_class=ErrorClass.AUTH) from None
        asked_at = steady()
        body = urlencode({"client_id": name, "client_secret": secret}).encode()
        reply = await self._transport().call(
            ctx,
            Request(method="POST", url=self._url, headers=_FORM, body=body),
            limit=self._limit,
            meter=self._limit,
            judge=judged_token,
            max_reply=_MAX_REPLY,
        )
        said: Any = reply.json if isinstance(reply.json, dict) else {}
        token, lasts_s = said.get("access_token"), said.get("expires_in")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise Retry("Adobe's answer has no token.", error_class=ErrorClass.BAD_RESPONSE)
        hide(token)
        lasts_s = float(lasts_s) if isinstance(lasts_s, (int, float)) and lasts_s > 0 else 0.0
        early_s = min(_EARLY_S, _EARLY_SHARE * lasts_s)
        return _Kept({"authorization": f"Bearer {token}", "x-api-key": name}, asked_at + lasts_s - early_s)


class Bound:
    """A token as the transport wants it."""

    def __init__(self, token: Token, ctx: Context, home: str) -> None:
        self._token = token
        self._ctx = ctx
        self.origin = home

    async def headers(self) -> Mapping[str, str]:
        return await self._token.headers(self._ctx)

    async def renewed(self, refused: Mapping[str, str]) -> bool:
        return await self._token.headers(self._ctx, refused) != refused
