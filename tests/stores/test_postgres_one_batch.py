"""An exchange of the PostgreSQL ledger that guesses, in one batch, keeps the promises also where its guess is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import psycopg
import pytest

from forebay.clock import Clock, ManualClock
from forebay.model.exchange import Want
from forebay.model.job import NewJob
from forebay.model.outcome import Completed
from forebay.model.task import NewTask, Status
from forebay.stores.base import Ledger
from forebay.stores.postgres.driver import Driver, Message
from forebay.stores.postgres.ledger import PostgresLedger
from forebay.stores.sql.lines import Guess
from forebay.testing.conformance.canceling import CancelPromises
from forebay.testing.conformance.case import job_row, put, stored
from forebay.testing.conformance.claiming import ClaimPromises
from forebay.testing.conformance.fencing import FencePromises
from forebay.testing.conformance.finishing import JobPromises
from forebay.testing.conformance.living import SessionPromises
from forebay.testing.conformance.pausing import PausePromises
from forebay.testing.conformance.repeating import RepeatPromises
from forebay.testing.conformance.sharing import FairnessPromises
from forebay.testing.conformance.waiting import WaitPromises
from forebay.testing.workers import Worker, action, job_of, lone
from tests.limits.ground import until
from tests.servers.fresh import empty_schema, fresh_schema
from tests.servers.server import Server

_GATED = """
CREATE OR REPLACE FUNCTION gated() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER gated AFTER INSERT ON forebay_running FOR EACH STATEMENT EXECUTE FUNCTION gated();
"""


# How many wait for whoever asks this, or for somebody who does.
_BEHIND = """
WITH RECURSIVE stuck (pid) AS (
    SELECT pg_backend_pid()
    UNION SELECT a.pid FROM pg_stat_activity AS a, stuck WHERE stuck.pid = ANY (pg_blocking_pids(a.pid))
)
SELECT count(*) - 1 FROM stuck
"""


class Bold(Guess):
    """Takes every lane for one of lone tasks, and counts how often that went well."""

    right = 0

    def is_lone(self, lane: str) -> bool:
        return True

    def lone(self, lane: str) -> None:
        self.right += 1
        super().lone(lane)


@pytest.fixture(scope="module")
def address(postgres_server: Server) -> Iterator[str]:
    with fresh_schema(postgres_server) as address, PostgresLedger(address) as ledger:
        ledger.sessions()
        yield address


def test_a_lone_task_is_submitted_in_one_round_trip(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by key as well; what is there already, or is for later, takes a second look."""
    empty_schema(address)
    sent: list[int] = []
    send = Driver._send

    def counted(driver: Driver, messages: list[Message]) -> list[list[object]]:
        sent.append(len(messages))
        return send(driver, messages)

    monkeypatch.setattr(Driver, "_send", counted)
    with PostgresLedger(address) as ledger:
        for new in (lone(1), lone(2, idempotency_key="once")):
            assert [each.outcome for each in ledger.submit([new])] == ["created"]
            assert sent.pop() == 2, "the task, and the wake-up"
            assert sent == []
        for again in (lone(2, idempotency_key="once"), lone(3, idempotency_key="once")):
            (answer,) = ledger.submit([again])
            assert answer.outcome == ("existing" if again.payload == 2 else "conflict")
        sent.clear()
        ledger.submit([lone(4, delay_s=60.0)])
        assert len(sent) == 2


@pytest.mark.slow
class TestBoldGuesses(
    ClaimPromises,
    WaitPromises,
    FairnessPromises,
    FencePromises,
    RepeatPromises,
    SessionPromises,
    CancelPromises,
    PausePromises,
    JobPromises,
):
    many = 300

    @pytest.fixture(autouse=True)
    def _empty(self, address: str) -> None:
        empty_schema(address)
        self._address = address

    def make_ledger(self, clock: Clock) -> PostgresLedger:
        ledger = PostgresLedger(self._address, clock=clock)
        self.guess = ledger._guess = Bold()
        return ledger

    def reopen(self, ledger: Ledger, clock: Clock) -> PostgresLedger:
        ledger.close()
        return self.make_ledger(clock)

    def test_lone_tasks_end_and_are_claimed_in_one_batch(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *map(lone, range(6)))
        first = worker.claim(2)
        assert self.guess.right == 1
        reply = worker.exchange(settles=[worker.ending(task, Completed()) for task in first], wants=[Want("work", 2)])
        assert self.guess.right == 2
        assert [task.payload for task in reply.claims] == [2, 3]
        assert [one.fenced for one in reply.settled] == [False, False]
        assert reply.lanes == {"work": ("work",)}
        assert [stored(ledger, task.id).status for task in first] == [Status.COMPLETED] * 2
        assert self.guess.seqs.keys() == {task.id for task in reply.claims}

    @pytest.mark.parametrize("unit", [lambda: [lone(1), lone(2)], lambda: [job_of(2)]], ids=["lone tasks", "a job"])
    def test_a_repeat_that_waits_for_its_first_try_gets_the_same_claims(
        self, ledger: Ledger, worker: Worker, clock: ManualClock, unit: Callable[[], list[NewTask | NewJob]]
    ) -> None:
        """The connection was lost while the server was still at work on it."""
        ledger.submit(unit())
        settles = [worker.ending(worker.take(), Completed())]
        worker.n += 1
        self.guess.due = True  # nothing is tried in one batch
        with (
            psycopg.connect(self._address, autocommit=True) as gate,
            closing(self.make_ledger(clock)) as second,
            ThreadPoolExecutor(2) as threads,
        ):
            self.guess.due = True
            second.sessions()
            gate.execute(_GATED)
            gate.execute("SELECT pg_advisory_lock(7)")

            def waits(count: int) -> None:
                until(lambda: gate.execute(_BEHIND).fetchone() == (count,))

            try:
                tries = []
                for count, each in enumerate((ledger, second), start=1):
                    exchange = partial(each.exchange, settles=settles, wants=[Want("work", 5)])
                    tries.append(threads.submit(exchange, worker.id, worker.n))
                    waits(count)
            finally:
                gate.execute("SELECT pg_advisory_unlock(7)")
            first, again = (each.result() for each in tries)
            gate.execute("DROP TRIGGER gated ON forebay_running")
        assert len(first.claims) == 1
        assert [task.id for task in again.claims] == [task.id for task in first.claims]

    def test_a_task_of_a_job_in_the_line_is_counted_by_its_job(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(0))
        worker.take()
        job = job_of(2)
        ledger.submit([job])
        right = self.guess.right
        assert len(worker.claim(5)) == 2
        assert self.guess.right == right, "the guess was wrong"
        assert job_row(ledger, job.id).running_count == 2

    def test_a_pause_that_came_since_is_kept(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *map(lone, range(3)))
        worker.take()
        ledger.pause("work", action())
        assert worker.claim(2) == ()
        ledger.resume("work", action())
        assert len(worker.claim(2)) == 2

    def test_delayed_tasks_join_a_line_that_is_never_empty(
        self, ledger: Ledger, worker: Worker, clock: ManualClock
    ) -> None:
        late = lone("late", delay_s=5.0)
        put(ledger, *map(lone, range(9)), late)
        worker.take()
        clock.advance(6.0)
        assert [len(worker.claim(1)) for _ in range(3)] == [1, 1, 1]
        assert stored(ledger, late.id).tag is not None, "it stands in line"

    def test_what_another_has_locked_is_looked_at_again(self, ledger: Ledger, worker: Worker, other: Worker) -> None:
        """Such as a task that was taken away: its settle is fenced, and the claims of that number are kept."""
        put(ledger, *map(lone, range(4)))
        task = worker.take()
        ledger.cancel([task.id], action())
        worker.release(task)
        again = other.take()
        assert again.id != task.id
        reply = worker.exchange(settles=[worker.ending(task, Completed())], wants=[Want("work", 1)])
        assert [one.fenced for one in reply.settled] == [True]
        assert len(reply.claims) == 1
        assert [each.id for each in ledger.mine(worker.id)] == [reply.claims[0].id]
