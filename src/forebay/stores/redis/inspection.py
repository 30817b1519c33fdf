"""Looks at the servers of limits for `forebay doctor`: their version, their clock, what they do when memory is full."""

from __future__ import annotations

import time
from typing import NamedTuple

from forebay.errors import StoreForbidden
from forebay.stores.limit_base import RedisClient
from forebay.stores.redis.connection import Server
from forebay.stores.redis.links import Links
from forebay.stores.redis.rights import limit_rights
from forebay.stores.redis.servers import open_servers, read_deployment

KEEPS_ALL = "noeviction"
_NAMES = {"valkey_version": "Valkey", "redis_version": "Redis"}
_UNKNOWN = "a version that the user may not ask for (INFO)"


class Inspection(NamedTuple):
    """What a server says; of several, what the one says that may drop keys, or whose clock is off most."""

    version: str
    took_s: float
    offset_s: float
    eviction: str


def inspect(source: str | RedisClient) -> Inspection:
    """Ask every server that has keys; raise a StoreError if one does not answer."""
    servers = open_servers(read_deployment(source), limit_rights("*", ()))
    links = Links(servers)
    try:
        found = [_look(links, each) for each in servers.all()]
    finally:
        links.close()
        servers.close()
    return max(found, key=lambda each: (each.eviction != KEEPS_ALL, abs(each.offset_s)))


def _look(links: Links, server: Server) -> Inspection:
    links.ask(server, "PING")
    began = time.time()
    seconds, micros = links.ask(server, "TIME")
    ended = time.time()
    try:
        text = links.ask(server, "INFO").decode()
    except StoreForbidden:
        text = ""
    said = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    version = next((f"{name} {said[key]}" for key, name in _NAMES.items() if key in said), _UNKNOWN)
    offset_s = int(seconds) + int(micros) / 1e6 - (began + ended) / 2
    return Inspection(version, ended - began, offset_s, said.get("maxmemory_policy", KEEPS_ALL))
