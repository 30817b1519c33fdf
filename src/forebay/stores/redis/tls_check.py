"""Finds out, after a failed connection, whether the server speaks TLS where the address does not, or the reverse."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Any

from redis.connection import Connection, SSLConnection
from redis.exceptions import AuthenticationError, ConnectionError, InvalidResponse, TimeoutError  # noqa: A004 - redis-py's

from forebay.errors import StoreError
from forebay.stores.redis.endpoint import Endpoint

_TIMEOUT_S = 1.0
_REPLIES = (b"+", b"-")  # how a server of Redis's protocol answers PING: with PONG, or with an error


def check_tls(endpoint: Endpoint, error: Exception) -> None:
    """Raise `StoreError` if the server at that port answers in the other way; no password is sent."""
    if isinstance(error, AuthenticationError):
        return
    host, port = endpoint.options.get("host", "localhost"), endpoint.options.get("port", 6379)
    if endpoint.kind is SSLConnection and _answers_plainly(host, port):
        raise StoreError(
            f"{endpoint.place} does not speak TLS: the server at that port answers without.",
            remedy="Use redis:// (a client: ssl=False), or the port of the server that speaks TLS.",
        ) from error
    # A server that speaks TLS hangs up or sends an alert at once: silence is something else.
    is_prompt = isinstance(error, (ConnectionError, InvalidResponse)) and not isinstance(error, TimeoutError)
    if endpoint.kind is Connection and is_prompt and _shakes_hands(host, port):
        raise StoreError(
            f"{endpoint.place} speaks TLS, and the address asks for a connection without.",
            remedy="Use rediss:// (a client: ssl=True), or the port of the server that does not speak TLS.",
        ) from error


def _answers_plainly(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=_TIMEOUT_S) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(1) in _REPLIES
    return False


def _shakes_hands(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=_TIMEOUT_S) as connection:
        trusting: Any = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE  # nothing is sent but the greeting
        with trusting.wrap_socket(connection, server_hostname=host):
            return True
    return False
