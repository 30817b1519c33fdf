"""Makes the one request of an attempt: to a checked address, under the name of the URL; reads little of the answer."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import httpx2

from forebay.callbacks import guard
from forebay.callbacks.guard import Resolve
from forebay.callbacks.target import Policy, Target
from forebay.engine.signals import Retry
from forebay.rules.verdict import ErrorClass

MAX_ANSWER: Final = 64 * 1024
_CONNECT_S = 10.0
_AGENT = "forebay"
Network = Callable[[ssl.SSLContext], httpx2.AsyncBaseTransport]
"""What carries requests; made for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Of a receiver; its body is of no interest."""

    status: int
    headers: Mapping[str, str]
    received_at: float


def network(tls: ssl.SSLContext) -> httpx2.AsyncBaseTransport:
    """Keeps no connection: one that was made under another name must not be used again."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx2.AsyncHTTPTransport(verify=tls, limits=limits, trust_env=False, retries=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """No redirects, no proxies, no cookies, nothing of the environment but its certificates."""

    policy: Policy
    timeout_s: float = 30.0
    look_up: Resolve = guard.resolve
    network: Network = network

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer whatever it says; a Retry if there is none in time."""
        try:
            async with asyncio.timeout(self.timeout_s):
                addresses = await guard.checked(target, self.policy, self.look_up)
                return await self._first(target, addresses, headers, body)
        except TimeoutError:
            failed = Retry(f"The receiver took longer than {self.timeout_s:g} s.", error_class=ErrorClass.TIMEOUT)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            text = f"The connection to the receiver failed: {type(error).__name__}."
            failed = Retry(text, error_class=ErrorClass.NETWORK_ERROR)
        # Not in the except: a traceback would show what the client knows.
        raise failed

    async def _first(self, target: Target, addresses: list[str], headers: Mapping[str, str], body: bytes) -> Answer:
        """By the first address that can be connected to; once anything was sent, no other is tried."""
        tls = await asyncio.to_thread(_tls, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        for address in addresses[:-1]:
            try:
                return await self._to(address, target, headers, body, tls)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._to(addresses[-1], target, headers, body, tls)

    async def _to(
        self, address: str, target: Target, headers: Mapping[str, str], body: bytes, tls: ssl.SSLContext
    ) -> Answer:
        named = {"host": target.url.netloc.decode("ascii"), "user-agent": _AGENT, "accept-encoding": "identity"}
        request = httpx2.Request(
            "POST",
            target.url.copy_with(host=address),
            headers={**named, "content-type": "application/json", **headers},
            content=body,
            # By this name the certificate is checked, not by the address.
            extensions={
                "sni_hostname": target.host,
                "timeout": httpx2.Timeout(self.timeout_s, connect=_CONNECT_S).as_dict(),
            },
        )
        async with self.network(tls) as carrier:
            response = await carrier.handle_async_request(request)
            try:
                await _read(response)
            finally:
                await response.aclose()
        return Answer(
            status=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
            received_at=time.time(),
        )


async def _read(response: httpx2.Response) -> None:
    """A receiver that is cut off in its answer may take the callback for failed: so most are heard to the end."""
    size = 0
    try:
        async for piece in response.aiter_raw():
            size += len(piece)
            if size > MAX_ANSWER:
                return
    except httpx2.HTTPError:
        return  # its status has come: that is the answer


@cache
def _tls(*_: str | None) -> ssl.SSLContext:
    """By the certificates that the environment names: reading them takes long enough to do it once."""
    return httpx2.create_ssl_context()
