"""Promises of the records: history, events, audit and usage say what happened, once each."""

from __future__ import annotations

import pytest

from forebay import ids
from forebay.clock import ManualClock
from forebay.errors import BadInput
from forebay.model.job import Event
from forebay.model.outcome import Completed, Failed, Rescheduled
from forebay.model.task import Status
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, everything, job_row, put, stored
from forebay.testing.workers import Worker, action, blob, job_of, lone, usage


class RecordPromises(LedgerCase):
    def test_each_attempt_leaves_one_row_of_history(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        first = worker.take()
        clock.advance(2)
        worker.settle(first, Failed(error_class="timeout", text="60 s", traceback="at line 1", delay_s=5))
        (failed,) = ledger.history(task_id)
        assert (failed.task_id, failed.token, failed.attempt) == (task_id, 1, 1)
        assert (failed.session_id, failed.worker, failed.settled) == (worker.id, worker.name, True)
        assert (failed.claimed_at, failed.ended_at) == (clock.now() - 2, clock.now())
        assert (failed.outcome, failed.status, failed.available_at) == ("retried", Status.PENDING, clock.now() + 5)
        assert (failed.error_class, failed.error_text, failed.traceback) == ("timeout", "60 s", "at line 1")
        assert (failed.retry_count, failed.reschedule_count) == (1, 0)
        clock.advance(5)
        worker.settle(worker.take(), Rescheduled(delay_s=0, text="busy", error_class="rate_limited"))
        worker.complete(worker.take(), result_blob=blob(1))
        first_row, second, third = ledger.history(task_id)
        assert first_row == failed
        assert (second.outcome, second.token, second.attempt, second.reschedule_count) == ("rescheduled", 2, 2, 1)
        assert (second.error_class, second.error_text, second.available_at) == ("rate_limited", "busy", clock.now())
        assert (third.outcome, third.status, third.available_at) == ("completed", Status.COMPLETED, None)
        assert stored(ledger, task_id).attempt_count == 3

    def test_a_claim_alone_leaves_no_history(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.take()
        assert ledger.history(task_id) == []
        assert ledger.history(ids.random_id()) == []

    def test_a_released_claim_does_not_count_as_an_attempt(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.release(worker.take())
        worker.release(worker.take())
        worker.complete(worker.take())
        assert [(past.token, past.attempt) for past in ledger.history(task_id)] == [(3, 1)]

    def test_a_settled_task_shows_its_result_and_its_last_error(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        done, failed = put(ledger, lone("done"), lone("failed"))
        first, second = worker.claim(2)
        clock.advance(3)
        worker.settle(first, Completed(result_json='{"pages":[1,2]}', result_blob=blob(1)))
        worker.fail(second, "encrypted", "needs a password")
        task = stored(ledger, done)
        assert (task.result, task.result_blob, task.finished_at) == ({"pages": [1, 2]}, blob(1), clock.now())
        task = stored(ledger, failed)
        assert (task.error_class, task.error_text) == ("encrypted", "needs a password")
        assert task.result is None

    def test_foreign_error_texts_are_stored_clean_and_bounded(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        hostile = "a\0b \ud800 \N{RIGHT-TO-LEFT OVERRIDE}'; DROP TABLE tasks; --" + "x" * 99_999
        worker.fail(worker.take(), "bug", hostile)
        text = stored(ledger, task_id).error_text or ""
        assert text.startswith("a\N{REPLACEMENT CHARACTER}b ? \N{RIGHT-TO-LEFT OVERRIDE}'; DROP TABLE")
        assert len(text) == 4000
        assert [past.error_text for past in ledger.history(task_id)] == [text]

    def test_events_are_numbered_without_gaps(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        new = job_of(2)
        put(ledger, new, job_of(1))
        clock.advance(1)
        first, second = (task for task in worker.claim(9) if task.job_id == new.id)
        notes = (Event(name="page_read", fields={"page": 1, "words": ["ä", None, 1.5]}), Event(name="page_read"))
        worker.settle(first, Completed(events=notes))
        worker.fail(second)
        ledger.retry([new.id], action())
        events = ledger.events(new.id)
        assert [event.number for event in events] == [*range(1, len(events) + 1)]
        assert job_row(ledger, new.id).event_count == len(events)
        assert events[0].at == clock.now() - 1
        assert {event.at for event in events[1:]} == {clock.now()}
        told = [event for event in events if event.name == "page_read"]
        assert dict(told[0].fields) == {"page": 1, "words": ["ä", None, 1.5]}
        assert dict(told[1].fields) == {}

    def test_events_are_read_on_from_a_number(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        worker.settle(worker.take(), Completed(events=tuple(Event(name=f"step-{n}") for n in range(20))))
        events = ledger.events(new.id)
        assert ledger.events(new.id, after=3) == events[3:]
        assert ledger.events(new.id, after=3, most=5) == events[3:8]
        assert ledger.events(new.id, after=10_000) == []
        assert ledger.events(ids.random_id()) == []

    def test_news_are_those_of_each_asked_job_in_the_order_of_asking(self, ledger: Ledger, worker: Worker) -> None:
        new = [job_of(1) for _ in range(3)]
        put(ledger, *new)
        for task in worker.claim(3):
            worker.settle(task, Completed(events=tuple(Event(name=f"step-{n}") for n in range(20))))
        first, second, third = (each.id for each in new)
        whole = {job_id: ledger.events(job_id) for job_id in (first, second, third)}
        asked = [(third, 7), (first, 0), (ids.random_id(), 0), (second, 10_000), (third, 0), (first, 0)]
        found = ledger.news(asked)
        assert found == [whole[third][7:], whole[first], [], [], whole[third], whole[first]]
        assert [len(events) > 20 for events in found] == [False, True, False, False, True, True]
        assert ledger.news(asked, most=5) == [events[:5] for events in found]
        assert ledger.news([]) == []

    def test_the_events_of_a_lone_task_have_no_job_to_be_in(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        assert not worker.settle(worker.take(), Completed(events=(Event(name="seen"),))).fenced
        assert ledger.events(task_id) == []

    def test_each_action_leaves_one_audit_row(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        asked = [action(who, note=f"by {who}", tenant="acme") for who in ("ann", "bob", "cyd", "dan", "eve", "fay")]
        ledger.cancel([task_id], asked[0])
        clock.advance(1)
        ledger.retry([task_id], asked[1])
        ledger.cancel([task_id], asked[2])
        ledger.retry([task_id], asked[3], force=True)
        worker.complete(worker.take())
        ledger.lose_result(task_id, None, asked[4])
        ledger.delete([task_id], asked[5])
        rows = ledger.audit()
        assert [row.verb for row in rows] == ["delete", "lose_result", "force", "cancel", "retry", "cancel"]
        assert [row.id for row in rows] == [each.id for each in reversed(asked)]
        assert (rows[-1].who, rows[-1].tenant, rows[-1].note) == ("ann", "acme", "by ann")
        assert (rows[-1].targets, rows[-1].target_count) == ((task_id,), 1)
        assert (rows[-1].at, rows[0].at) == (clock.now() - 1, clock.now())
        assert ledger.audit(most=2) == rows[:2]

    def test_a_bulk_leaves_one_audit_row_with_its_size(self, ledger: Ledger) -> None:
        task_ids = put(ledger, *(lone(n) for n in range(self.many // 10)))
        answer = ledger.cancel(task_ids, asked := action())
        assert [acted.id for acted in answer] == task_ids
        (row,) = ledger.audit()
        assert (row.id, row.target_count) == (asked.id, self.many // 10)
        assert row.targets == tuple(task_ids[: len(row.targets)])
        assert row.targets

    def test_the_audit_of_one_target_is_what_was_done_to_it(self, ledger: Ledger) -> None:
        task_ids = put(ledger, *(lone(n) for n in range(150)))
        (other,) = put(ledger, lone("other"))
        asked = [action(who) for who in ("ann", "bob", "cyd", "dan")]
        ledger.cancel([other], asked[0])
        ledger.cancel(task_ids, asked[1])
        ledger.cancel(task_ids[-1:], asked[2])  # refused: it is canceled
        ledger.retry(task_ids[-1:], asked[3])
        assert [row.who for row in ledger.audit(target=task_ids[-1])] == ["dan", "bob"]
        assert [row.who for row in ledger.audit(target=task_ids[-1], most=1)] == ["dan"]
        assert [row.who for row in ledger.audit(target=task_ids[0])] == ["bob"]
        assert [row.who for row in ledger.audit(target=other)] == ["ann"]
        assert ledger.audit(target=ids.random_id()) == []
        with pytest.raises(BadInput):
            ledger.audit(target="%")

    def test_a_refused_action_is_audited_too(self, ledger: Ledger) -> None:
        unknown = ids.random_id()
        ledger.cancel([unknown], action())
        assert [(row.verb, row.targets) for row in ledger.audit()] == [("cancel", (unknown,))]

    def test_a_repeated_action_is_audited_once(self, ledger: Ledger) -> None:
        (task_id,) = put(ledger, lone(1))
        asked = action()
        for _ in range(3):
            ledger.cancel([task_id], asked)
        assert len(ledger.audit()) == 1

    def test_usage_is_summed_by_meter_and_unit(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1, tenant="acme"), lone(2), job_of(1))
        one, two, three = sorted(worker.claim(3), key=lambda task: (task.job_id is not None, str(task.payload)))
        worker.settle(one, Completed(usage=(usage(2), usage(30, unit="pages"), usage(0.25))))
        worker.settle(two, Failed(error_class="timeout", text="60 s", usage=(usage(1), usage(1, meter="docai"))))
        worker.settle(three, Failed(error_class="invalid_pdf", text="torn", usage=(usage(4),)))
        assert ledger.used() == [usage(7.25), usage(30, unit="pages"), usage(1, meter="docai")]
        assert ledger.used(tenant="acme") == [usage(2.25), usage(30, unit="pages")]
        assert ledger.used(tenant="nobody") == []

    def test_usage_is_told_from_an_instant_on(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        put(ledger, lone(1), lone(2, tenant="acme"))
        one, two = worker.claim(2)
        worker.settle(one, Completed(usage=(usage(2),)))
        clock.advance(100)
        later = clock.now()
        worker.settle(two, Completed(usage=(usage(3),)))
        assert ledger.used(since=later) == [usage(3)]
        assert ledger.used(since=later, tenant=one.tenant) == []
        assert ledger.used(since=later + 1) == []
        assert ledger.used(since=later - 100) == [usage(5)]

    def test_usage_outlives_what_was_deleted(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        new = job_of(1, merge=False, tenant="acme")
        put(ledger, new)
        worker.settle(worker.take(), Completed(usage=(usage(2),)))
        (task_id,) = put(ledger, lone(1))
        worker.settle(worker.take(), Completed(usage=(usage(3),)))
        assert ledger.delete([new.id], action())[0].done
        clock.advance(10)
        assert ledger.prune({Status.COMPLETED: 1}, action()) == 1
        assert ledger.get(task_id) is None
        assert ledger.used() == [usage(5)]
        assert ledger.used(tenant="acme") == [usage(2)]

    def test_records_outlive_reopening(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        new = job_of(2)
        put(ledger, new)
        first, second = worker.claim(2)
        worker.settle(first, Completed(usage=(usage(2),), events=(Event(name="seen", fields={"a": [1]}),)))
        worker.fail(second)
        asked = action()
        answer = ledger.retry([new.id], asked)
        before = everything(ledger)
        ledger = self.reopened(ledger, clock)
        assert everything(ledger) == before
        assert ledger.retry([new.id], asked) == answer
        assert everything(ledger) == before
