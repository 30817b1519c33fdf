"""Fills the memory of a Redis server with other keys until it drops some of a limit's."""

from __future__ import annotations

import os
import time
from pathlib import Path

import redis
from redis.client import PubSub

from chaos.journal import Journal
from tests.servers.clients import redis_client

_ROOM = 1 << 20
_SIZE = 10_000
_PATIENCE_S = 20.0
_EVICTED = "__keyevent@0__:evicted"


class Pressure:
    """Other keys of other programs; what the server evicted is written down by its own account."""

    def __init__(self, url: str, key: str, journal: Path) -> None:
        self._url = url
        self._key = key
        self._journal = Journal(journal)
        self._turn = 0

    def press(self, part: str) -> None:
        """Write until this part of the limit was evicted, then take the other keys away again."""
        self._turn += 1
        with redis_client(self._url) as client, client.pubsub(ignore_subscribe_messages=True) as news:
            client.config_set("notify-keyspace-events", "Ee")
            news.subscribe(_EVICTED)
            news.get_message(timeout=1.0)
            client.config_set("maxmemory-policy", "allkeys-lru")
            client.config_set("maxmemory", client.info("memory")["used_memory"] + _ROOM)
            written = self._write_until(client, news, self._key + part)
            client.config_set("maxmemory", 0)
            client.unlink(*written)

    def _write_until(self, client: redis.Redis, news: PubSub, wanted: str) -> list[str]:
        gives_up_at = time.monotonic() + _PATIENCE_S
        written: list[str] = []
        while time.monotonic() < gives_up_at:
            written.append(f"other-{self._turn}-{len(written)}")
            client.set(written[-1], os.urandom(_SIZE))
            while (message := news.get_message(timeout=0)) is not None:
                key = message["data"].decode()
                if key.startswith(self._key):
                    self._journal.note("evicted", key=key)
                if key == wanted:
                    return written
        return written
