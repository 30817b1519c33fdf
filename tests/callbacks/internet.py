"""A small internet for tests: public addresses lead to listeners on this machine, names to whatever they say."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from forebay.callbacks import sending


class Internet:
    """`listeners` has the port that answers at each address; `connected` what was really connected to."""

    def __init__(self, listeners: Mapping[str, int]) -> None:
        self._listeners = listeners
        self.connected: list[str] = []

    def network(self, tls: ssl.SSLContext) -> httpx2.AsyncBaseTransport:
        return _Wire(self, sending.network(tls))

    def led(self, host: str) -> int:
        self.connected.append(host)
        port = self._listeners.get(host)
        if port is None:
            raise httpx2.ConnectError("no route")
        return port


class _Wire(httpx2.AsyncBaseTransport):
    def __init__(self, internet: Internet, inner: httpx2.AsyncBaseTransport) -> None:
        self._internet = internet
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        port = self._internet.led(request.url.host)
        return await self._inner.handle_async_request(
            httpx2.Request(
                request.method,
                request.url.copy_with(host="127.0.0.1", port=port),
                headers=request.headers,
                content=request.content,
                extensions=request.extensions,
            )
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class Names:
    """A resolver whose answers follow each other, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def certificate(file: Path, name: str) -> Path:
    """A certificate for this name with its key, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + plain)
    return file
