"""Shows that a server comes back at the same address with what it had acknowledged."""

import os
import signal
import time
from collections.abc import Callable

import obstore
import psycopg
import pytest

from tests.selftest.traces import is_alive
from tests.servers.clients import redis_client, s3_client, s3_store
from tests.servers.ministack import ministack
from tests.servers.postgres import postgres
from tests.servers.process import ServerError
from tests.servers.seaweedfs import seaweedfs
from tests.servers.server import Server
from tests.servers.valkey import valkey

pytestmark = pytest.mark.slow


def restart(server: Server, end: Callable[[Server], None]) -> None:
    before = server.pid
    end(server)
    assert not is_alive(before)
    with pytest.raises(ServerError, match="not running"):
        _ = server.pid
    server.start()
    assert is_alive(server.pid)


def test_postgres_keeps_its_rows() -> None:
    with postgres(own=True, durable=True) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        for end in (Server.stop, Server.kill):
            restart(server, end)
            with psycopg.connect(server.url) as connection:
                assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


def test_valkey_keeps_its_keys() -> None:
    with valkey(own=True, durable=True) as server:
        with redis_client(server.url) as client:
            client.set("kept", "7")
        for end in (Server.stop, Server.kill):
            restart(server, end)
            with redis_client(server.url) as client:
                assert client.get("kept") == b"7"


# Not stop: it takes seven seconds and is the same to the data.
def test_seaweedfs_keeps_its_objects() -> None:
    with seaweedfs(own=True) as server:
        s3_client(server.url).create_bucket(Bucket="kept")
        obstore.put(s3_store(server.url, "kept"), "object", b"7")
        restart(server, Server.kill)
        assert obstore.get(s3_store(server.url, "kept"), "object").bytes() == b"7"


def test_ministack_forgets_everything() -> None:
    with ministack(own=True) as server:
        for end in (Server.stop, Server.kill):
            s3_client(server.url).create_bucket(Bucket="forgotten")
            restart(server, end)
            assert s3_client(server.url).list_buckets()["Buckets"] == []


def test_server_that_crashed_by_itself_can_be_started() -> None:
    with valkey(own=True) as server:
        crashed = server.pid
        os.kill(crashed, signal.SIGKILL)
        while server.is_running:
            time.sleep(0.01)
        server.start()
        assert server.pid != crashed


def test_server_cannot_be_started_twice() -> None:
    with valkey(own=True) as server, pytest.raises(ServerError, match="runs already"):
        server.start()
