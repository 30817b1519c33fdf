"""The SQLite limit store keeps the contract, and its clock goes on when the machine is started anew."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.model.limit import Window
from forebay.model.limit_record import Record
from forebay.rules import limit_actions as actions
from forebay.rules import limit_state
from forebay.stores.limit_base import LimitStore
from forebay.stores.sqlite.boot_clock import Moment, moment, passed
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits import LimitStoreSuite
from forebay.testing.limits.case import known, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process
from tests.faults.limit_children import define, process

HOUR = 3_600_000


class TestSqliteLimits(LimitStoreSuite):
    @pytest.fixture(autouse=True)
    def _opened(self, tmp_path: Path) -> Iterator[None]:
        self._files = (tmp_path / f"{number}.db" for number in itertools.count())
        with contextlib.ExitStack() as self._all:
            yield

    def _open(self, path: Path, clock: HandClock) -> SqliteLimits:
        return self._all.enter_context(SqliteLimits(path, clock=lambda: Moment("boot", clock(), clock())))

    def make_store(self, clock: HandClock) -> SqliteLimits:
        return self._open(next(self._files), clock)

    def another(self, store: LimitStore, clock: HandClock) -> SqliteLimits:
        assert isinstance(store, SqliteLimits)
        return self._open(store._path, clock)

    def test_a_change_is_not_overtaken_by_exchanges(self, store: SqliteLimits, clock: HandClock, a: Process) -> None:
        define(store, 2)
        other = Process(self.another(store, clock), clock, "other")
        steps = 0

        def busy(record: Record | None, raw: int) -> Record | None:
            nonlocal steps
            steps += 1
            exchanging = threading.Thread(target=other.exchanges)
            exchanging.start()
            threads.append(exchanging)
            exchanging.join(0.1 if steps == 4 else None)
            return actions.paused(known(record), raw, for_ms=None, note="now")

        threads: list[threading.Thread] = []
        store.change(LIMIT, busy)
        for thread in threads:
            thread.join()
        assert steps == 4, "then it is alone"
        record = stored(store)
        assert record["paused_until"] == 0
        assert "other" in record["sessions"]


class Machine:
    """A computer with an hour on it, that sleeps, is restarted, and has its clocks set."""

    def __init__(self, boot: str = "first") -> None:
        self.now = Moment(boot, HOUR, 1_800_000_000_000)

    def __call__(self) -> Moment:
        return self.now

    def waits(self, ms: int) -> None:
        self.now = Moment(self.now.boot, self.now.ticks + ms, self.now.wall + ms)

    def restarts(self, boot: str, *, off: int, up: int) -> None:
        self.now = Moment(boot, up, self.now.wall + off + up)

    def set_wall(self, ms: int) -> None:
        self.now = self.now._replace(wall=self.now.wall + ms)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def store(tmp_path: Path, machine: Machine) -> Iterator[SqliteLimits]:
    with SqliteLimits(tmp_path / "limits.db", clock=machine) as store:
        yield store


def test_the_clock_is_that_of_this_machine_and_does_not_go_back() -> None:
    first, second = moment(), moment()
    assert first.boot == second.boot
    assert 0 <= passed(first, second) < 1000


def test_windows_of_before_a_restart_still_count_after_it(store: SqliteLimits, machine: Machine) -> None:
    define(store, None, Window(2, 60))
    assert len(process(store, "before").wants(2)) == 2
    machine.waits(1000)
    machine.restarts("second", off=10_000, up=5_000)
    after = process(store, "after")
    assert after.wants() == []
    assert after.waits[0]["eta_ms"] == 60_000 + 301 - 16_000
    machine.waits(after.waits[0]["eta_ms"] - 1)
    assert process(store, "too_early").wants() == []
    machine.waits(1)
    assert process(store, "at_last").wants() == [1]


def test_where_the_wall_clock_went_back_a_restart_took_no_time(store: SqliteLimits, machine: Machine) -> None:
    define(store, None, Window(1, 60))
    process(store, "before").wants()
    machine.restarts("second", off=0, up=5_000)
    machine.set_wall(-HOUR)
    after = process(store, "after")
    assert after.wants() == []
    assert after.waits[0]["eta_ms"] == 60_000 + 301


def test_a_wall_clock_that_is_set_changes_nothing(store: SqliteLimits, machine: Machine) -> None:
    define(store, None, Window(1, 60))
    process(store, "me").wants()
    before = store.read(LIMIT)[1]
    machine.set_wall(HOUR)
    assert store.read(LIMIT)[1] == before
    machine.set_wall(-2 * HOUR)
    machine.waits(1)
    assert store.read(LIMIT)[1] == before + 1


def test_a_clock_that_goes_back_opens_no_window_again(store: SqliteLimits, machine: Machine) -> None:
    define(store, None, Window(1, 60))
    me = process(store, "me")
    me.wants()
    last = stored(store)["last_step_at"]
    machine.waits(-10_000)
    other = process(store, "other")
    assert other.wants() == []
    assert stored(store)["last_step_at"] >= last
    assert other.waits[0]["eta_ms"] == 60_000 + 301


@pytest.mark.parametrize(("up", "took"), [(5_000, 15_000), (HOUR + 5_000, 5_000)], ids=["noticed", "not noticed"])
def test_where_nobody_knows_the_boot_a_restart_never_takes_longer_than_it_did(
    tmp_path: Path, up: int, took: int
) -> None:
    machine = Machine(boot="")
    with SqliteLimits(tmp_path / "limits.db", clock=machine) as store:
        define(store, 1)
        before = store.read(LIMIT)[1]
        machine.restarts("", off=10_000, up=up)
        assert store.read(LIMIT)[1] == before + took


def test_after_a_restart_all_processes_agree_on_the_time(tmp_path: Path, store: SqliteLimits, machine: Machine) -> None:
    define(store, 1)
    machine.restarts("second", off=10_000, up=5_000)
    with SqliteLimits(tmp_path / "limits.db", clock=machine) as other:
        assert other.read(LIMIT) == store.read(LIMIT)
        process(other, "other").beats()
        machine.waits(1000)
        assert other.read(LIMIT) == store.read(LIMIT)


def test_processes_to_which_the_same_boot_has_two_names_share_the_time(
    tmp_path: Path, store: SqliteLimits, machine: Machine
) -> None:
    """As in containers that are given a name of their own for it."""
    define(store, None, Window(1, 60))
    process(store, "me").wants()
    began = store.read(LIMIT)[1]
    with SqliteLimits(tmp_path / "limits.db", clock=lambda: machine()._replace(boot="inside")) as inside:
        for _ in range(10):
            machine.waits(1000)
            process(inside, "other").beats()
            process(store, "me").beats()
        assert store.read(LIMIT)[1] == inside.read(LIMIT)[1] == began + 10_000


def test_what_one_process_does_another_one_sees(tmp_path: Path, store: SqliteLimits, machine: Machine) -> None:
    define(store, 1)
    with SqliteLimits(tmp_path / "limits.db", clock=machine) as other:
        me, you = process(store, "me"), process(other, "you")
        assert me.wants() == [1]
        assert you.wants() == []
        me.gives_back([1])
        assert you.asks() == [1]


def test_environments_in_one_file_do_not_see_each_other(tmp_path: Path, store: SqliteLimits) -> None:
    define(store, 1)
    with SqliteLimits(tmp_path / "limits.db", environment="other") as other:
        assert other.names() == []
        assert process(other, "me").exchanges()["status"] == "unknown"
        define(other, 2)
        define(other, 2, name="more")
        assert other.names() == ["api", "more"]
    assert store.names() == ["api"]
    assert limit_state.terms_at(stored(store), 0)["in_flight"] == 1


def test_a_step_that_another_process_overtook_is_taken_anew(tmp_path: Path, store: SqliteLimits) -> None:
    define(store, 1)
    seen = []
    with SqliteLimits(tmp_path / "limits.db") as other:

        def step(record: Record | None, raw: int) -> Record | None:
            assert record is not None
            seen.append(record["pause_note"])
            if len(seen) < 3:
                other.change(LIMIT, lambda inner, _: inner and {**inner, "pause_note": f"other {len(seen)}"})
            return {**record, "pause_note": record["pause_note"] + " and mine"}

        store.change(LIMIT, step)
    assert seen == ["", "other 1", "other 2"]
    assert stored(store)["pause_note"] == "other 2 and mine"


def test_of_two_that_make_a_limit_the_second_sees_that_of_the_first(tmp_path: Path, store: SqliteLimits) -> None:
    seen = []
    with SqliteLimits(tmp_path / "limits.db") as other:

        def step(record: Record | None, raw: int) -> Record | None:
            seen.append(record is None)
            if record is None:
                define(other, 7)
            return record or limit_state.new_record(raw)

        store.change(LIMIT, step)
    assert seen == [True, False]
    assert limit_state.terms_at(stored(store), 0)["in_flight"] == 7


def test_a_step_that_fails_changes_nothing(store: SqliteLimits) -> None:
    define(store, 1)
    before = store.read(LIMIT)

    def step(record: Record | None, raw: int) -> None:
        assert record is not None
        record["pause_note"] = "half"
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.change(LIMIT, step)
    assert store.read(LIMIT) == before
