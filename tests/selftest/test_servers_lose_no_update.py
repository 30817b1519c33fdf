"""Shows that no test server loses an acknowledged update, so that none can hide a bug of ours."""

from collections.abc import Iterator

import pytest

from tests.selftest.aws_contenders import LIMIT, ItemCounter, ItemLimit, ObjectCounter, ObjectCreation
from tests.selftest.contenders import Contender, KeyCounter, RowCounter
from tests.selftest.crowd import Crowd
from tests.servers.fresh import fresh_bucket, fresh_database, fresh_prefix, fresh_table
from tests.servers.ministack import MiniStackServer
from tests.servers.server import Server

pytestmark = pytest.mark.slow

protection = pytest.mark.parametrize("atomic", [True, False], ids=["protected", "unprotected"])


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    with Crowd() as crowd:
        yield crowd


@protection
def test_seaweedfs_creates_an_object_once(crowd: Crowd, seaweedfs_server: Server, *, atomic: bool) -> None:
    # The losers of a protected turn wait for seconds.
    turns = 2 if atomic else 4
    with fresh_bucket(seaweedfs_server) as bucket:
        url = seaweedfs_server.url
        result = crowd.contend(ObjectCreation, url, bucket, turns=turns, step_s=0.3, atomic=atomic)
    assert (not result.disputed_turns) is atomic


@protection
def test_ministack_creates_an_object_once(crowd: Crowd, ministack_server: MiniStackServer, *, atomic: bool) -> None:
    with fresh_bucket(ministack_server) as bucket:
        url = ministack_server.url
        result = crowd.contend(ObjectCreation, url, bucket, turns=25, step_s=0.04, atomic=atomic)
    assert (not result.disputed_turns) is atomic


@protection
def test_seaweedfs_replaces_only_the_object_that_was_read(
    crowd: Crowd, seaweedfs_server: Server, *, atomic: bool
) -> None:
    with fresh_bucket(seaweedfs_server) as bucket:
        result = crowd.contend(ObjectCounter, seaweedfs_server.url, bucket, turns=4, atomic=atomic)
    assert (result.lost_updates == 0) is atomic


@protection
def test_ministack_replaces_only_the_object_that_was_read(
    crowd: Crowd, ministack_server: MiniStackServer, *, atomic: bool
) -> None:
    with fresh_bucket(ministack_server) as bucket:
        result = crowd.contend(ObjectCounter, ministack_server.url, bucket, turns=40, atomic=atomic)
    assert (result.lost_updates == 0) is atomic


@protection
@pytest.mark.parametrize("kind", [ItemCounter, ItemLimit])
def test_dynamodb_updates_only_under_the_condition(
    crowd: Crowd, ministack_server: MiniStackServer, kind: type[Contender], *, atomic: bool
) -> None:
    with fresh_table(ministack_server) as table:
        result = crowd.contend(kind, ministack_server.dynamodb_url, table, turns=30, atomic=atomic)
    assert (result.lost_updates == 0) is atomic
    if kind is ItemLimit and atomic:
        assert result.final == [LIMIT]


@protection
def test_postgres_lets_one_writer_hold_a_row(crowd: Crowd, postgres_server: Server, *, atomic: bool) -> None:
    with fresh_database(postgres_server) as dsn:
        result = crowd.contend(RowCounter, "", dsn, turns=50, atomic=atomic)
    assert (result.lost_updates == 0) is atomic


@protection
def test_valkey_runs_a_script_as_one_step(crowd: Crowd, valkey_server: Server, *, atomic: bool) -> None:
    with fresh_prefix(valkey_server) as prefix:
        result = crowd.contend(KeyCounter, valkey_server.url, prefix, turns=200, atomic=atomic)
    assert (result.lost_updates == 0) is atomic
