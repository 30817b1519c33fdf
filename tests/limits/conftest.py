"""Gives the limiter's tests an address of each kind of store, with an environment of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from forebay.limits import Limiter
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_name, fresh_schema


class Place(NamedTuple):
    """A limit store for one test."""

    address: str
    environment: str

    def limiter(self) -> Limiter:
        return Limiter(self.address, environment=self.environment)


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    environment = fresh_name()
    match request.param:
        case "memory":
            yield Place("memory://", environment)
        case "sqlite":
            yield Place(f"sqlite:///{tmp_path}/limits.db", environment)
        case "redis":
            url = request.getfixturevalue("valkey_server").url
            yield Place(url, environment)
            with redis_client(url) as client:
                for key in client.scan_iter(match=f"*{environment}*", count=1000):
                    client.unlink(key)
        case _:
            with fresh_schema(request.getfixturevalue("postgres_server")) as url:
                yield Place(url, environment)
