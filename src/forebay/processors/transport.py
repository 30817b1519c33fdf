"""Makes every call to a provider: its slot right before the bytes, one try, and a class for whatever goes wrong."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import httpx2

from forebay.clock import steady
from forebay.engine.context import Context
from forebay.engine.signals import Retry, Signal
from forebay.errors import NeverFits
from forebay.limits.slot import Slot
from forebay.model.call_outcome import CallOutcome
from forebay.model.limit import CALLS
from forebay.observe.redact import hide_given
from forebay.processors import origins
from forebay.processors.credentials import Credentials
from forebay.processors.messages import Judge, Refusal, Reply, Request, Stream, by_status, signal
from forebay.rules.call_outcome import judge_exception
from forebay.rules.verdict import ErrorClass

Settle = Callable[[Reply], Mapping[str, int] | None]
"""What a call really took of its limit, where only the answer tells."""

MAX_REPLY: Final = 64 * 1024 * 1024
TIMEOUT_S: Final = 60.0
_CONNECT_S = 10.0
_KEPT_S = 5.0
_KEPT = 100
_FORGET_S = 10.0  # after which a limit is asked again whether it counts a unit
_UNAUTHORIZED = 401
# What these say about the provider follows from the class, or is not known.
_UNSETTLED = {
    ErrorClass.RATE_LIMITED,
    ErrorClass.QUOTA_EXHAUSTED,
    ErrorClass.NETWORK_ERROR,
    ErrorClass.SERVICE_UNAVAILABLE,
    ErrorClass.INTERNAL_ERROR,
    ErrorClass.BAD_RESPONSE,
}
_SENDING = "http11.send_request_headers.started"
_AGENT = "forebay (gzip)"  # some of Google's servers compress only for those who name it here, too


class _Unauthorized(Retry):
    """Other credentials may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    limit: str | None
    units: Mapping[str, int]
    meter: str | None
    judge: Judge
    settle: Settle | None
    timeout_s: float
    max_reply: int


class Transport:
    """One client for all providers of a process: no retries, no redirects, no cookies, no proxy but the one given."""

    def __init__(self, *, proxy: str | None = None) -> None:
        self._proxy = proxy
        if proxy is not None:
            hide_given(httpx2.URL(proxy).password)
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._uncounted: dict[tuple[str, str], float] = {}

    async def call(
        self,
        ctx: Context,
        request: Request,
        *,
        limit: str | None,
        units: Mapping[str, int] | None = None,
        meter: str | None = None,
        judge: Judge = by_status,
        credentials: Credentials | None = None,
        settle: Settle | None = None,
        timeout_s: float = TIMEOUT_S,
        max_reply: int = MAX_REPLY,
    ) -> Reply:
        """The provider's answer, or a signal that says what became of the call.

        Of the limit it takes those of `units` that the limit counts; without a `limit`, no slot. Each sending is a
        call on the `meter`. Credentials that are refused are renewed, once, and the call is made again.
        """
        terms = _Terms(
            limit=limit,
            units=units or {CALLS: 1},
            meter=meter,
            judge=judge,
            settle=settle,
            timeout_s=timeout_s,
            max_reply=max_reply,
        )
        if credentials is None:
            return await self._once(ctx, request, {}, terms)
        origins.check_own(request.url, credentials.origin)
        headers = await credentials.headers()
        try:
            return await self._once(ctx, request, headers, terms)
        except _Unauthorized:
            if not await credentials.renewed(headers):
                raise
        return await self._once(ctx, request, await credentials.headers(), terms)

    async def aclose(self) -> None:
        """It is opened again when it is next used."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    async def _once(self, ctx: Context, request: Request, headers: Mapping[str, str], terms: _Terms) -> Reply:
        client = await self._opened()
        async with AsyncExitStack() as stack:
            slot, units = await self._slot(ctx, terms, stack)

            async def sending(event: str, info: Mapping[str, Any]) -> None:
                """By now there is a connection, which may have taken longer than a slot is good for."""
                if event != _SENDING or info["request"].method == b"CONNECT":
                    return
                if slot is not None:
                    await slot.astart()
                if terms.meter is not None:
                    ctx.used(terms.meter, CALLS)

            # Inside of the slot: what is raised there tells the limit what became of the call.
            reply = await _sent(client, request, headers, terms, sending)
            refusal = terms.judge(reply)
            if refusal is not None:
                if slot is not None:
                    _tell(slot, refusal)
                raise _refused(refusal, reply)
            if slot is not None and terms.settle is not None:
                _settle(slot, units, terms.settle(reply))
            return reply

    async def _slot(self, ctx: Context, terms: _Terms, stack: AsyncExitStack) -> tuple[Slot | None, Mapping[str, int]]:
        if terms.limit is None:
            return None, {}
        while True:
            now = steady()
            units = {
                unit: count
                for unit, count in terms.units.items()
                if now >= self._uncounted.get((terms.limit, unit), 0.0)
            }
            try:
                return await stack.enter_async_context(ctx.slot(terms.limit, units=units or None)), units
            except NeverFits as error:
                if error.unnamed:
                    raise  # no smaller chunk would name it
                if error.uncounted not in units:
                    raise signal(Refusal(ErrorClass.REPLAN, str(error))) from None
                self._uncounted[terms.limit, error.uncounted] = steady() + _FORGET_S

    async def _opened(self) -> httpx2.AsyncClient:
        tls = await asyncio.to_thread(_tls, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._client = httpx2.AsyncClient(
                headers={"user-agent": _AGENT, "accept-encoding": "gzip"},
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=_KEPT, keepalive_expiry=_KEPT_S),
                # Proxies and .netrc of the environment are not for us; certificates named there are.
                trust_env=False,
                verify=tls,
                proxy=self._proxy,
            )
        return self._client


@cache
def _tls(*_: str | None) -> ssl.SSLContext:
    """By the certificates that the environment names: reading them takes long enough to do it once."""
    return httpx2.create_ssl_context()


async def _sent(
    client: httpx2.AsyncClient,
    request: Request,
    headers: Mapping[str, str],
    terms: _Terms,
    sending: Callable[..., object],
) -> Reply:
    try:
        async with (
            asyncio.timeout(terms.timeout_s),
            client.stream(
                request.method,
                request.url,
                headers={**_length(request), **request.headers, **headers},
                content=request.body if isinstance(request.body, bytes) else _pieces(request.body),
                timeout=httpx2.Timeout(terms.timeout_s, connect=_CONNECT_S, pool=None),
                extensions={"trace": sending},
            ) as response,
        ):
            return await _read(response, terms.max_reply)
    except TimeoutError as error:
        failed = Refusal(ErrorClass.TIMEOUT, f"The provider took longer than {terms.timeout_s:g} s.")
        call = judge_exception(error, now=time.time())
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        failed = _failed(error)
        call = judge_exception(error, now=time.time())
    # Not in the except: texts of the client may hold headers, and a traceback would show them.
    made = signal(failed)
    made.call = call
    raise made


def _refused(refusal: Refusal, reply: Reply) -> Signal:
    made = signal(refusal, reply)
    if isinstance(made, Retry) and made.error_class == ErrorClass.TIMEOUT:
        # The provider gave up, not we: it answered, so the outage costs no retry.
        made.call = CallOutcome("failed", status=reply.status, error_class=ErrorClass.TIMEOUT, blames_provider=True)
    if reply.status == _UNAUTHORIZED and isinstance(made, Retry) and made.error_class == ErrorClass.AUTH:
        return _Unauthorized(made.text, error_class=made.error_class, delay_s=made.delay_s)
    return made


def _tell(slot: Slot, refusal: Refusal) -> None:
    """Tell the limit what the refusal does not show by its class: the call is over, and the provider is well or not."""
    if refusal.error_class == ErrorClass.TIMEOUT:
        slot.failed()  # the provider gave up, not we: the slot need not be kept for the call
    elif refusal.error_class not in _UNSETTLED:
        slot.ended(CallOutcome("ok"))


def _settle(slot: Slot, reserved: Mapping[str, int], took: Mapping[str, int] | None) -> None:
    counted = {unit: count for unit, count in (took or {}).items() if unit in reserved}
    if counted:
        slot.settle(counted)


def _length(request: Request) -> dict[str, str]:
    return {"content-length": str(request.body.size)} if isinstance(request.body, Stream) else {}


async def _pieces(stream: Stream) -> AsyncIterator[bytes]:
    for piece in stream.pieces():
        yield piece


async def _read(response: httpx2.Response, most: int) -> Reply:
    """Unpacked piece by piece, so that a small reply cannot grow beyond its bound.

    What breaks after the headers leaves a reply: a job may have begun by then, and they say where it is.
    """
    pieces: list[bytes] = []
    size = 0
    lost = None
    try:
        async for piece in response.aiter_bytes():
            size += len(piece)
            if size > most:
                raise signal(Refusal(ErrorClass.BAD_RESPONSE, f"The provider's answer has more than {most} bytes."))
            pieces.append(piece)
    except (httpx2.RemoteProtocolError, httpx2.DecodingError):
        lost = ErrorClass.BAD_RESPONSE
    except httpx2.ReadError:
        lost = ErrorClass.NETWORK_ERROR
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(
        status=response.status_code, headers=headers, body=b"".join(pieces), lost=lost, received_at=time.time()
    )


def _failed(error: Exception) -> Refusal:
    """By its type; the text says no more than that."""
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return Refusal(ErrorClass.NETWORK_ERROR, "The provider could not be reached in time.")
        case httpx2.TimeoutException():
            return Refusal(ErrorClass.TIMEOUT, "The provider did not answer in time.")
        case httpx2.RemoteProtocolError() if not str(error).startswith("Server disconnected"):
            return Refusal(ErrorClass.BAD_RESPONSE, "The provider's answer is not HTTP.")
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return Refusal(ErrorClass.BUG, f"The request could not be made: {type(error).__name__}.")
        case _:
            return Refusal(ErrorClass.NETWORK_ERROR, f"The connection to the provider failed: {type(error).__name__}.")
