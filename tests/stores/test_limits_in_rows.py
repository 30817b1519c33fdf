"""SQL stores keep a limit in rows: older records become rows, a step reads few of them, and lost ones are noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from forebay.errors import SchemaTooOld, StoreError
from forebay.model.task import DEFAULT_ENVIRONMENT
from forebay.stores.postgres import limit_rows as postgres_rows
from forebay.stores.postgres import schema as postgres_schema
from forebay.stores.postgres.limits import PostgresLimits
from forebay.stores.sql import limit_codec, limit_parts, limit_step
from forebay.stores.sqlite import limit_rows as sqlite_rows
from forebay.stores.sqlite import schema as sqlite_schema
from forebay.stores.sqlite.boot_clock import Moment
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.case import LEASE, SECOND, define, problems, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process
from tests.servers.fresh import fresh_database
from tests.servers.server import Server
from tests.stores.first_build import first_build_processes, first_build_record

TABLES = ("sessions", "calls", "runs", "tails", "windows")
SOON = limit_parts.CHECKED_EVERY + 2


class SqliteGround:
    """A file, and what can be done to it behind the store's back."""

    reader = sqlite_rows.LimitReader
    headers = "limits"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "limits.db"

    def open(self, clock: HandClock) -> SqliteLimits:
        return SqliteLimits(self.path, clock=lambda: Moment("boot", clock(), clock()))

    def execute(self, statement: str, *arguments: object) -> list[Any]:
        db = apsw.Connection(str(self.path))
        try:
            return list(db.execute(statement, arguments))
        finally:
            db.close()

    def table(self, name: str) -> str:
        return f"limit_{name}"

    def keep_as_schema_1(self, record: str, clock: HandClock) -> None:
        self.execute("PRAGMA journal_mode = WAL")
        self.execute(sqlite_schema.migrations(sqlite_schema.LIMITS)[1])
        self.execute(f"PRAGMA application_id = {sqlite_schema.LIMITS.application_id}")
        self.execute("PRAGMA user_version = 1")
        add = "INSERT INTO limits VALUES (?, ?, 7, ?, ?, 'boot', ?, ?)"
        self.execute(add, DEFAULT_ENVIRONMENT, LIMIT, record, clock(), clock(), clock())

    old_read = "SELECT version, record, raw, boot, ticks, wall FROM limits"
    refusals = (apsw.SQLError,)


class PostgresGround:
    """The same of a database."""

    reader = postgres_rows.LimitReader
    headers = "forebay_limits"

    def __init__(self, url: str) -> None:
        self.url = url

    def open(self, clock: HandClock) -> PostgresLimits:
        return PostgresLimits(self.url, clock=clock)

    def execute(self, statement: str, *arguments: object) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as admin:
            done = admin.execute(statement.replace("?", "%s"), arguments)
            return done.fetchall() if done.description else []

    def table(self, name: str) -> str:
        return f"forebay_limit_{name}"

    def keep_as_schema_1(self, record: str, clock: HandClock) -> None:
        self.execute(postgres_schema.LIMITS.migrations[1])
        self.execute("COMMENT ON TABLE forebay_limits IS 'Forebay limits, schema 1'")
        self.execute("INSERT INTO forebay_limits VALUES (?, ?, ?)", DEFAULT_ENVIRONMENT, LIMIT, record)

    old_read = "SELECT record FROM forebay_limits"
    refusals = (psycopg.errors.UndefinedColumn,)


Ground = SqliteGround | PostgresGround
SqlLimits = SqliteLimits | PostgresLimits


@pytest.fixture(params=["sqlite", "postgres"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    if request.param == "sqlite":
        yield SqliteGround(tmp_path)
        return
    server: Server = request.getfixturevalue("postgres_server")
    with fresh_database(server) as url:
        yield PostgresGround(url)


USUAL = limit_codec.LARGEST_PACKED, limit_step.FEW


@pytest.fixture(autouse=True)
def in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a small limit lie in rows as a large one does."""
    monkeypatch.setattr(limit_codec, "LARGEST_PACKED", 0)
    monkeypatch.setattr(limit_step, "FEW", 0)


@pytest.fixture
def small(in_rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a small limit lie in its header, as usual."""
    monkeypatch.setattr(limit_codec, "LARGEST_PACKED", USUAL[0])
    monkeypatch.setattr(limit_step, "FEW", USUAL[1])


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(ground: Ground, clock: HandClock) -> Iterator[SqlLimits]:
    opened = ground.open(clock)
    yield opened
    opened.close()


# What an older program left.


def test_an_older_record_becomes_rows(ground: Ground, clock: HandClock) -> None:
    holder, waiter = first_build_processes(clock)
    ground.keep_as_schema_1(first_build_record(), clock)
    store = ground.open(clock)
    if isinstance(ground, PostgresGround):
        with pytest.raises(SchemaTooOld, match="schema 1"):
            store.read(LIMIT)
    store.change("other", lambda _, __: None)  # migrates
    found = stored(store)
    assert found["tails"]["k"]["run_count"] == 1
    assert {sid: seat["due_at"] == seat["ends_at"] for sid, seat in found["sessions"].items()} == {
        "dead": False,
        "holder": True,
        "waiter": True,
    }
    holder.store = waiter.store = store
    assert holder.gives_back([*holder.calls]) == []
    assert waiter.exchanges()["generation"] == 1
    assert len(waiter.calls) == 1
    assert store.check(LIMIT) == []
    assert ground.execute(f"SELECT older FROM {ground.headers} WHERE name = ?", LIMIT) == [("",)]
    store.close()


def test_a_program_of_before_is_refused(ground: Ground, clock: HandClock) -> None:
    store = ground.open(clock)
    define(store, 1)
    with pytest.raises(ground.refusals):
        ground.execute(ground.old_read)
    store.close()


def test_a_session_is_found_with_what_it_holds_and_waits_for(store: SqlLimits, clock: HandClock) -> None:
    define(store, 1)
    holder, waiter = Process(store, clock, "holder"), Process(store, clock, "waiter")
    holder.wants()
    waiter.wants()
    for process in (holder, waiter):
        found, _ = store.find(LIMIT, process.sid)
        assert found is not None
        assert found["sessions"] == {process.sid: stored(store)["sessions"][process.sid]}
    assert len(stored(store)["sessions"]["holder"]["calls"]) == 1
    assert len(stored(store)["sessions"]["waiter"]["runs"]) == 1


# Small limits.


def rows_of(ground: Ground) -> int:
    return sum(ground.execute(f"SELECT count(*) FROM {ground.table(name)}")[0][0] for name in TABLES)


@pytest.mark.usefixtures("small")
def test_a_small_limit_lies_in_its_header(ground: Ground, store: SqlLimits, clock: HandClock) -> None:
    half_full(store, clock)
    assert rows_of(ground) == 0
    assert store.check(LIMIT) == []
    assert problems(stored(store)) == []


@pytest.mark.usefixtures("small")
def test_a_limit_moves_into_rows_and_back(ground: Ground, store: SqlLimits, clock: HandClock) -> None:
    everybody = crowd(store, clock, 60)
    holder = everybody[0]
    assert rows_of(ground) > 60
    assert store.check(LIMIT) == []
    clock.move(LEASE - SECOND)
    holder.beats()
    clock.move(2 * SECOND)
    for _ in range(2 * SOON):
        holder.exchanges()
    assert rows_of(ground) == 0
    assert store.check(LIMIT) == []
    found = stored(store)
    assert (found["generation"], [*found["sessions"]]) == (1, [holder.sid])
    assert [call["id"] for call in found["sessions"][holder.sid]["calls"]] == [*holder.calls]
    assert everybody[1].wants() == []


@pytest.mark.usefixtures("small")
def test_rows_beside_a_small_limit_are_found_and_cleared_away(
    ground: Ground, store: SqlLimits, clock: HandClock
) -> None:
    half_full(store, clock)
    before = stored(store)
    ground.execute(f"INSERT INTO {ground.table('tails')} SELECT id, '\"other\"', 5, 1 FROM {ground.headers}")
    assert store.check(LIMIT) != []
    assert stored(store) == before
    define(store, 3)
    assert store.check(LIMIT) == []
    assert stored(store)["generation"] == before["generation"]


@pytest.mark.usefixtures("small")
def test_an_older_record_that_is_small_becomes_a_header(ground: Ground, clock: HandClock) -> None:
    holder, waiter = first_build_processes(clock)
    ground.keep_as_schema_1(first_build_record(), clock)
    holder.store = waiter.store = store = ground.open(clock)
    store.change("other", lambda _, __: None)  # migrates
    holder.gives_back([*holder.calls])
    assert waiter.exchanges()["generation"] == 1
    assert len(waiter.calls) == 1
    assert rows_of(ground) == 0
    assert store.check(LIMIT) == []
    store.close()


# What a step reads.


def crowd(store: SqlLimits, clock: HandClock, count: int) -> list[Process]:
    define(store, 1)
    everybody = [Process(store, clock, f"p{number:02}") for number in range(count)]
    for each in everybody:
        each.wants()
    return everybody


def test_a_step_never_reads_all_of_a_limit(
    ground: Ground, store: SqlLimits, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = crowd(store, clock, 50)
    read: list[int] = []
    parts = ground.reader.parts

    def counted(self: Any, *known: Any) -> limit_parts.Parts:  # noqa: ANN401 - either reader
        found = parts(self, *known)
        read.append(sum(len(rows) for rows in found[:7]))
        return found

    def whole(_: object) -> None:
        raise AssertionError("a step has read all rows")

    monkeypatch.setattr(ground.reader, "parts", counted)
    monkeypatch.setattr(ground.reader, "whole", whole)
    for _ in range(5):
        held = next(each for each in everybody if each.calls)
        held.gives_back([*held.calls])
        held.wants()
        for each in everybody:
            each.beats()
    monkeypatch.undo()
    assert max(read) < 50
    assert store.check(LIMIT) == []


def test_a_process_pays_for_the_calls_that_it_names(
    ground: Ground, store: SqlLimits, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(store, 300)
    busy = Process(store, clock, "busy")
    while len(busy.calls) < 300:
        busy.wants(300 - len(busy.calls))
        busy.line.clear()
    read: list[int] = []
    parts = ground.reader.parts

    def counted(self: Any, *known: Any) -> limit_parts.Parts:  # noqa: ANN401 - either reader
        found = parts(self, *known)
        read.append(len(found.calls))
        return found

    monkeypatch.setattr(ground.reader, "parts", counted)
    busy.gives_back([*busy.calls][:3])
    assert read == [3]


def test_a_heartbeat_that_meets_a_jump_of_the_clock_decides_on_more(
    ground: Ground, store: SqlLimits, clock: HandClock
) -> None:
    half_full(store, clock)
    waiter = Process(store, clock, "late")
    waiter.wants(3)
    clock.move(20)
    clock.jump(-5000)
    assert waiter.beats()["status"] == "ok"
    assert store.check(LIMIT) == []


def test_a_step_that_is_decided_on_twice_counts_a_failure_once(store: SqlLimits, clock: HandClock) -> None:
    """How many stand before a run that changes its key is counted when the rules have said where it stands."""
    holder = crowd(store, clock, 50)[0]
    run = holder.joins()
    holder.exchanges()
    holder.leaves(run)
    holder.joins(key="another")
    holder.ends([*holder.calls], "failed")
    assert holder.exchanges()["waits"] != []
    assert stored(store)["cooldown"]["failure_count"] == 1


# What is lost.


def noticed(store: SqlLimits, clock: HandClock) -> tuple[int, int]:
    """Let newcomers ask until all rows were counted; the generation, and how many calls they got in all."""
    got = 0
    for number in range(SOON):
        newcomer = Process(store, clock, f"newcomer{number % 2}")
        got += len(newcomer.wants())
    return stored(store)["generation"], got


def half_full(store: SqlLimits, clock: HandClock) -> None:
    define(store, 3, [(5, 3600.0)])
    holder, waiter = Process(store, clock, "holder"), Process(store, clock, "waiter")
    holder.wants(2)
    holder.gives_back([*holder.calls][:1])
    define(store, 2, [(5, 3600.0)])
    waiter.wants(3)


@pytest.mark.parametrize("table", TABLES)
def test_rows_that_somebody_deletes_are_a_loss_and_nobody_gets_more(
    table: str, ground: Ground, store: SqlLimits, clock: HandClock
) -> None:
    half_full(store, clock)
    held = sum(len(seat["calls"]) for seat in stored(store)["sessions"].values())
    ground.execute(f"DELETE FROM {ground.table(table)}")
    assert store.check(LIMIT) != []
    gen, got = noticed(store, clock)
    assert gen > 1
    assert got + held <= 2
    assert stored(store)["held_back_until"] > clock()
    assert store.check(LIMIT) == []
    assert problems(stored(store)) == []


@pytest.mark.parametrize("table", TABLES)
def test_rows_of_another_time_are_a_loss(table: str, ground: Ground, store: SqlLimits, clock: HandClock) -> None:
    """As after a backup of some of the tables was restored: here those that are there twice."""
    half_full(store, clock)
    name = ground.table(table)
    columns = {
        "sessions": ("session_id", "session_id || '-old'"),
        "calls": ("id", "id + 1000"),
        "runs": ("id", "id + 1000"),
        "tails": ("key", "'\"other\"'"),
        "windows": ("name", "name || '0'"),
    }
    column, other = columns[table]
    rest = {
        "sessions": "limit_id, ends_at, due_at, request_number, grant_number, next_call_id, label, open_call_count, "
        "unconfirmed",
        "calls": "limit_id, session_id, granted_at, counted_at, call_until, units, key, label",
        "runs": "limit_id, session_id, state, virtual_start, arrival_number, caller_count, units, key, label, "
        "next_call_id, grant_number",
        "tails": "limit_id, virtual_finish, run_count",
        "windows": "limit_id, entries",
    }[table]
    ground.execute(f"INSERT INTO {name} ({column}, {rest}) SELECT {other}, {rest} FROM {name}")
    gen, got = noticed(store, clock)
    assert gen > 1
    assert got <= 1
    assert store.check(LIMIT) == []


def _trusts_the_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limit_parts, "_check", lambda *_: None)
    patch.setattr(limit_parts, "_check_calls", lambda *_: 0)
    patch.setattr(limit_step, "_problems", lambda *_: [])


@pytest.mark.parametrize("table", ["sessions", "calls", "windows"])
def test_a_store_that_trusts_its_rows_is_found_out(
    table: str, ground: Ground, store: SqlLimits, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _trusts_the_rows(monkeypatch)
    half_full(store, clock)
    ground.execute(f"DELETE FROM {ground.table(table)}")
    gen, _ = noticed(store, clock)
    assert gen == 1


@pytest.mark.parametrize(
    "mistake",
    [
        "UPDATE {headers} SET placed_run_count = placed_run_count + 1",
        "UPDATE {sessions} SET open_call_count = open_call_count + 1",
        "UPDATE {runs} SET state = 2",
        "UPDATE {runs} SET next_call_id = next_call_id + 1",
        "UPDATE {tails} SET run_count = run_count + 1",
    ],
)
def test_the_check_finds_a_mistake(mistake: str, ground: Ground, store: SqlLimits, clock: HandClock) -> None:
    half_full(store, clock)
    assert store.check(LIMIT) == []
    ground.execute(mistake.format(headers=ground.headers, **{name: ground.table(name) for name in TABLES}))
    assert store.check(LIMIT) != []


def test_a_limit_that_is_deleted_takes_its_rows_along(ground: Ground, store: SqlLimits, clock: HandClock) -> None:
    half_full(store, clock)
    ground.execute(f"DELETE FROM {ground.headers}")
    with pytest.raises((AssertionError, StoreError)):
        stored(store)
    define(store, 2)
    assert [ground.execute(f"SELECT count(*) FROM {ground.table(name)}") for name in TABLES] == [[(0,)]] * len(TABLES)
