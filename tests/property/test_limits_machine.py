"""Random processes find nothing wrong with a limit store."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from forebay.stores.memory.limits import MemoryLimits
from forebay.stores.postgres.limits import PostgresLimits
from forebay.stores.redis.limits import RedisLimits
from forebay.stores.sqlite.boot_clock import Moment
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.machine import limit_machine
from tests.property.machines import FUZZ, run, short_and_long
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_database, fresh_name
from tests.servers.redis62 import HAS_WHEEL
from tests.servers.server import Server

# A failure is made small before it is told, which takes minutes; a run that passes takes seconds.
pytestmark = pytest.mark.timeout(0 if FUZZ else 600)


def memory_limits(clock: HandClock) -> MemoryLimits:
    return MemoryLimits(clock=clock)


@pytest.mark.slow
@short_and_long
def test_the_limits_in_sqlite_do_what_the_judge_allows(tmp_path: Path, share: float) -> None:
    files = (tmp_path / f"{number}.db" for number in itertools.count())

    def sqlite_limits(clock: HandClock) -> SqliteLimits:
        return SqliteLimits(next(files), clock=lambda: Moment("boot", clock(), clock()))

    run(limit_machine(sqlite_limits), examples=share * 60)


@pytest.mark.slow
@short_and_long
@pytest.mark.parametrize("server", ["valkey_server", "redis62_server"])
def test_the_limits_in_redis_do_what_the_judge_allows(
    server: str, request: pytest.FixtureRequest, share: float
) -> None:
    if server == "redis62_server" and not HAS_WHEEL:
        pytest.skip("Redis 6.2 comes as a wheel for Python 3.11 on Linux only")
    url = request.getfixturevalue(server).url
    environment = fresh_name()
    numbers = itertools.count()

    def redis_limits(clock: HandClock) -> RedisLimits:
        return RedisLimits(url, environment=f"{environment}-{next(numbers)}", clock=clock)

    run(limit_machine(redis_limits), examples=share * 60)
    with redis_client(url) as client:
        for key in client.scan_iter(match=f"*{environment}*", count=1000):
            client.unlink(key)


@pytest.mark.slow
@short_and_long
def test_the_limits_in_postgres_do_what_the_judge_allows(postgres_server: Server, share: float) -> None:
    numbers = itertools.count()
    with fresh_database(postgres_server) as url:

        def postgres_limits(clock: HandClock) -> PostgresLimits:
            return PostgresLimits(url, environment=f"e{next(numbers)}", clock=clock)

        run(limit_machine(postgres_limits), examples=share * 25)


@pytest.mark.slow
@short_and_long
def test_the_limits_in_memory_do_what_the_judge_allows(share: float) -> None:
    run(limit_machine(memory_limits), examples=share * 60)
