"""Promises to sessions: alive while renewed, handed back when closed, never revived."""

from __future__ import annotations

from dataclasses import replace

from forebay import ids
from forebay.clock import ManualClock
from forebay.model.exchange import Session, Want
from forebay.model.outcome import Completed
from forebay.model.task import Status
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, everything, put, stored
from forebay.testing.workers import Worker, action, job_of, lone


class SessionPromises(LedgerCase):
    def test_an_open_session_is_listed(self, ledger: Ledger, clock: ManualClock) -> None:
        session = Session(id=ids.random_id(), worker="box-7:4711", lease_s=20, kinds=("work", "other"))
        ledger.open_session(session)
        expected = replace(session, opened_at=clock.now(), expires_at=clock.now() + 20)
        assert ledger.sessions() == [expected]

    def test_opening_a_session_again_changes_nothing_but_its_kinds(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone(1), lone(2))
        worker.take()
        before = ledger.sessions()
        clock.advance(5)
        ledger.open_session(Session(id=worker.id, worker="somebody-else", lease_s=99, kinds=("work", "more")))
        assert ledger.sessions() == [replace(each, kinds=("work", "more")) for each in before]
        assert len(ledger.exchange(worker.id, 1, wants=[Want("work", 5)]).claims) == 1

    def test_renewals_keep_a_session_alive(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        put(ledger, lone(1, timeout_s=1000))
        task = worker.take()
        for _ in range(5):
            clock.advance(14)
            assert ledger.renew(worker.id).alive
        assert ledger.rescue() == []
        assert ledger.sessions()[0].expires_at == clock.now() + 15
        assert not worker.complete(task).fenced

    def test_a_renewal_that_was_asked_for_earlier_shortens_nothing(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone(1))
        clock.advance(3)
        worker.take()
        until = ledger.sessions()[0].expires_at
        clock.advance(-3)
        assert ledger.renew(worker.id).alive
        assert ledger.sessions()[0].expires_at == until

    def test_a_session_whose_lease_ran_out_lives_on_if_nobody_rescued_it(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone(1), lone(2))
        task = worker.take()
        clock.advance(40)
        assert [session.id for session in ledger.sessions()] == [worker.id]
        assert ledger.renew(worker.id).alive
        assert ledger.rescue() == []
        assert not worker.complete(task).fenced
        assert worker.take().payload == 2

    def test_a_session_that_ended_gets_no_claims_and_is_told(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone(1))
        clock.advance(15)
        ledger.rescue()
        assert ledger.sessions() == []
        reply = worker.exchange(wants=[Want("work", 1)])
        assert (reply.claims, reply.alive) == ((), False)
        assert not ledger.renew(worker.id).alive
        ledger.open_session(Session(id=worker.id, worker=worker.name))
        assert not worker.exchange(wants=[Want("work", 1)]).alive
        assert ledger.count() == {("work", Status.PENDING): 1}

    def test_an_unknown_session_gets_no_claims_and_is_told(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), lone(2))
        settle = worker.ending(worker.take()._replace(claim_count=9), Completed())
        stranger = ids.random_id()
        reply = ledger.exchange(stranger, 1, settles=[settle], wants=[Want("work", 1)])
        assert (reply.claims, reply.alive) == ((), False)
        assert reply.settled[0].fenced
        assert not ledger.renew(stranger).alive
        assert ledger.mine(stranger) == []
        ledger.close_session(stranger)

    def test_a_session_that_was_asked_to_end_hears_of_it_with_every_renewal(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        assert not ledger.renew(worker.id).drain
        asked = action("operator")
        clock.advance(3)
        assert ledger.drain(worker.id, asked).outcome == "done"
        assert ledger.sessions()[0].drain_at == clock.now()
        clock.advance(3)
        assert ledger.drain(worker.id, asked).outcome == "done"
        assert ledger.drain(worker.id, action("operator")).outcome == "done"
        assert ledger.sessions()[0].drain_at == clock.now() - 3
        assert ledger.renew(worker.id).drain
        assert ledger.renew(worker.id).alive
        assert [each.verb for each in ledger.audit()][:1] == ["drain"]

    def test_who_was_asked_to_end_may_still_settle_and_claim_and_only_that_session_was_asked(
        self, ledger: Ledger, worker: Worker, other: Worker
    ) -> None:
        put(ledger, lone(1), lone(2))
        task = worker.take()
        ledger.drain(worker.id, action("operator"))
        assert not worker.complete(task).fenced
        assert worker.take().payload == 2
        assert not ledger.renew(other.id).drain

    def test_a_session_that_is_not_there_or_has_ended_is_not_found(self, ledger: Ledger, worker: Worker) -> None:
        assert ledger.drain(ids.random_id(), action("operator")).outcome == "not_found"
        ledger.close_session(worker.id)
        assert ledger.drain(worker.id, action("operator")).outcome == "not_found"
        assert ledger.sessions() == []

    def test_closing_a_session_hands_its_tasks_back_unburnt(
        self, ledger: Ledger, worker: Worker, other: Worker
    ) -> None:
        put(ledger, *(lone(n) for n in range(3)), lone(9))
        claims = worker.claim(3)
        ledger.close_session(worker.id)
        assert [session.id for session in ledger.sessions()] == [other.id]
        assert ledger.mine(worker.id) == []
        for task in claims:
            back = stored(ledger, task.id)
            assert (back.status, back.retry_count, back.reschedule_count, back.lost_count) == (Status.PENDING, 0, 0, 0)
            (past,) = ledger.history(task.id)
            assert (past.outcome, past.worker, past.settled) == ("released", worker.name, False)
        assert [task.payload for task in other.claim(9)] == [0, 1, 2, 9]

    def test_closing_a_session_again_changes_nothing(self, ledger: Ledger, worker: Worker, other: Worker) -> None:
        put(ledger, lone(1))
        worker.take()
        ledger.close_session(worker.id)
        other.take()
        before = everything(ledger)
        ledger.close_session(worker.id)
        assert everything(ledger) == before
        assert not worker.exchange(wants=[Want("work", 1)]).alive

    def test_closing_a_session_cancels_what_was_asked_to_end(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        worker.take()
        ledger.cancel([task_id], action())
        ledger.close_session(worker.id)
        assert stored(ledger, task_id).status is Status.CANCELED

    def test_a_renewal_names_the_tasks_that_are_to_end(self, ledger: Ledger, worker: Worker, other: Worker) -> None:
        new = job_of(3)
        put(ledger, new, lone("x"))
        mine = worker.claim(2)
        theirs = other.claim(1)
        assert ledger.renew(worker.id).cancel_requested == ()
        ledger.cancel([mine[1].id], action())
        assert ledger.renew(worker.id).cancel_requested == (mine[1].id,)
        ledger.cancel([theirs[0].id], action())
        assert ledger.renew(other.id).cancel_requested == (theirs[0].id,)
        worker.stop(mine[1])
        assert ledger.renew(worker.id).cancel_requested == ()

    def test_what_a_session_holds_is_told_whole(self, ledger: Ledger, worker: Worker, other: Worker) -> None:
        put(ledger, job_of(1), lone({"a": 1}))
        claims = worker.claim(2)
        assert {task.id: task for task in ledger.mine(worker.id)} == {task.id: task for task in claims}
        assert ledger.mine(other.id) == []
        worker.complete(claims[0])
        assert ledger.mine(worker.id) == [claims[1]]

    def test_sessions_outlive_reopening(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        put(ledger, lone(1))
        worker.take()
        before = ledger.sessions()
        ledger = self.reopened(ledger, clock)
        assert ledger.sessions() == before
        assert before[0].exchange_n == 1

    def test_a_session_that_only_asks_for_work_stays_alive(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        for _ in range(10):
            clock.advance(6)
            assert worker.exchange(wants=[Want("work", 1)]).alive
            ledger.rescue()
        put(ledger, lone(1))
        assert len(worker.claim(1)) == 1
