"""Promises of reuse: the first result under a key stays, each tenant sees its own, deletion forgets."""

from __future__ import annotations

from dataclasses import replace

from forebay.clock import ManualClock
from forebay.model.exchange import Remembered
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, put
from forebay.testing.workers import Worker, action, blob, job_of, lone

DOCUMENT = blob(100)


def _result(key: int, *, document: str = DOCUMENT, tenant: str = "default", result: int = 1) -> Remembered:
    return Remembered(
        tenant=tenant, key=blob(key), document=document, result_json=f'{{"n":{result}}}', result_blob=blob(result)
    )


class ReusePromises(LedgerCase):
    def test_a_remembered_result_is_recalled(self, ledger: Ledger, clock: ManualClock) -> None:
        ledger.remember([_result(1), _result(2, result=2)])
        assert ledger.recall("default", [blob(1)]) == [replace(_result(1), created_at=clock.now())]
        both = ledger.recall("default", [blob(2), blob(3), blob(1)])
        assert {kept.key for kept in both} == {blob(1), blob(2)}
        assert ledger.recall("default", []) == []

    def test_the_first_result_under_a_key_stays(self, ledger: Ledger, clock: ManualClock) -> None:
        ledger.remember([_result(1, result=1)])
        clock.advance(5)
        ledger.remember([_result(1, result=2), _result(1, result=3), _result(2)])
        (kept,) = ledger.recall("default", [blob(1)])
        assert (kept.result_blob, kept.created_at) == (blob(1), clock.now() - 5)

    def test_tenants_do_not_share_results(self, ledger: Ledger) -> None:
        ledger.remember([_result(1, tenant="acme", result=1), _result(1, tenant="bolt", result=2)])
        assert [kept.result_blob for kept in ledger.recall("acme", [blob(1)])] == [blob(1)]
        assert [kept.result_blob for kept in ledger.recall("bolt", [blob(1)])] == [blob(2)]
        assert ledger.recall("default", [blob(1)]) == []

    def test_a_document_is_forgotten_for_its_tenant_only(self, ledger: Ledger) -> None:
        ledger.remember([_result(1), _result(2), _result(3, document=blob(101)), _result(1, tenant="acme")])
        assert ledger.forget("default", DOCUMENT, action()) == 2
        assert {kept.key for kept in ledger.recall("default", [blob(n) for n in range(9)])} == {blob(3)}
        assert len(ledger.recall("acme", [blob(1)])) == 1
        assert [(row.verb, row.targets) for row in ledger.audit()] == [("forget", (DOCUMENT,))]

    def test_a_repeated_forget_does_nothing_more(self, ledger: Ledger) -> None:
        ledger.remember([_result(1)])
        asked = action()
        ledger.forget("default", DOCUMENT, asked)
        ledger.forget("default", DOCUMENT, asked)
        assert len(ledger.audit()) == 1
        assert ledger.recall("default", [blob(1)]) == []

    def test_what_was_remembered_long_ago_is_forgotten_as_many_at_once_as_asked_for(
        self, ledger: Ledger, clock: ManualClock
    ) -> None:
        ledger.remember([_result(1), _result(2, document=blob(101)), _result(1, tenant="acme")])
        clock.advance(100)
        ledger.remember([_result(3)])
        asked = action()
        assert ledger.forget_older(101, asked) == 0
        assert ledger.audit() == []
        counts = [ledger.forget_older(50, asked, most=2) for _ in range(3)]
        assert counts == [2, 1, 0]
        assert [kept.key for kept in ledger.recall("default", [blob(n) for n in range(9)])] == [blob(3)]
        assert ledger.recall("acme", [blob(1)]) == []
        assert [row.verb for row in ledger.audit()] == ["forget"]

    def test_what_was_forgotten_can_be_remembered_anew(self, ledger: Ledger) -> None:
        ledger.remember([_result(1, result=1)])
        ledger.forget("default", DOCUMENT, action())
        ledger.remember([_result(1, result=2)])
        assert [kept.result_blob for kept in ledger.recall("default", [blob(1)])] == [blob(2)]

    def test_deleting_a_job_forgets_its_document(self, ledger: Ledger) -> None:
        mine, theirs = job_of(1, document=DOCUMENT), job_of(1, document=blob(101))
        put(ledger, mine, theirs)
        ledger.remember([_result(1), _result(2, document=blob(101)), _result(1, tenant="acme")])
        assert ledger.delete([mine.id], action())[0].done
        assert ledger.recall("default", [blob(1)]) == []
        assert len(ledger.recall("default", [blob(2)])) == 1
        assert len(ledger.recall("acme", [blob(1)])) == 1

    def test_deleting_a_job_forgets_nothing_while_another_works_on_its_document(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        ended, other, theirs = (job_of(1, merge=False, document=DOCUMENT) for _ in range(3))
        put(ledger, ended)
        (task,) = worker.claim(9)
        worker.complete(task)
        put(ledger, other, theirs)
        ledger.remember([_result(1)])
        assert ledger.delete([ended.id], action())[0].done
        assert len(ledger.recall("default", [blob(1)])) == 1
        # Those that go together work on nothing any more.
        assert all(answer.done for answer in ledger.delete([other.id, theirs.id], action()))
        assert ledger.recall("default", [blob(1)]) == []

    def test_an_open_job_of_another_tenant_or_one_that_has_ended_keeps_no_document(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        ended, mine = job_of(1, merge=False, document=DOCUMENT), job_of(1, document=DOCUMENT)
        put(ledger, ended)
        (task,) = worker.claim(9)
        worker.complete(task)
        put(ledger, mine, job_of(1, document=DOCUMENT, tenant="acme"))
        ledger.remember([_result(1), _result(1, tenant="acme")])
        assert ledger.delete([mine.id], action())[0].done
        assert ledger.recall("default", [blob(1)]) == []
        assert len(ledger.recall("acme", [blob(1)])) == 1

    def test_blobs_in_use_are_those_that_something_points_at(self, ledger: Ledger, worker: Worker) -> None:
        job = job_of(1, merge=False, document=blob(1))
        (task_id, job_id) = put(ledger, lone("x", payload_blob=blob(2)), job)
        for number, task in enumerate(worker.claim(9)):
            worker.complete(task, result_blob=blob(10 + number))
        ledger.remember([_result(1, result=20)])
        asked = [blob(n) for n in (1, 2, 10, 11, 20, 99)]
        assert ledger.blobs_in_use("default", asked) == set(asked) - {blob(99)}
        assert ledger.blobs_in_use("acme", asked) == set()
        assert ledger.blobs_in_use("default", []) == set()
        ledger.delete([job_id, task_id], action())
        assert ledger.blobs_in_use("default", asked) == {blob(20)}

    def test_memory_of_results_outlives_reopening(self, ledger: Ledger, clock: ManualClock) -> None:
        ledger.remember([_result(1)])
        before = ledger.recall("default", [blob(1)])
        assert self.reopened(ledger, clock).recall("default", [blob(1)]) == before
