"""A slot counts from the moment when the bytes go out, however long the connection took."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from forebay import Limit, Window
from forebay.observe import subscribe
from tests.processors.provider import Caller, Provider, against, get, http

SLOW_S = 0.3


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Of a server with a certificate of its own, which the environment names as one to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "server.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@pytest.fixture
def late() -> Iterator[list[float]]:
    """How old slots were that had to be stamped anew."""
    found: list[float] = []

    def heard(name: str, fields: object) -> None:
        if name == "late_start":
            assert isinstance(fields, dict)
            found.append(float(fields["age_s"]))

    stop = subscribe(heard)
    yield found
    stop()


class Secured(Provider):
    """Is connected to at once, but shakes hands only when it is told to."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__([http(200, {})])
        self._context = context

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        return self

    async def wake(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._server = await asyncio.start_server(self._serve, sock=self._listener, ssl=self._context)


@pytest.mark.parametrize(("wait_s", "count"), [(SLOW_S, 1), (0.0, 0)])
def test_a_slot_that_grew_old_while_the_connection_was_made_is_stamped_anew_before_the_send(
    tls: ssl.SSLContext, late: list[float], wait_s: float, count: int
) -> None:
    provider = Secured(tls)

    async def scenario(caller: Caller, url: str) -> None:
        await caller.transport._opened()
        if not wait_s:
            await provider.wake(0)
            await caller.call(get(url))  # so that the next one finds a connection
            late.clear()
        await asyncio.gather(provider.wake(wait_s) if wait_s else asyncio.sleep(0), caller.call(get(url)))

    limit = Limit("api", windows=[Window(5, per_s=60)], start_within_s=0.2)
    against(provider, scenario, limit=limit)
    assert len(late) == count
    assert all(age >= SLOW_S * 0.9 for age in late)
