"""Starts each real server at its first use, once for a whole test run."""

from collections.abc import Iterator

import pytest

from tests.servers.ministack import MiniStackServer, ministack
from tests.servers.postgres import postgres
from tests.servers.redis62 import redis62
from tests.servers.seaweedfs import seaweedfs
from tests.servers.sentinel import SentinelTrio, sentinel_trio
from tests.servers.server import Server
from tests.servers.valkey import valkey
from tests.servers.valkey_cluster import ValkeyCluster, valkey_cluster


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    with valkey() as server:
        yield server


@pytest.fixture(scope="session")
def redis62_server() -> Iterator[Server]:
    with redis62() as server:
        yield server


@pytest.fixture(scope="session")
def sentinels() -> Iterator[SentinelTrio]:
    with sentinel_trio() as trio:
        yield trio


@pytest.fixture(scope="session")
def cluster() -> Iterator[ValkeyCluster]:
    with valkey_cluster() as found:
        yield found


@pytest.fixture(scope="session")
def seaweedfs_server() -> Iterator[Server]:
    with seaweedfs() as server:
        yield server


@pytest.fixture(scope="session")
def ministack_server() -> Iterator[MiniStackServer]:
    with ministack() as server:
        yield server
