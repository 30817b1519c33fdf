"""Several processes begin a file at the same instant, and a backup is taken while others write."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from forebay.model.task import NewTask
from forebay.stores.sqlite.ledger import SqliteLedger
from forebay.testing.invariants import problems
from forebay.testing.workers import job_of
from tests.faults import children

OPENER = """
tell("ready")
for line in sys.stdin:
    ledger = SqliteLedger(line.strip())
    task = NewTask(kind="work")
    tell([task.id, attempt(lambda: ledger.submit([task]))])
    ledger.close()
"""
WRITER = """
from forebay.testing.workers import Worker, job_of
ledger = SqliteLedger(path)
worker = Worker(ledger, SystemClock())
tell("ready")
while True:
    ledger.submit([job_of(3)])
    for task in worker.claim(5) + worker.claim(5, "merge"):
        worker.complete(task)
"""
PROCESSES = 8
ROUNDS = 12


def say(child: subprocess.Popen[str], text: str) -> None:
    assert child.stdin is not None
    child.stdin.write(f"{text}\n")
    child.stdin.flush()


@pytest.mark.slow
def test_eight_processes_begin_a_file_together(tmp_path: Path) -> None:
    openers = [children.start(OPENER, tmp_path) for _ in range(PROCESSES)]
    try:
        for child in openers:
            assert children.told(child) == "ready"
        for number in range(ROUNDS):
            file = tmp_path / f"new-{number}" / "ledger.db"
            for child in openers:
                say(child, str(file))
            answers = [children.told(child) for child in openers]
            assert [error for _, error in answers] == ["ok"] * PROCESSES
            ledger = SqliteLedger(file)
            assert all(ledger.get(task_id) for task_id, _ in answers)
            assert ledger.check() == []
            ledger.close()
    finally:
        for child in openers:
            children.end(child)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_backup_under_fire_is_a_sound_ledger_with_all_that_was_acknowledged_before(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    # Large enough for several steps: a copy that begins anew at each commit would never come to its end.
    ledger.submit([NewTask(kind="ballast", payload="x" * 500_000) for _ in range(40)])
    writers = [children.start(WRITER, tmp_path / "ledger.db") for _ in range(2)]
    try:
        for child in writers:
            assert children.told(child) == "ready"
        before = 0
        for number in range(3):
            accepted = ledger.submit([job_of(2)])[0].id
            before = sum(ledger.count().values())
            began_at = time.monotonic()
            ledger.backup(tmp_path / f"copy-{number}.db")
            assert time.monotonic() - began_at < 60
            copy = SqliteLedger(tmp_path / f"copy-{number}.db")
            assert copy.get_job(accepted) is not None
            assert sum(copy.count().values()) >= before
            assert problems(copy) == []
            copy.close()
            time.sleep(0.2)
        after = sum(ledger.count().values())
    finally:
        for child in writers:
            children.end(child)
        ledger.close()
    assert after > before, "the writers wrote on"
