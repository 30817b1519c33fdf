"""A short run by hand in which everything happens once: a rescue, a late settle, a retry, a release, a merge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos import orders
from chaos.client import Client
from chaos.journal import Journal
from forebay import ids
from forebay.clock import ManualClock
from forebay.model.exchange import Release, Reply, Session, Settle, Want
from forebay.model.outcome import Completed, Failed, Outcome, Rescheduled
from forebay.model.task import Task
from forebay.rules.settlement import decide
from forebay.stores.base import Ledger
from forebay.stores.sqlite.ledger import SqliteLedger

LONE, JOB = orders.key("by-hand/1"), orders.key("by-hand/2", chunks=2)
LEASE_S = 15.0


class Hand:
    """One session, with a journal of its own."""

    def __init__(self, ledger: Ledger, clock: ManualClock, journal: Journal, name: str) -> None:
        self.client = Client(ledger, journal, name, seed=0, loses=False)
        self._clock = clock
        self._n = 0
        self.session_id = ids.random_id()
        self.client.open_session(Session(id=self.session_id, worker=name, lease_s=LEASE_S))

    def exchange(self, *settles: Settle, release: Task | None = None, count: int = 10) -> Reply:
        self._n += 1
        releases = [Release(release.id, release.claim_count, release.job_id)] if release else []
        wants = [Want(orders.WORK, count), Want(orders.MERGE, count)]
        return self.client.exchange(self.session_id, self._n, settles, releases, wants)

    def ended(self, task: Task, outcome: Outcome | None = None) -> Settle:
        result = json.dumps({"token": task.claim_count, "session": task.session_id})
        return decide(task, outcome or Completed(result_json=result), now=self._clock.now(), jitter=0.0)


Wrap = Callable[[Ledger], Ledger]


@contextmanager
def hands(folder: Path, count: int, wrap: Wrap = lambda ledger: ledger) -> Iterator[tuple[ManualClock, list[Hand]]]:
    """Sessions on one new ledger, with a clock that they share; leaves behind what a run of the hammer does."""
    (folder / "logs").mkdir(parents=True)
    clock = ManualClock()
    ledger = wrap(SqliteLedger(folder / "ledger.db", clock=clock))
    journals = [Journal(folder / "logs" / f"w{number}-0.jsonl") for number in range(count)]
    try:
        yield clock, [Hand(ledger, clock, journal, f"w{number}") for number, journal in enumerate(journals)]
    finally:
        ledger.close()
        for journal in journals:
            journal.close()


def play(folder: Path, wrap: Wrap = lambda ledger: ledger) -> None:
    with hands(folder, 2, wrap) as (clock, (late, heir)):
        late.client.submit([LONE])
        (frozen,) = late.exchange().claims
        clock.advance(LEASE_S / 2)
        heir.client.renew(heir.session_id, [])
        clock.advance(LEASE_S / 2)
        heir.client.rescue()
        (lone,) = heir.exchange().claims
        late.exchange(late.ended(frozen))
        heir.client.submit([JOB])
        first, second = heir.exchange(heir.ended(lone)).claims
        clock.advance(1)
        heir.exchange(heir.ended(first, Rescheduled(delay_s=0.0)), release=second, count=0)
        again = {task.chunk_index: task for task in heir.exchange().claims}
        retried = heir.ended(again[0], Failed(error_class="internal_error", text="once", delay_s=0.0))
        (last,) = heir.exchange(heir.ended(again[1]), retried).claims
        (merge,) = heir.exchange(heir.ended(last)).claims
        heir.exchange(heir.ended(merge))
        heir.client.close_session(heir.session_id)
