"""Limits over TLS, and addresses that ask for TLS where the server does not speak it, or the reverse."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from cryptography.hazmat.primitives import serialization

from forebay.errors import BadInput, StoreError, StoreUnreachable
from forebay.limits import Limit, Limiter
from forebay.stores.redis.limits import RedisLimits
from tests.callbacks.internet import certificate
from tests.servers.fresh import fresh_name
from tests.servers.ports import LOOPBACK
from tests.servers.process import started
from tests.servers.relay import Relay
from tests.servers.sentinel import SERVICE, SentinelRecipe, port_of, wait_until
from tests.servers.server import Server
from tests.servers.valkey_cluster import ask, valkey_cluster


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


def used(address: str | redis.Redis) -> None:
    """Take a slot, and hear of it."""
    with Limiter(address, environment=fresh_name()) as limiter:
        limiter.define(Limit("adobe", in_flight=1))
        with limiter.slot("adobe"):
            assert limiter.usage("adobe").in_flight == 1
        assert limiter.names() == ["adobe"]


def test_an_address_names_the_file_of_its_authority(tls_port: int, authority: Path) -> None:
    used(f"rediss://localhost:{tls_port}/0?ssl_ca_certs={authority}")
    used(f"rediss://localhost:{tls_port}/0?ssl_cert_reqs=CERT_NONE")


def test_an_authority_that_did_not_sign_is_named_as_the_cause(tls_port: int, tmp_path: Path) -> None:
    theirs = certificate(tmp_path / "theirs.pem", "localhost")
    error = refusal(f"rediss://localhost:{tls_port}/0?ssl_ca_certs={theirs}")
    assert isinstance(error, StoreUnreachable)
    assert "self-signed certificate" in error.what
    assert "ssl_ca_certs" in error.remedy


def test_another_name_than_the_certificates_is_named_as_the_cause(tls_port: int, authority: Path) -> None:
    error = refusal(f"rediss://{LOOPBACK}:{tls_port}/0?ssl_ca_certs={authority}")
    assert "IP address mismatch" in error.what
    assert "ssl_check_hostname=false" in error.remedy
    used(f"rediss://{LOOPBACK}:{tls_port}/0?ssl_ca_certs={authority}&ssl_check_hostname=false")


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("ssl_ca_certs", None, "No such file"),
        ("ssl_ca_certs", "no certificate", "holds no certificate"),
        ("ssl_certfile", None, "No such file"),
        ("ssl_certfile", "no certificate", "no certificate with its key"),
    ],
)
def test_a_file_that_is_none_is_named(
    tls_port: int, tmp_path: Path, option: str, content: str | None, said: str
) -> None:
    file = tmp_path / "given.pem"
    if content is not None:
        file.write_text(content)
    error = refusal(f"rediss://localhost:{tls_port}/0?{option}={file}")
    assert option in error.what
    assert said in error.what
    assert "PEM" in error.remedy


def test_options_of_tls_in_an_address_without_are_refused() -> None:
    with pytest.raises(BadInput, match="ssl_") as caught:
        RedisLimits("redis://localhost/0?ssl_ca_certs=/ca.pem")
    assert "rediss://" in caught.value.remedy


@pytest.fixture
def client_certificate(tmp_path: Path) -> Path:
    return certificate(tmp_path / "client.pem", "client")


@pytest.fixture
def asking_port(authority: Path, client_certificate: Path, plain_port: int) -> Iterator[int]:
    """A server that asks clients for a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    context.load_verify_locations(client_certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with Relay(LOOPBACK, plain_port, tls=context) as relay:
        yield relay.port


def test_a_server_may_ask_for_a_certificate(
    asking_port: int, authority: Path, client_certificate: Path, tmp_path: Path
) -> None:
    address = f"rediss://localhost:{asking_port}/0?ssl_ca_certs={authority}"
    used(f"{address}&ssl_certfile={client_certificate}&ssl_keyfile={client_certificate}")
    error = refusal(address)
    assert "asks for a certificate of the client" in error.what
    assert "ssl_certfile" in error.remedy
    theirs = certificate(tmp_path / "theirs.pem", "client")
    error = refusal(f"{address}&ssl_certfile={theirs}")
    assert "does not accept the client's certificate" in error.what


def test_a_key_with_a_password_asks_nobody_at_the_terminal(
    asking_port: int, authority: Path, client_certificate: Path, tmp_path: Path
) -> None:
    key = serialization.load_pem_private_key(client_certificate.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret-word"),
        )
    )
    address = (
        f"rediss://localhost:{asking_port}/0?ssl_ca_certs={authority}"
        f"&ssl_certfile={client_certificate}&ssl_keyfile={locked}"
    )
    error = refusal(address)
    assert "ssl_keyfile" in error.what
    assert "ssl_password" in error.remedy
    used(f"{address}&ssl_password=secret-word")


def test_sentinels_and_their_primary_speak_tls(tls_port: int, authority: Path) -> None:
    """The Sentinel itself cannot reach a primary that speaks TLS, and names it all the same."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    with started(SentinelRecipe(watched=(tls_port, 1))) as sentinel:
        with Relay(LOOPBACK, sentinel.place.port, tls=context) as relay:
            used(
                f"rediss+sentinel://localhost:{relay.port}/{SERVICE}/0"
                f"?ssl_ca_certs={authority}&ssl_check_hostname=false"
            )
            error = refusal(f"rediss+sentinel://localhost:{relay.port}/{SERVICE}")
            assert "certificate" in error.what
        error = refusal(f"rediss+sentinel://localhost:{sentinel.place.port}/{SERVICE}")
        assert "does not speak TLS" in error.what


@pytest.mark.slow
def test_a_cluster_speaks_tls_and_names_its_hosts(authority: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    options = ("--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname")
    with valkey_cluster(*options, replicas=False) as cluster, ExitStack() as relays:
        ports = set()
        for node in cluster.nodes:
            relay = relays.enter_context(Relay(LOOPBACK, port_of(node), tls=context))
            ask(node, "CONFIG", "SET", "cluster-announce-port", relay.port)
            ports.add(relay.port)
        wait_until(lambda: all(_ports(node) == ports for node in cluster.nodes))
        address = f"rediss+cluster://localhost:{min(ports)}?ssl_ca_certs={authority}"
        used(address)
        store = RedisLimits(address, environment=fresh_name())
        assert {each.host for each in store._servers.all()} == {"localhost"}
        store.close()


def _ports(node: Server) -> set[int]:
    return {int(primary[1]) for _, _, primary, *_ in ask(node, "CLUSTER", "SLOTS")}
