"""Promises to those who watch a task: they see what its running attempt reported last, and nothing of any other."""

from __future__ import annotations

from forebay import ids
from forebay.clock import ManualClock
from forebay.model.exchange import MAX_PROGRESS, MAX_PROGRESS_NOTE, Progress
from forebay.model.query import Query
from forebay.model.task import Task
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, put
from forebay.testing.workers import Worker, job_of, lone


def report(task: Task, share: float, note: str = "") -> Progress:
    return Progress(task.id, task.claim_count, share, note)


def seen(ledger: Ledger, task: Task) -> tuple[float | None, str | None]:
    """Return the progress that both ways of reading a task show."""
    (one_of_many,) = ledger.get_many([task.id])
    found = ledger.get(task.id)
    assert found == one_of_many
    assert found is not None
    return found.progress, found.progress_note


class ProgressPromises(LedgerCase):
    def test_a_running_task_shows_what_its_attempt_reported_last(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), lone(2))
        first, second = worker.claim(2)
        assert seen(ledger, first) == (None, None)
        ledger.renew(worker.id, [], [report(first, 0.25, "page 1 of 4")])
        assert seen(ledger, first) == (0.25, "page 1 of 4")
        assert seen(ledger, second) == (None, None)
        ledger.renew(worker.id, [], [report(first, 0.5, 'page "2"\n\\ of 4 \N{SNOWMAN}'), report(second, 0.0)])
        assert seen(ledger, first) == (0.5, 'page "2"\n\\ of 4 \N{SNOWMAN}')
        assert seen(ledger, second) == (0.0, "")

    def test_a_chunk_shows_its_progress(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, job_of(2))
        task = worker.take()
        ledger.renew(worker.id, [], [report(task, 0.75)])
        assert seen(ledger, task) == (0.75, "")

    def test_an_exchange_keeps_progress_and_a_renewal_without_it_drops_it(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), lone(2))
        task = worker.take()
        ledger.renew(worker.id, [], [report(task, 0.5)])
        worker.take()
        assert seen(ledger, task) == (0.5, "")
        ledger.renew(worker.id)
        assert seen(ledger, task) == (None, None)

    def test_progress_ends_with_its_attempt(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), lone(2), lone(3))
        done, failed, released = worker.claim(3)
        ledger.renew(worker.id, [], [report(each, 0.5) for each in (done, failed, released)])
        worker.complete(done)
        worker.fail(failed)
        worker.release(released, started=True)
        assert [seen(ledger, each) for each in (done, failed, released)] == [(None, None)] * 3

    def test_the_next_attempt_does_not_show_the_progress_of_the_last(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1))
        task = worker.take()
        late = report(task, 0.9, "almost")
        ledger.renew(worker.id, [], [late])
        worker.release(task, started=True)
        again = worker.take()
        assert again.id == task.id
        assert seen(ledger, again) == (None, None)
        ledger.renew(worker.id, [], [late])
        assert seen(ledger, again) == (None, None)
        ledger.renew(worker.id, [], [late, report(again, 0.1)])
        assert seen(ledger, again) == (0.1, "")

    def test_a_session_that_lost_a_task_shows_no_progress_in_it(
        self, ledger: Ledger, clock: ManualClock, worker: Worker, other: Worker
    ) -> None:
        put(ledger, lone(1))
        task = worker.take()
        clock.advance(14)
        ledger.renew(other.id)
        clock.advance(2)
        assert ledger.rescue() == [task.id]
        clock.advance(3600)
        again = other.take()
        assert again.id == task.id
        assert not ledger.renew(worker.id, [], [report(task, 0.9)]).alive
        ledger.renew(other.id, [], [report(again, 0.2)])
        ledger.renew(worker.id, [], [report(again, 0.9)])
        assert seen(ledger, again) == (0.2, "")

    def test_progress_is_rounded_down_and_its_note_is_cut(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n) for n in range(5)))
        shares = [0.99999, 1.0, 0.12349, 0.57, 1e-9]
        notes = ["n" * 5000, "a\0b", "\ud800", "", "m" * MAX_PROGRESS_NOTE]
        tasks = worker.claim(5)
        reports = [report(*each) for each in zip(tasks, shares, notes, strict=True)]
        assert ledger.renew(worker.id, [], reports).alive
        told = [seen(ledger, task) for task in tasks]
        assert [share for share, _ in told] == [0.9999, 1.0, 0.1234, 0.57, 0.0]
        assert max(len(note or "") for _, note in told) == MAX_PROGRESS_NOTE
        assert [note for _, note in told][1:4] == ["a\N{REPLACEMENT CHARACTER}b", "?", ""]

    def test_of_too_many_reports_the_last_are_kept(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), lone(2))
        first, last = worker.claim(2)
        padding = [Progress(ids.random_id(), 1, 0.5) for _ in range(MAX_PROGRESS - 1)]
        ledger.renew(worker.id, [], [report(first, 0.5), *padding, report(last, 0.5)])
        assert [seen(ledger, each)[0] for each in (first, last)] == [None, 0.5]

    def test_progress_is_neither_in_lists_nor_in_sessions_nor_with_those_who_hold_the_task(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        put(ledger, lone(1))
        task = worker.take()
        ledger.renew(worker.id, [], [report(task, 0.5)])
        assert [each.progress for each in ledger.list_tasks(Query()).items] == [None]
        assert [each.progress for each in ledger.sessions()] == [()]
        assert [each.progress for each in ledger.mine(worker.id)] == [None]
