"""Limits over TLS, and addresses that ask for TLS where the server does not speak it, or the reverse."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from forebay.errors import StoreError, StoreUnreachable
from forebay.limits import Limit, Limiter
from forebay.stores.redis.limits import RedisLimits
from tests.callbacks.internet import certificate
from tests.servers.fresh import fresh_name
from tests.servers.ports import LOOPBACK
from tests.servers.relay import Relay
from tests.servers.server import Server


@pytest.fixture
def plain_port(valkey_server: Server) -> int:
    return urlsplit(valkey_server.url).port or 6379


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return certificate(tmp_path / "localhost.pem", "localhost")


@pytest.fixture
def tls_port(authority: Path, plain_port: int) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    with Relay(LOOPBACK, plain_port, tls=context) as relay:
        yield relay.port


def refusal(address: str) -> StoreError:
    store = RedisLimits(address, environment=fresh_name())
    try:
        with pytest.raises(StoreError) as caught:
            store.read("adobe")
    finally:
        store.close()
    return caught.value


def test_tls_to_a_plain_port_is_named_as_the_cause(plain_port: int) -> None:
    error = refusal(f"rediss://:secret-word@{LOOPBACK}:{plain_port}/0?socket_timeout=0.2")
    assert "does not speak TLS" in error.what
    assert "redis://" in error.remedy
    assert "secret-word" not in f"{error}"


def test_a_plain_connection_to_a_tls_port_is_named_as_the_cause(tls_port: int) -> None:
    error = refusal(f"redis://localhost:{tls_port}/0")
    assert "speaks TLS" in error.what
    assert "rediss://" in error.remedy


def test_a_certificate_that_is_not_trusted_is_another_error(tls_port: int) -> None:
    error = refusal(f"rediss://localhost:{tls_port}/0")
    assert isinstance(error, StoreUnreachable)
    assert "speak" not in error.what
    assert "certificate" in error.what


def test_a_client_with_tls_gives_its_certificates_along(tls_port: int, authority: Path) -> None:
    client = redis.Redis(host="localhost", port=tls_port, ssl=True, ssl_ca_certs=str(authority))
    with client, Limiter(client, environment=fresh_name()) as limiter:
        limiter.define(Limit("adobe", in_flight=1))
        with limiter.slot("adobe"):
            assert limiter.usage("adobe").in_flight == 1
