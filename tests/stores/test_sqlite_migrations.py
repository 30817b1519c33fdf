"""A file of an older schema is brought up to date when it is opened, with all that is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.clock import ManualClock
from forebay.stores.sqlite import schema
from forebay.stores.sqlite.connection import connect
from forebay.stores.sqlite.ledger import SqliteLedger
from forebay.testing.workers import Worker, action

NEWEST = max(schema.migrations())
OLD_TASKS = """
INSERT INTO tasks (seq, id, kind, lane, tenant, status, role, generation, priority, tag, timeout_s, max_retries,
                   created_at, available_at)
VALUES (1, 'aaaaaaaaaaaaaaaaaaaaaaaaaa', 'work', 'work', 'default', 'pending', 'lone', 1, 0, 1, 60, 3, 1, 1),
       (2, 'bbbbbbbbbbbbbbbbbbbbbbbbbb', 'work', 'work', 'default', 'pending', 'lone', 1, 0, NULL, 60, 3, 1, 1e10);
INSERT INTO payloads VALUES (1, '"ready"'), (2, '"later"');
"""


def older(path: Path, number: int) -> None:
    """A file as the version with that schema left it."""
    db = connect(path)
    for each in range(1, number + 1):
        db.execute(schema.migrations()[each])
    db.pragma("user_version", number)
    db.pragma("application_id", schema.APPLICATION_ID)
    db.execute(OLD_TASKS)
    db.close()


def tables(path: Path) -> tuple[int, list[str]]:
    db = connect(path)
    found = [row[0] for row in db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")]
    version = schema.version(db, path)
    db.close()
    return version, found


@pytest.mark.parametrize("number", range(1, NEWEST))
def test_an_older_file_is_used_as_if_it_were_new(tmp_path: Path, number: int) -> None:
    older(tmp_path / "old.db", number)
    clock = ManualClock()
    with SqliteLedger(tmp_path / "old.db", clock=clock) as ledger, SqliteLedger(tmp_path / "new.db") as new:
        assert [(lane.ready_count, lane.later_count) for lane in ledger.lanes()] == [(1, 1)]
        worker = Worker(ledger, clock)
        ledger.pause("work", action())
        assert worker.claim(9) == ()
        ledger.resume("work", action())
        assert [task.payload for task in worker.claim(9)] == ["ready"]
        assert (ledger.check(), new.check()) == ([], [])
    assert tables(tmp_path / "old.db") == tables(tmp_path / "new.db")
    assert tables(tmp_path / "old.db")[0] == NEWEST
