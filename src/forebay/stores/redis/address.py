"""Parses Redis addresses: of one server, of a primary that Sentinels know, of a cluster; never shows a password."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from redis.connection import Connection, SSLConnection, parse_url
from redis.exceptions import RedisError

from forebay.errors import BadInput
from forebay.ids import shown
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

_SCHEMES = ("redis", "rediss", "unix")
_MANY = re.compile(
    r"(?P<scheme>rediss?)\+(?P<form>sentinel|cluster)://"
    r"(?P<user>[^/?#]*@)?(?P<hosts>[^/?#]*)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?"
)
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")


def read_address(address: str) -> Deployment:
    """Return what the address names; nothing is opened."""
    if "+" in address.partition("://")[0]:
        return _read_many(address)
    return Single(_read_endpoint(address, _place_of(address)))


def _read_endpoint(address: str, place: str) -> Endpoint:
    try:
        options = parse_url(address)  # type: ignore[no-untyped-call]
        kind = options.pop("connection_class", Connection)
        if kind is not SSLConnection and any(name.startswith("ssl_") for name in options):
            raise BadInput(f"{place} has options of TLS (ssl_…), and is not TLS.", remedy="Use rediss:// for TLS.")
        return make_endpoint(kind, _as_redis_py(options), place)
    except (ValueError, TypeError, RedisError):
        # Its text may quote a part of the password.
        raise BadInput("That is not an address of a Redis server.", remedy=REMEDY) from None


def _as_redis_py(options: dict[str, Any]) -> dict[str, Any]:
    """Accept the names of Python's ssl module, which Celery's addresses have."""
    required = options.get("ssl_cert_reqs")
    if isinstance(required, str):
        options["ssl_cert_reqs"] = required.removeprefix("CERT_").lower()
    return options


def _place_of(address: str) -> str:
    try:
        parts = urlsplit(address)
        known = parts.scheme in _SCHEMES
        host, port = parts.hostname or "localhost", parts.port or PORT
        host.encode("idna")  # as it is looked up: not every text can be a name
    except (ValueError, AttributeError, TypeError):
        raise BadInput("That is not an address of a Redis server.", remedy=REMEDY) from None
    if not known:
        # The address may carry a password: nothing of it is shown.
        raise BadInput("That address does not name a Redis server.", remedy=REMEDY)
    _check_path(parts.path)
    _check_path(parts.fragment)
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        _check_path(name)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    if not re.fullmatch(r"/?\d*", parts.path):
        raise BadInput(f"{shown(parts.path)} is not a database of a Redis server.", remedy=REMEDY)
    return tcp_place(parts.scheme, host, port, parts.path)


def _check_path(path: str) -> None:
    """Refuse a path, or what else follows the host, that is the end of a password: a `/`, `?` or `#` ends the host."""
    if "@" in path:
        raise BadInput(
            "That address has an @ behind its first /, ? or #.",
            remedy=f"Write / as %2F, ? as %3F, # as %23 and @ as %40 in a user or a password. {REMEDY}",
        )


def _read_many(address: str) -> Deployment:
    found = _MANY.fullmatch(address)
    if found is None:
        raise BadInput("That is not an address of a Redis server.", remedy=REMEDY)
    scheme, user, path = found["scheme"], found["user"] or "", (found["path"] or "").strip("/")
    _check_path(path)
    pairs = parse_qsl(found["query"] or "", keep_blank_values=True)
    query = urlencode([(name, value) for name, value in pairs if name not in _SENTINEL_OPTIONS])
    if found["form"] == "cluster":
        hosts = _hosts(found["hosts"], PORT)
        nodes = [_read_plain(f"{scheme}://{user}", each, f"{path}?{query}") for each in hosts]
        return Clustered(tuple(nodes), f"{scheme}+cluster://{_texts(hosts)}{f'/{path}' if path else ''}")
    service, _, database = path.partition("/")
    if not service:
        raise BadInput(
            "That Sentinel address names no service.",
            remedy=f"Write the name that the Sentinels know the primary by: {scheme}+sentinel://host:26379/mymaster/0.",
        )
    service = unquote(service)
    hosts = _hosts(found["hosts"], SENTINEL_PORT)
    template = _read_plain(f"{scheme}://{user}", ("primary", PORT), f"{database}?{query}")
    sentinels = _sentinels(template, hosts, dict(pairs))
    place = f"{scheme}+sentinel://{_texts(hosts)}/{service}/{template.options.get('db', 0)}"
    return Watched(tuple(sentinels), service, template, place)


def _read_plain(start: str, host: tuple[str, int], end: str) -> Endpoint:
    """Read one of several servers as if it stood alone."""
    plain = f"{start}{_texts([host])}/{end}"
    return _read_endpoint(plain, _place_of(plain))


def _sentinels(template: Endpoint, hosts: list[tuple[str, int]], given: dict[str, str]) -> list[Endpoint]:
    """TLS and time-outs are those of the address; the user and the password are the Sentinels' own."""
    options: dict[str, Any] = {
        name: value for name, value in template.options.items() if name.startswith("ssl_") or name == "socket_keepalive"
    }
    for name in ("socket_timeout", "socket_connect_timeout"):
        options[name] = template.options[name] if name in given else SENTINEL_TIMEOUT_S
    options |= {name.removeprefix("sentinel_"): given[name] for name in _SENTINEL_OPTIONS if given.get(name)}
    return [make_endpoint(template.kind, options, "").at(host, port) for host, port in hosts]


def _hosts(text: str, default_port: int) -> list[tuple[str, int]]:
    try:
        found = [urlsplit(f"redis://{each}") for each in text.split(",") if each]
        hosts = [(parts.hostname or "", parts.port or default_port) for parts in found]
        for host, _ in hosts:
            host.encode("idna")
    except ValueError:
        hosts = []
    if not hosts or not all(host for host, _ in hosts):
        raise BadInput("That address does not name its servers.", remedy=REMEDY)
    return hosts


def _texts(hosts: list[tuple[str, int]]) -> str:
    return ",".join(f"{host_text(host)}:{port}" for host, port in hosts)
