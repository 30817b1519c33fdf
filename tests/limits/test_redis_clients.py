"""A limiter opens its store from a Redis client that the program has already, and leaves the client as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
import redis.asyncio
import valkey
from redis.cluster import RedisCluster
from redis.sentinel import Sentinel

from forebay.errors import BadInput, Busy, StoreError, StoreUnreachable
from forebay.limits import Limit, Limiter
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_name
from tests.servers.server import Server
from tests.servers.valkey import valkey as own_valkey
from tests.unit.builders import assert_helpful

SECRET = "hunter2-not-to-be-shown"
CLIENTS: dict[str, Callable[[str], Any]] = {
    "redis": redis.Redis.from_url,
    "redis-asyncio": redis.asyncio.Redis.from_url,
    "redis-decoding": lambda url: redis.Redis.from_url(url, decode_responses=True, protocol=3),
    "redis-blocking-pool": lambda url: redis.Redis(connection_pool=redis.BlockingConnectionPool.from_url(url)),
    "valkey": valkey.Valkey.from_url,
}


@pytest.fixture
def environment(valkey_server: Server) -> Iterator[str]:
    name = fresh_name()
    yield name
    with redis_client(valkey_server.url) as client:
        for key in client.scan_iter(match=f"*{name}*", count=1000):
            client.unlink(key)


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
def test_a_client_names_the_server_that_its_address_names(
    make: Callable[[str], Any], valkey_server: Server, environment: str
) -> None:
    client = make(valkey_server.url)
    settings = copy.copy(client.connection_pool.connection_kwargs)
    with Limiter(client, environment=environment) as own, Limiter(valkey_server.url, environment=environment) as other:
        own.define(Limit("adobe", in_flight=1))
        with own.slot("adobe"), pytest.raises(Busy), other.slot("adobe", timeout_s=0):
            raise AssertionError("the client's limiter holds 1 of 1")
    assert client.connection_pool.connection_kwargs == settings


def test_the_client_is_not_used_and_not_closed(valkey_server: Server, environment: str) -> None:
    with redis.Redis.from_url(valkey_server.url, max_connections=1, client_name="team") as client:
        client.ping()
        before = [each["id"] for each in client.client_list() if each["name"] == "team"]
        with Limiter(client, environment=environment) as limiter:
            limiter.define(Limit("adobe", in_flight=1))
            with limiter.slot("adobe"):
                client.ping()
        after = [each["id"] for each in client.client_list() if each["name"] == "team"]
    assert before == after
    assert len(after) == 1


def test_user_password_and_database_come_from_the_client() -> None:
    with own_valkey(own=True) as server:
        place = urlsplit(server.url)
        with redis_client(server.url) as admin:
            admin.execute_command("ACL", "SETUSER", "team", "on", f">{SECRET}", "~*", "&*", "+@all")
            admin.config_set("requirepass", "other")
        client = redis.Redis(host=place.hostname or "", port=place.port or 0, db=3, username="team", password=SECRET)
        with client, Limiter(client, environment="prod") as limiter:
            limiter.define(Limit("adobe", in_flight=1))
            assert client.exists("{forebay:prod:adobe}:limit")


class Tokens(redis.CredentialProvider):
    """Gives the password that is right at the moment."""

    token: str | None = SECRET

    def get_credentials(self) -> tuple[str]:
        if self.token is None:
            raise RuntimeError(f"no token after {SECRET}")
        return (self.token,)


def test_each_new_connection_asks_the_clients_credential_provider() -> None:
    provider = Tokens()
    with own_valkey(own=True) as server:
        place = urlsplit(server.url)
        with redis_client(server.url) as admin:
            admin.config_set("requirepass", SECRET)
        client = redis.Redis(host=place.hostname or "", port=place.port or 0, credential_provider=provider)
        with client, Limiter(client) as limiter:
            limiter.define(Limit("adobe", in_flight=1))
        provider.token = "another"
        with Limiter(client) as limiter, pytest.raises(StoreError, match="refused the user or the password"):
            limiter.usage("adobe")
        provider.token = None
        with Limiter(client) as limiter, pytest.raises(StoreUnreachable, match="credential provider") as caught:
            limiter.usage("adobe")
        assert SECRET not in f"{caught.value}"


def test_the_place_in_an_error_has_no_password() -> None:
    client = redis.Redis(host="127.0.0.1", port=1, db=2, password=SECRET)
    with Limiter(client) as limiter, pytest.raises(StoreUnreachable, match=r"redis://127\.0\.0\.1:1/2") as caught:
        limiter.usage("adobe")
    assert SECRET not in f"{caught.value} {caught.value!r}"


class OwnConnection(redis.Connection):
    """A team's own class, which may reach the server in any way."""


def sentinel() -> Any:  # noqa: ANN401 - redis-py does not type it
    return Sentinel([("localhost", 1)])  # type: ignore[no-untyped-call]


def hook() -> None:
    """Runs on each connection of a client."""


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "cluster": (lambda: RedisCluster.__new__(RedisCluster), "cluster"),
    "sentinel": (sentinel, "Sentinel"),
    "found by sentinel": (lambda: sentinel().master_for("m"), "Sentinel"),
    "own connections": (
        lambda: redis.Redis(connection_pool=redis.ConnectionPool(connection_class=OwnConnection)),
        "OwnConnection",
    ),
    "hook": (lambda: redis.Redis(redis_connect_func=hook), "redis_connect_func"),
    "number": (lambda: 7, "int"),
}


@pytest.mark.parametrize(("make", "named"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_translated_is_refused_with_what_to_do(make: Callable[[], Any], named: str) -> None:
    with pytest.raises(BadInput, match=named) as caught:
        Limiter(make())
    assert_helpful(caught.value)
    assert "redis://" in caught.value.remedy or "address" in caught.value.remedy
