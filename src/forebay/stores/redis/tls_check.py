"""Finds out whether TLS is why a connection failed: its files, a certificate, or one side that does not speak it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from redis.connection import Connection
from redis.exceptions import AuthenticationError, ConnectionError, InvalidResponse, TimeoutError  # noqa: A004 - redis-py's

from forebay.errors import StoreError, StoreUnreachable
from forebay.stores.redis.endpoint import Endpoint

_TIMEOUT_S = 1.0
_REPLIES = (b"+", b"-")  # how a server of Redis's protocol answers PING: with PONG, or with an error
_OTHER_NAME = {62, 64}  # codes of OpenSSL: another host name, another IP address
_EXPIRED = 10
_WANTS_CERTIFICATE = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")
_REFUSES_CERTIFICATE = ("ALERT_UNKNOWN_CA", "ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE", "ALERT_DECRYPT_ERROR")
_FILES = "ssl_ca_certs, ssl_certfile and ssl_keyfile name files in PEM format"


def check_tls(endpoint: Endpoint, error: Exception) -> None:
    """Raise `StoreError` with the cause, if TLS is the cause; no password is sent."""
    if isinstance(error, AuthenticationError):
        return
    host, port = endpoint.address
    if endpoint.is_tls:
        _check_files(endpoint, error)
        if _answers_plainly(host, port):
            raise StoreError(
                f"{endpoint.place} does not speak TLS: the server at that port answers without.",
                remedy="Use redis:// (a client: ssl=False), or the port of the server that speaks TLS.",
            ) from error
    # A server that speaks TLS hangs up or sends an alert at once: silence is something else.
    is_prompt = isinstance(error, (ConnectionError, InvalidResponse)) and not isinstance(error, TimeoutError)
    if endpoint.is_tls:
        _check_certificates(endpoint, error, _alert(endpoint) if is_prompt else "")
    if endpoint.kind is Connection and is_prompt and _shakes_hands(host, port):
        raise StoreError(
            f"{endpoint.place} speaks TLS, and the address asks for a connection without.",
            remedy="Use rediss:// (a client: ssl=True), or the port of the server that does not speak TLS.",
        ) from error


def _check_files(endpoint: Endpoint, error: Exception) -> None:
    """Load what the options name, as a connection does."""
    given = endpoint.options
    for option in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        if (file := given.get(option)) is not None:
            try:
                with open(file, "rb"):  # noqa: PTH123 - whatever a client was given
                    pass
            except OSError as trouble:
                raise StoreError(
                    f"{endpoint.place}: {option}, {str(file)!r}, cannot be read: {trouble.strerror}.",
                    remedy=f"{_FILES} that this process may read.",
                ) from error
    with _named(endpoint, "ssl_ca_certs holds no certificate of an authority", error):
        if given.get("ssl_ca_certs") is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=given["ssl_ca_certs"])
    with _named(endpoint, "ssl_certfile and ssl_keyfile are no certificate with its key", error):
        _trusting(endpoint)


@contextmanager
def _named(endpoint: Endpoint, what: str, error: Exception) -> Iterator[None]:
    """Say what the files are not."""
    try:
        yield
    except OSError as trouble:
        reason = getattr(trouble, "reason", None) or trouble.strerror or type(trouble).__name__
        raise StoreError(
            f"{endpoint.place}: {what} ({reason}).", remedy=f"{_FILES}; ssl_password is that of an encrypted key."
        ) from error


def _check_certificates(endpoint: Endpoint, error: Exception, alert: str) -> None:
    """Say whose certificate was not accepted, and why."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise StoreUnreachable(
                f"{endpoint.place} has a certificate that is not accepted: {cause.verify_message}.",
                remedy=_remedy(cause.verify_code),
            ) from error
    if any(said in alert for said in _WANTS_CERTIFICATE) and not endpoint.options.get("ssl_certfile"):
        raise StoreUnreachable(
            f"{endpoint.place} asks for a certificate of the client.",
            remedy="Add ssl_certfile=…&ssl_keyfile=… to the address (a client: the same names).",
        ) from error
    if any(said in alert for said in (*_WANTS_CERTIFICATE, *_REFUSES_CERTIFICATE)):
        raise StoreUnreachable(
            f"{endpoint.place} does not accept the client's certificate: {alert}.",
            remedy="Give one of an authority that the server knows (ssl_certfile, ssl_keyfile).",
        ) from error


def _alert(endpoint: Endpoint) -> str:
    """Return what the server has against a connection on which nothing was sent yet."""
    try:
        with (
            socket.create_connection(endpoint.address, timeout=_TIMEOUT_S) as connection,
            _trusting(endpoint).wrap_socket(connection, server_hostname=endpoint.address[0]) as secured,
        ):
            secured.recv(1)
    except OSError as trouble:
        return str(trouble)
    return ""


def _trusting(endpoint: Endpoint | None = None) -> Any:  # noqa: ANN401 - as ssl types it, it cannot be changed
    """Return a context that accepts any server, with the client's certificate of the endpoint."""
    context: Any = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent but the greeting
    if endpoint is not None and (given := endpoint.options).get("ssl_certfile") is not None:
        context.load_cert_chain(given["ssl_certfile"], given.get("ssl_keyfile"), given.get("ssl_password") or "")
    return context


def _remedy(code: int) -> str:
    if code in _OTHER_NAME:
        return "Use a name that the certificate has, or ssl_check_hostname=false if only you can use its authority."
    if code == _EXPIRED:
        return "Renew the server's certificate, or set this machine's clock."
    return "Name the file of the authority that signed it: rediss://…?ssl_ca_certs=/path/ca.pem (a client alike)."


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _answers_plainly(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=_TIMEOUT_S) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(1) in _REPLIES
    return False


def _shakes_hands(host: str, port: int) -> bool:
    with (
        suppress(OSError),
        socket.create_connection((host, port), timeout=_TIMEOUT_S) as connection,
        _trusting().wrap_socket(connection, server_hostname=host),
    ):
        return True
    return False
