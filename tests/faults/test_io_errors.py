"""The disk fails once, or is full for a while, at any step of a path: whoever repeats the call gets through."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from chaos import checker, evidence
from chaos.client import Client
from chaos.journal import Journal
from forebay.clock import ManualClock
from forebay.stores.sqlite.ledger import SqliteLedger
from tests.faults import power
from tests.faults.path import walk

EVERY_STEP = bool(os.environ.get("FOREBAY_FUZZ"))
SAMPLED = 40
ROOM_AFTER = 6

Fault = Callable[[int, power.Step], Exception | None]


def fails_once(at: int) -> Fault:
    return lambda number, _: apsw.IOError("the disk failed") if number == at else None


def sync_fails_once(at: int) -> Fault:
    """At the first sync from there on: what SQLite wrote before may or may not be on the disk."""
    spent: list[int] = []

    def fault(number: int, step: power.Step) -> Exception | None:
        if spent or number < at or step.verb != "sync":
            return None
        spent.append(number)
        return apsw.IOError("the disk failed")

    return fault


def full_for_a_while(at: int) -> Fault:
    def fault(number: int, step: power.Step) -> Exception | None:
        full = at <= number < at + ROOM_AFTER and step.verb in {"write", "create"}
        return apsw.FullError("the disk is full") if full else None

    return fault


def walked(folder: Path, fault: Fault) -> tuple[int, checker.Verdict, set[str]]:
    """The path with a fault on it: how many steps it took, what the judge says, and the errors that callers saw."""
    (folder / "logs").mkdir(parents=True)
    file = folder / "ledger.db"
    disk = power.Disk(fault=fault)
    clock = ManualClock()
    journal = Journal(folder / "logs" / "w-0.jsonl")
    with power.vfs(disk) as vfs:
        ledger = SqliteLedger(file, clock=clock, vfs=vfs)
        walk(Client(ledger, journal, "walk", seed=0, loses=False), clock)
        disk.fault = lambda _number, _step: None
        ledger.close()
    journal.close()
    errors = {record["kind"] for record in evidence.gather(file, folder / "logs").errors}
    return len(disk.steps), checker.judge(file, folder / "logs"), errors


# apsw prints the errors of a Python VFS that SQLite itself can do without, as when it turns on the write-ahead log.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", [fails_once, sync_fails_once, full_for_a_while])
def test_a_disk_that_fails_costs_an_error_and_nothing_else(fault: Callable[[int], Fault], tmp_path: Path) -> None:
    steps, verdict, errors = walked(tmp_path / "sound", lambda _number, _step: None)
    assert verdict.violations == []
    assert errors == set()
    numbers = range(1, steps + 1)
    seen: set[str] = set()
    for at in numbers if EVERY_STEP else sorted(random.Random(7).sample(numbers, SAMPLED)):
        _, verdict, errors = walked(tmp_path / str(at), fault(at))
        assert [text for text in verdict.violations if " failed with " not in text] == [], f"at step {at}"
        seen |= errors
    assert seen
    assert seen <= {"MaybeApplied", "StoreFull", "StoreUnreachable", "StoreBusy"}
