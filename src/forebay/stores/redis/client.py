"""Reads how a team's own client of redis-py or valkey-py reaches its servers; the client stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.credentials import CredentialProvider
from redis.exceptions import RedisError

from forebay.errors import BadInput
from forebay.stores.limit_base import RedisClient
from forebay.stores.redis.endpoint import (
    PORT,
    REMEDY,
    SENTINEL_PORT,
    SENTINEL_TIMEOUT_S,
    Clustered,
    Deployment,
    Endpoint,
    Single,
    Watched,
    host_text,
    make_endpoint,
    tcp_place,
)

_LIBRARIES = ("redis", "valkey")
_KINDS: dict[str, type] = {
    "Connection": Connection,
    "SSLConnection": SSLConnection,
    "UnixDomainSocketConnection": UnixDomainSocketConnection,
    "SentinelManagedConnection": Connection,
    "SentinelManagedSSLConnection": SSLConnection,
}
_TAKEN = ("host", "port", "path", "db", "username", "password", "credential_provider")
_HOOKS = ("redis_connect_func", "valkey_connect_func")


def read_client(client: RedisClient) -> Deployment:
    """Return where the client's servers are and how they are reached; nothing is opened."""
    name = f"{type(client).__module__.partition('.')[0]}.{type(client).__name__}"
    manager = getattr(client, "nodes_manager", None)
    if manager is not None:
        return _read_cluster(client, manager, name)
    if hasattr(client, "sentinels") and hasattr(client, "master_for"):
        raise BadInput(
            f"{name} is a Sentinel's, which knows many services, and limits need one.",
            remedy='Give sentinel.master_for("mymaster"), or an address: redis+sentinel://host:26379/mymaster/0.',
        )
    pool: Any = getattr(client, "connection_pool", None)
    settings = getattr(pool, "connection_kwargs", None)
    if not isinstance(settings, Mapping):
        raise BadInput(f"{name} is neither an address nor a Redis client.", remedy=REMEDY)
    kind = _kind_of(pool.connection_class, name)
    _check_hooks(settings, name)
    if hasattr(pool, "sentinel_manager"):
        return _read_watched(pool, kind, name)
    return Single(_open_kind(kind, _taken(settings), name))


def _read_watched(pool: Any, kind: type, name: str) -> Watched:  # noqa: ANN401 - of either library
    if not getattr(pool, "is_master", True):
        raise BadInput(
            f"{name} reads from replicas, and limits need the primary.",
            remedy="Give sentinel.master_for(…), or an address.",
        )
    sentinels = [_read_sentinel(each.connection_pool, name) for each in pool.sentinel_manager.sentinels]
    template = _open_kind(kind, _taken(pool.connection_kwargs), name)
    hosts = _texts(each.address for each in sentinels)
    scheme = "rediss" if template.is_tls else "redis"
    place = f"{scheme}+sentinel://{hosts}/{pool.service_name}/{template.options.get('db', 0)}"
    return Watched(tuple(sentinels), str(pool.service_name), template, place)


def _read_sentinel(pool: Any, name: str) -> Endpoint:  # noqa: ANN401 - of either library
    _check_hooks(pool.connection_kwargs, name)
    options = {"port": SENTINEL_PORT} | _taken(pool.connection_kwargs)
    options |= {"socket_connect_timeout": SENTINEL_TIMEOUT_S, "socket_timeout": SENTINEL_TIMEOUT_S}
    return _open_kind(_kind_of(pool.connection_class, name), options, name)


def _read_cluster(client: Any, manager: Any, name: str) -> Clustered:  # noqa: ANN401 - of either library
    settings: Mapping[str, Any] = getattr(client, "connection_kwargs", None) or manager.connection_kwargs
    if getattr(client, "user_on_connect_func", None) is not None:
        _check_hooks({_HOOKS[0]: client.user_on_connect_func}, name)
    is_tls = bool(settings.get("ssl")) or "SSL" in getattr(settings.get("connection_class"), "__name__", "")
    options = _taken(settings)
    found = manager.startup_nodes
    places = [(str(each.host), int(each.port)) for each in (found.values() if isinstance(found, Mapping) else found)]
    if not places:
        raise BadInput(f"{name} names no node.", remedy=REMEDY)
    kind = SSLConnection if is_tls else Connection
    nodes = [_open_kind(kind, options | {"host": host, "port": port}, name) for host, port in places]
    scheme = "rediss" if is_tls else "redis"
    return Clustered(tuple(nodes), f"{scheme}+cluster://{_texts(places)}", getattr(manager, "address_remap", None))


def _texts(places: Iterable[tuple[str, int]]) -> str:
    return ",".join(f"{host_text(host)}:{port}" for host, port in places)


def _kind_of(kind: type, client: str) -> type:
    if kind.__module__.partition(".")[0] not in _LIBRARIES or kind.__name__ not in _KINDS:
        raise BadInput(
            f"{client} opens its connections by {kind.__module__}.{kind.__name__}, which limits cannot use.",
            remedy=f"Give the server's address, or memory:// for the limits of one process. {REMEDY}",
        )
    return _KINDS[kind.__name__]


def _check_hooks(settings: Mapping[str, Any], client: str) -> None:
    for hook in _HOOKS:
        if settings.get(hook) is not None:
            raise BadInput(
                f"{client} has a {hook}, which limits do not run.",
                remedy="Give a client without it, or the server's address.",
            )


def _taken(settings: Mapping[str, Any]) -> dict[str, Any]:
    options = {
        name: value
        for name, value in settings.items()
        if value is not None and (name in _TAKEN or name.startswith("ssl_"))
    }
    if (provider := options.get("credential_provider")) is not None:
        options["credential_provider"] = _Credentials(provider)
    return options


def _open_kind(kind: type, options: dict[str, Any], client: str) -> Endpoint:
    database = f"/{options.get('db', 0)}"
    if kind is UnixDomainSocketConnection:
        place = f"unix://{options.get('path', '')}"
    else:
        scheme = "rediss" if kind is SSLConnection else "redis"
        place = tcp_place(scheme, str(options.get("host", "localhost")), options.get("port", PORT), database)
    try:
        return make_endpoint(kind, options, place)
    except (ValueError, TypeError, RedisError):
        raise BadInput(f"The settings of {client} make no connection.", remedy=REMEDY) from None


class _Credentials(CredentialProvider):
    """Asks the client's own credential provider for each new connection, and raises an error of redis-py's."""

    def __init__(self, provider: Any) -> None:  # noqa: ANN401 - of either library
        self._provider = provider

    def get_credentials(self) -> Any:  # noqa: ANN401 - a password, or a user and a password
        try:
            return self._provider.get_credentials()
        except Exception as error:
            raise RedisError(f"the client's credential provider raised {type(error).__name__}") from error
