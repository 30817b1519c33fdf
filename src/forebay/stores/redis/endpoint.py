"""Reads how to reach a Redis or Valkey server, from an address or from the settings of a redis-py client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url
from redis.credentials import CredentialProvider
from redis.exceptions import RedisError

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.stores.limit_base import RedisClient

CONNECT_TIMEOUT_S = 3.0
TIMEOUT_S = 2.0
# Neither an address nor a client chooses these: replies are read as bytes, and the caller knows what to repeat.
_FIXED: dict[str, object] = {
    "protocol": 2,
    "decode_responses": False,
    "health_check_interval": 0,
    "retry": None,
    "retry_on_error": [],
    "retry_on_timeout": False,
}
_SCHEMES = ("redis", "rediss", "unix")
_REMEDY = "Use redis://host:6379/0, rediss:// for TLS, or unix:///path/to/socket."
_LIBRARIES = ("redis", "valkey")
_KINDS: dict[str, type] = {
    "Connection": Connection,
    "SSLConnection": SSLConnection,
    "UnixDomainSocketConnection": UnixDomainSocketConnection,
}
_TAKEN = ("host", "port", "path", "db", "username", "password", "credential_provider")


class Endpoint(NamedTuple):
    """A class of connections, its options, and a text that names the server without its password."""

    kind: type
    options: dict[str, Any]
    place: str


def read_endpoint(source: str | RedisClient) -> Endpoint:
    """Return how to reach the server that an address or a client names; nothing is opened."""
    return _read_address(source) if isinstance(source, str) else _read_client(source)


def _read_address(address: str) -> Endpoint:
    place = _place_of(address)
    try:
        options = parse_url(address)  # type: ignore[no-untyped-call]
        kind = options.pop("connection_class", Connection)
        return _endpoint(kind, options, place)
    except (ValueError, TypeError, RedisError):
        # Its text may quote a part of the password.
        raise BadInput("That is no address of a Redis server.", remedy=_REMEDY) from None


def _endpoint(kind: type, options: Mapping[str, Any], place: str) -> Endpoint:
    every = {"socket_connect_timeout": CONNECT_TIMEOUT_S, "socket_timeout": TIMEOUT_S} | dict(options) | _FIXED
    kind(**every)
    return Endpoint(kind, every, place)


def _place_of(address: str) -> str:
    try:
        parts = urlsplit(address)
        known = parts.scheme in _SCHEMES
        host, port = parts.hostname or "localhost", parts.port or 6379
        host.encode("idna")  # as it is looked up: not every text can be a name
    except (ValueError, AttributeError, TypeError):
        raise BadInput("That is no address of a Redis server.", remedy=_REMEDY) from None
    if not known:
        # The address may carry a password: nothing of it is shown.
        raise BadInput("That address does not name a Redis server.", remedy=_REMEDY)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    if not re.fullmatch(r"/?\d*", parts.path):
        raise BadInput(f"{shown(parts.path)} is no database of a Redis server.", remedy=_REMEDY)
    return _tcp_place(parts.scheme, host, port, parts.path)


def _tcp_place(scheme: str, host: str, port: int, path: str) -> str:
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}"


def _read_client(client: RedisClient) -> Endpoint:
    """Take the settings only: the client, its pool and its connections stay as they are."""
    name = f"{type(client).__module__.partition('.')[0]}.{type(client).__name__}"
    pool = getattr(client, "connection_pool", None)
    if type(client).__name__.endswith("Cluster"):
        raise BadInput(
            f"{name} is a client of a cluster, and limits need one server that has all keys.",
            remedy=f"Give a client or an address of such a server. {_REMEDY}",
        )
    if type(client).__name__.startswith("Sentinel") or "sentinel" in type(pool).__module__:
        raise BadInput(
            f"{name} finds its server by Sentinel, which limits do not ask.",
            remedy=f"Give a client or an address of the primary, such as a name that follows it. {_REMEDY}",
        )
    settings = getattr(pool, "connection_kwargs", None)
    if not isinstance(settings, Mapping):
        raise BadInput(f"{name} is neither an address nor a Redis client.", remedy=_REMEDY)
    kind = pool.connection_class  # type: ignore[union-attr]
    if kind.__module__.partition(".")[0] not in _LIBRARIES or kind.__name__ not in _KINDS:
        raise BadInput(
            f"{name} opens its connections by {kind.__module__}.{kind.__name__}, which limits cannot use.",
            remedy=f"Give the server's address, or memory:// for the limits of one process. {_REMEDY}",
        )
    for hook in ("redis_connect_func", "valkey_connect_func"):
        if settings.get(hook) is not None:
            raise BadInput(
                f"{name} has a {hook}, which limits do not run.",
                remedy="Give a client without it, or the server's address.",
            )
    taken = {name: settings[name] for name in settings if name in _TAKEN or name.startswith("ssl_")}
    options = {name: value for name, value in taken.items() if value is not None}
    if (provider := options.get("credential_provider")) is not None:
        options["credential_provider"] = _Credentials(provider)
    return _open_kind(_KINDS[kind.__name__], options, name)


def _open_kind(kind: type, options: dict[str, Any], client: str) -> Endpoint:
    database = f"/{options.get('db', 0)}"
    if kind is UnixDomainSocketConnection:
        place = f"unix://{options.get('path', '')}"
    else:
        scheme = "rediss" if kind is SSLConnection else "redis"
        place = _tcp_place(scheme, str(options.get("host", "localhost")), options.get("port", 6379), database)
    try:
        return _endpoint(kind, options, place)
    except (ValueError, TypeError, RedisError):
        raise BadInput(f"The settings of {client} make no connection.", remedy=_REMEDY) from None


class _Credentials(CredentialProvider):
    """Asks the client's own credential provider for each new connection, and raises an error of redis-py's."""

    def __init__(self, provider: Any) -> None:  # noqa: ANN401 - of either library
        self._provider = provider

    def get_credentials(self) -> Any:  # noqa: ANN401 - a password, or a user and a password
        try:
            return self._provider.get_credentials()
        except Exception as error:
            raise RedisError(f"the client's credential provider raised {type(error).__name__}") from error
