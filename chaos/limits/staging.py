"""Opens the store of one scenario."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from chaos.limits.stage import MemoryStage, Stage
from chaos.limits.stage_redis import ClusterStage, RedisStage, SentinelStage
from chaos.limits.stage_sql import PostgresStage, SqliteStage
from tests.servers.postgres import postgres
from tests.servers.sentinel import sentinel_trio
from tests.servers.valkey import valkey
from tests.servers.valkey_cluster import valkey_cluster

STORES = ("memory", "sqlite", "redis", "postgres", "sentinel", "cluster")


@contextmanager
def staged(store: str, folder: Path, *, durable: bool = False) -> Iterator[Stage]:
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        stage: Stage
        match store:
            case "memory":
                stage = MemoryStage(folder)
            case "sqlite":
                stage = SqliteStage(folder)
            case "redis":
                stage = RedisStage(folder, opened.enter_context(valkey(own=True, durable=durable)))
            case "sentinel":
                stage = SentinelStage(folder, opened.enter_context(sentinel_trio()))
            case "cluster":
                stage = ClusterStage(folder, opened.enter_context(valkey_cluster()))
            case _:
                stage = PostgresStage(folder, opened.enter_context(postgres(own=True)))
        opened.callback(stage.close)
        yield stage
