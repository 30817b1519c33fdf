"""Forebay's side: one kind that does nothing, async or blocking, in a ledger that every commit of is synced."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from benchmarks.work import marks
from forebay import Forebay
from forebay.stores.sqlite.ledger import SqliteLedger

LEDGER = "BENCH_FILE"
BLOCKING = "BENCH_BLOCKING"
_BATCH = 1000
_marks = marks.of_process()
app = Forebay(SqliteLedger(Path(os.environ[LEDGER]))) if LEDGER in os.environ else Forebay()


def _note(index: int) -> bool:
    if _marks is not None:
        _marks.note(index)
    return True


async def noop(_context: object, index: int) -> bool:
    return _note(index)


def blocking_noop(_context: object, index: int) -> bool:
    return _note(index)


app.task("noop")(blocking_noop if BLOCKING in os.environ else noop)


def work(concurrency: int, processes: int) -> None:
    app.work(concurrency=concurrency, processes=processes, name="bench")


def submit(client: Forebay, first: int, last: int) -> None:
    for start in range(first, last, _BATCH):
        client.submit_many("noop", [{"index": index} for index in range(start, min(start + _BATCH, last))])


def fill(file: Path, count: int) -> None:
    with Forebay(SqliteLedger(file)) as client:
        submit(client, 0, count)


class Recorded:
    """Looks into the file from outside, after the last handler has begun."""

    def __init__(self, file: Path) -> None:
        self._db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)

    def complete(self, _count: int) -> bool:
        return not self._db.execute("SELECT 1 FROM tasks WHERE status IN ('pending', 'running') LIMIT 1").fetchall()

    def verified(self, count: int) -> bool:
        """Every task completed, by one attempt, of one claim."""
        asked = "SELECT count(*), sum(status = 'completed' AND attempt_count = 1 AND claim_count = 1) FROM tasks"
        tasks = self._db.execute(asked).fetchone()
        history = self._db.execute("SELECT count(*), count(DISTINCT task_seq), sum(settled) FROM history").fetchone()
        results = self._db.execute("SELECT count(*) FROM results").fetchone()
        return tasks == (count, count) and history == (count, count, count) and results == (count,)

    def close(self) -> None:
        self._db.close()
