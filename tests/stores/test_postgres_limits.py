"""Limits in PostgreSQL keep the contract."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from forebay.errors import SchemaTooNew, StoreCorrupt
from forebay.model.limit_record import Grant, Record
from forebay.stores.limit_base import LimitStore
from forebay.stores.postgres import limits
from forebay.stores.postgres.limits import PostgresLimits
from forebay.testing.limits import LimitStoreSuite
from forebay.testing.limits.case import define, known
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process
from tests.servers.fresh import fresh_database
from tests.servers.server import Server


@pytest.fixture(scope="module")
def database(postgres_server: Server) -> Iterator[str]:
    with fresh_database(postgres_server) as url:
        yield url


class TestPostgresLimits(LimitStoreSuite):
    url: str
    numbers = count()

    @pytest.fixture(autouse=True)
    def corner(self, database: str) -> Iterator[None]:
        """An environment of its own for each store."""
        self.url = database
        self.others: list[PostgresLimits] = []
        yield
        for store in self.others:
            store.close()

    def make_store(self, clock: HandClock) -> PostgresLimits:
        return PostgresLimits(self.url, environment=f"e{next(self.numbers)}", clock=clock)

    def another(self, store: LimitStore, clock: HandClock) -> PostgresLimits:
        assert isinstance(store, PostgresLimits)
        opened = PostgresLimits(self.url, environment=store._environment, clock=clock)
        self.others.append(opened)
        return opened

    def test_a_limit_has_one_header(self, store: PostgresLimits, a: Process) -> None:
        define(store, 2, [(3, 1.0)])
        a.wants(5)
        with psycopg.connect(self.url) as admin:
            query = "SELECT name FROM forebay_limits WHERE environment = %s"
            assert admin.execute(query, (store._environment,)).fetchall() == [(LIMIT,)]

    def test_environments_do_not_see_each_other(self, store: PostgresLimits, clock: HandClock) -> None:
        define(store, 2)
        other = self.make_store(clock)
        assert other.names() == []
        assert other.read(LIMIT)[0] is None
        other.close()

    def test_numbers_and_texts_come_back_as_they_were(self, store: PostgresLimits) -> None:
        define(store, 2, [(3, 1 / 3)], call_timeout_s=0.1)

        def step(record: Record | None, now: int) -> Record:
            return known(record) | {
                "virtual_time": 1 << 60,
                "arrival_count": -(1 << 45),
                "pause_note": "it's %s \\ \x00 ☃ \ud800",
            }

        changed = store.change(LIMIT, step)
        assert store.read(LIMIT)[0] == changed

    def test_the_clock_is_the_servers_and_can_be_shifted(self) -> None:
        store = PostgresLimits(self.url)
        with psycopg.connect(self.url) as admin:
            ((shown,),) = admin.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000").fetchall()
        now = store.read(LIMIT)[1]
        assert 0 <= now - int(shown) < 1000
        store.shift = 3_600_000
        assert 0 <= store.read(LIMIT)[1] - now - 3_600_000 < 1000
        store.close()

    def test_the_time_is_that_at_which_the_record_was_locked(self, store: PostgresLimits, a: Process) -> None:
        """Not that of the transaction's start: others that were let in first would be later."""
        define(store, 2)
        own = PostgresLimits(self.url, environment=store._environment)
        with psycopg.connect(self.url) as holder:
            holder.execute("SELECT FROM forebay_limits WHERE environment = %s FOR UPDATE", (store._environment,))
            told: list[int] = []
            waiting = threading.Thread(target=own.change, args=(LIMIT, lambda _, now: told.append(now)))
            waiting.start()
            time.sleep(0.3)
            ((until,),) = holder.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000").fetchall()
        waiting.join()
        own.close()
        assert told[0] >= int(until)

    def test_a_hand_over_that_is_too_long_to_be_told_is_hinted_at(
        self, store: PostgresLimits, a: Process, b: Process, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "_MAX_PAYLOAD", 1000)
        define(store, 1000)
        held = a.wants(1000)
        for _ in range(300):
            b.joins()
        b.asks()
        told: list[list[Grant]] = []
        stop = store.listen("b", lambda limit, grants, now: told.append(grants))
        a.gives_back(held)
        self.wait_for(lambda: bool(told))
        stop()
        assert told == [[]]
        assert len(b.asks()) == 300

    def test_many_sessions_are_heard_on_one_connection(self, store: PostgresLimits, clock: HandClock) -> None:
        define(store, 1)
        heard: list[str] = []
        before = threading.active_count()
        stops = [store.listen(f"s{at}", lambda limit, *_: heard.append(limit)) for at in range(20)]
        assert threading.active_count() == before + 1
        holder, waiter = Process(store, clock, "holder"), Process(store, clock, "s7")
        held = holder.wants()
        waiter.wants()
        holder.gives_back(held)
        self.wait_for(lambda: heard == [LIMIT])
        for stop in stops:
            stop()

    def test_a_record_that_is_none_is_said_to_be_that(self, store: PostgresLimits, a: Process) -> None:
        define(store, 1)
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute("UPDATE forebay_limits SET head = '{' WHERE environment = %s", (store._environment,))
            with pytest.raises(StoreCorrupt, match="Delete its row"):
                a.asks()
            admin.execute("DELETE FROM forebay_limits WHERE environment = %s", (store._environment,))


class TestTheTable:
    """In databases of their own."""

    @pytest.fixture
    def url(self, postgres_server: Server) -> Iterator[str]:
        with fresh_database(postgres_server) as url:
            yield url

    def test_processes_that_come_first_make_it_together(self, url: str) -> None:
        stores = [PostgresLimits(url) for _ in range(6)]
        begun = threading.Barrier(len(stores))
        problems: list[BaseException] = []

        def use(store: PostgresLimits) -> None:
            begun.wait()
            try:
                define(store, 2)
            except BaseException as error:  # noqa: BLE001 - told to the test
                problems.append(error)

        threads = [threading.Thread(target=use, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        assert stores[0].names() == [LIMIT]
        for store in stores:
            store.close()

    def test_a_table_that_was_dropped_is_made_anew_and_what_it_forgot_is_found_out(self, url: str) -> None:
        store = PostgresLimits(url)
        define(store, 2)
        a = Process(store, HandClock(), "a")
        assert len(a.wants(2)) == 2
        with psycopg.connect(url) as admin:
            admin.execute("DROP TABLE forebay_limits")
        assert store.exchange(LIMIT, a.ask())["status"] == "unknown"
        define(store, 2)
        b = Process(store, HandClock(), "b")
        a.beats()
        assert b.wants() == []
        assert b.waits[0]["blocked_by"] == ["relearning"]
        store.close()

    @pytest.mark.parametrize(
        ("comment", "problem"), [("Forebay limits, schema 99", SchemaTooNew), ("mine", StoreCorrupt)]
    )
    def test_one_that_is_not_ours_is_left_alone(self, url: str, comment: str, problem: type[Exception]) -> None:
        with psycopg.connect(url) as admin:
            admin.execute(f"CREATE TABLE forebay_limits (); COMMENT ON TABLE forebay_limits IS '{comment}'")
        store = PostgresLimits(url)
        with pytest.raises(problem):
            store.read(LIMIT)
        store.close()

    @pytest.mark.slow
    def test_its_rows_are_replaced_where_they_are(self, url: str) -> None:
        """Each update stays in its page (HOT): the table and its index do not grow with the number of requests."""
        store = PostgresLimits(url)
        define(store, 150, [(190, 60.0)])
        a = Process(store, HandClock(), "a")
        for _ in range(300):
            a.gives_back(a.wants())
        store.close()
        with psycopg.connect(url, autocommit=True) as admin:
            (((size),),) = admin.execute("SELECT pg_total_relation_size('forebay_limits')").fetchall()
        assert size <= 100_000
