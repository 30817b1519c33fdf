"""The disk of a file of limits fails, or the power is cut, at any step: records stay whole, and a loss is found out."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw
import pytest

from forebay.errors import StoreError
from forebay.model.limit import Window
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.case import problems, stored
from forebay.testing.limits.process import LIMIT
from tests.faults import power
from tests.faults.limit_children import define, process

EVERY_STEP = bool(os.environ.get("FOREBAY_FUZZ"))
SAMPLED = 40
ROUNDS = 8
T = TypeVar("T")


def sampled(count: int) -> list[int]:
    numbers = range(1, count + 1)
    return [*numbers] if EVERY_STEP else sorted(random.Random(7).sample(numbers, min(SAMPLED, count)))


def at_last(call: Callable[[], T]) -> T:
    """Repeated as often as a disk that fails once, or for a short while, asks for."""
    for _ in range(10):
        with suppress(StoreError):
            return call()
    return call()


def walk(store: SqliteLimits, seen: Callable[[int], None] = lambda version: None) -> None:
    """Calls come and go, and the log is written back in between."""
    at_last(lambda: define(store, 2, Window(100, 3600)))
    me = process(store, "me")
    for number in range(ROUNDS):
        me.joins()
        at_last(me.exchanges)
        seen(me.version)
        at_last(me.beats)
        seen(me.version)
        assert len(me.calls) == 1
        me.ends([*me.calls])
        at_last(me.exchanges)
        seen(me.version)
        if number % 3 == 2:
            at_last(lambda: _write_back(store))


def _write_back(store: SqliteLimits) -> None:
    with store._opened().main.turn() as db:
        db.wal_checkpoint()


# apsw prints the errors of a Python VFS that SQLite itself can do without, as when it turns on the write-ahead log.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("error", "steps"), [(apsw.IOError, 1), (apsw.FullError, 6)], ids=["fails once", "is full for a while"]
)
def test_a_disk_that_fails_costs_an_error_and_no_call_is_granted_twice(
    error: type[apsw.Error], steps: int, tmp_path: Path
) -> None:
    def walked(folder: Path, at: int) -> int:
        folder.mkdir()
        disk = power.Disk(fault=lambda number, _: error("no") if at <= number < at + steps else None)
        with power.vfs(disk) as vfs:
            with SqliteLimits(folder / "limits.db", vfs=vfs) as store:
                walk(store)
                disk.fault = lambda _number, _step: None
            with SqliteLimits(folder / "limits.db") as store:
                record = stored(store)
        assert problems(record) == []
        assert [log["sum"] for log in record["window_logs"].values()] == [ROUNDS]
        return len(disk.steps)

    for at in sampled(walked(tmp_path / "sound", at=-10)):
        walked(tmp_path / str(at), at)


@pytest.mark.slow
def test_a_power_cut_leaves_a_whole_record_or_none_and_who_remembers_more_is_held_back(tmp_path: Path) -> None:
    disk, seen = power.Disk(), [(0, 0)]
    (tmp_path / "first").mkdir()
    with power.vfs(disk) as vfs, SqliteLimits(tmp_path / "first" / "limits.db", vfs=vfs) as store:
        walk(store, lambda version: seen.append((len(disk.steps), version)))
    chosen, chance, platter, forgot = sampled(len(disk.steps)), random.Random(7), power.Platter(), 0
    for number, step in enumerate(disk.steps, 1):
        platter.apply(step)
        if number not in chosen:
            continue
        version = max(version for at, version in seen if at <= number)
        for left in (platter.survivors(), platter.written(), platter.torn(chance)):
            folder = tmp_path / f"{number}-{chance.random()}"
            power.put(left, folder)
            forgot += _forgot(folder / "limits.db", version)
    assert forgot > 0


def _forgot(path: Path, version: int) -> bool:
    """Whether the file knows less than a process has seen, and is found out."""
    with SqliteLimits(path) as store:
        record, _ = store.read(LIMIT)
        if record is None:
            return True
        assert problems(record) == []
        behind = record["version"] < version
        survivor = process(store, "survivor")
        survivor.version = version
        assert survivor.wants() == ([] if behind else [1])
        return behind
