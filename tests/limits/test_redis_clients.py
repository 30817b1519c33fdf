"""A limiter opens its store from a Redis client that the program has already, and leaves the client as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.sentinel
import valkey
import valkey.sentinel
from redis.cluster import RedisCluster
from redis.sentinel import Sentinel

from forebay.errors import BadInput, Busy, StoreError, StoreUnreachable
from forebay.limits import Limit, Limiter
from forebay.stores.redis.client import read_client
from forebay.stores.redis.endpoint import Clustered, Watched
from forebay.stores.redis.limits import RedisLimits
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_name
from tests.servers.sentinel import SERVICE, SentinelTrio
from tests.servers.server import Server
from tests.servers.valkey import valkey as own_valkey
from tests.servers.valkey_cluster import ValkeyCluster
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


def used_beside(client: Any, address: str, environment: str) -> None:  # noqa: ANN401 - of either library
    with Limiter(client, environment=environment) as own, Limiter(address, environment=environment) as other:
        own.define(Limit("adobe", in_flight=1))
        with own.slot("adobe"), pytest.raises(Busy), other.slot("adobe", timeout_s=0):
            raise AssertionError("the client's limiter holds 1 of 1")
        assert other.names() == ["adobe"]


@pytest.mark.parametrize(
    "library", [redis.sentinel, redis.asyncio.sentinel, valkey.sentinel], ids=lambda each: each.__name__
)
def test_a_client_that_sentinel_manages_names_its_service(library: Any, sentinels: SentinelTrio) -> None:  # noqa: ANN401
    manager = library.Sentinel(sentinels.hosts, sentinel_kwargs={"socket_timeout": 3}, socket_timeout=3)
    used_beside(manager.master_for(SERVICE, db=0), sentinels.url, fresh_name())


@pytest.mark.parametrize(
    "make", [RedisCluster, redis.asyncio.RedisCluster, valkey.ValkeyCluster], ids=lambda each: each.__module__
)
def test_a_client_of_a_cluster_names_its_nodes(make: Any, cluster: ValkeyCluster) -> None:  # noqa: ANN401 - of either library
    host, port = cluster.hosts[1]
    used_beside(make(host=host, port=port), cluster.url, fresh_name())


def test_a_cluster_client_translates_the_addresses_of_nodes(cluster: ValkeyCluster) -> None:
    host, port = cluster.hosts[0]
    client = RedisCluster(host=host, port=port, address_remap=lambda place: ("localhost", place[1]))
    store = RedisLimits(client, environment=fresh_name())
    assert store.names() == []
    assert {each.host for each in store._servers.all()} == {"localhost"}
    store.close()


def test_tls_and_users_of_cluster_and_sentinel_clients_are_taken_over() -> None:
    options: dict[str, Any] = {"username": "team", "password": SECRET, "ssl": True, "ssl_ca_certs": "/ca.pem"}
    node = redis.asyncio.cluster.ClusterNode("127.0.0.1", 1)
    found = read_client(redis.asyncio.RedisCluster(startup_nodes=[node], **options))
    assert isinstance(found, Clustered)
    assert found.place == "rediss+cluster://127.0.0.1:1"
    assert found.nodes[0].options["ssl_ca_certs"] == "/ca.pem"
    assert found.nodes[0].options["username"] == "team"
    manager = Sentinel([("localhost", 1)], sentinel_kwargs={"password": "other", "ssl": True}, **options)  # type: ignore[no-untyped-call]
    watched = read_client(manager.master_for("m", db=2))  # type: ignore[no-untyped-call]
    assert isinstance(watched, Watched)
    assert watched.place == "rediss+sentinel://localhost:1/m/2"
    assert (watched.template.is_tls, watched.sentinels[0].is_tls) == (True, True)
    assert watched.template.options["password"] == SECRET
    assert watched.sentinels[0].options["password"] == "other"
    assert SECRET not in watched.place


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
    "sentinel": (sentinel, "Sentinel"),
    "replicas": (lambda: sentinel().slave_for("m"), "replicas"),
    "own connections by sentinel": (
        lambda: sentinel().master_for("m", connection_class=OwnConnection),
        "OwnConnection",
    ),
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
