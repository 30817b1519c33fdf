"""Promises about bad input: refused by a typed error that says what to do, and nothing stored of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import pytest

from forebay import ids
from forebay.clock import ManualClock
from forebay.errors import BadInput, BadName, BadPayload, Conflict, StoreClosed, TooLarge
from forebay.model.exchange import Action, Hold, Release, Remembered, Session, Settle, Usage, Want
from forebay.model.job import Event, NewJob
from forebay.model.outcome import Completed, Rescheduled
from forebay.model.query import Query
from forebay.model.task import NewTask, Role, Status
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, everything, put, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import BLOB, Worker, action, chunk, job_of, lone

BAD_IDS = ["", "../../etc/passwd", "' OR 1=1--", "a\0b", "x" * 10_000, "A" * 26, "ä" * 26, "a" * 25 + "/", "a" * 27]
BAD_NUMBERS = [math.nan, math.inf, -math.inf, -1, -0.001, 1e300, 10**400, True, "5", None]
BAD_PAYLOADS: list[tuple[object, type[BadInput]]] = [
    (math.nan, BadPayload),
    ([1, math.inf], BadPayload),
    (b"bytes", BadPayload),
    ({"a": object()}, BadPayload),
    ({1: "key"}, BadPayload),
    ("nul \0 inside", BadPayload),
    ({"nul \0 key": 1}, BadPayload),
    ("half \ud800 pair", BadPayload),
    (10**500, BadPayload),
    ("x" * (1024 * 1024), TooLarge),
    (["ä" * 1000] * 1000, TooLarge),
]
ODD_PAYLOADS: list[object] = [
    None,
    True,
    0,
    -1,
    2**1000,
    0.1,
    1e-320,
    "",
    "\n\t\x7f",
    "\N{GRINNING FACE}",
    "\u2028'\"\\%_",
    [],
    {},
]


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


class RefusalPromises(LedgerCase):
    @pytest.mark.parametrize("bad", BAD_IDS, ids=lambda bad: ascii(bad)[:20])
    def test_a_bad_id_is_refused_by_every_verb(self, ledger: Ledger, bad: str) -> None:
        put(ledger, lone(1))
        before = everything(ledger)
        verbs: list[Callable[[], object]] = [
            lambda: ledger.get(bad),
            lambda: ledger.get_job(bad),
            lambda: ledger.history(bad),
            lambda: ledger.ahead(bad),
            lambda: ledger.events(bad),
            lambda: ledger.news([(bad, 0)]),
            lambda: ledger.cancel([bad], action()),
            lambda: ledger.retry([bad], action()),
            lambda: ledger.retry([bad], action(), force=True),
            lambda: ledger.lose_result(bad, None, action()),
            lambda: ledger.delete([bad], action()),
            lambda: ledger.submit([lone(1, id=bad or "-")]),
        ]
        for verb in verbs:
            with pytest.raises(BadName) as refused:
                verb()
            assert refused.value.remedy
            assert len(str(refused.value)) < 400
        assert everything(ledger) == before

    @pytest.mark.parametrize("bad", ["", "../", "%", "_", "a*", "a' OR '1", "\0", "A", "a" * 27])
    def test_a_bad_beginning_of_an_id_is_refused(self, ledger: Ledger, bad: str) -> None:
        put(ledger, lone(1))
        with pytest.raises(BadName):
            ledger.find(bad)

    def test_a_bad_id_among_good_ones_is_refused_before_anything_is_done(self, ledger: Ledger) -> None:
        (task_id,) = put(ledger, lone(1))
        before = everything(ledger)
        for verb in (ledger.cancel, ledger.delete, ledger.retry):
            with pytest.raises(BadName):
                verb([task_id, "../x"], action())
        assert everything(ledger) == before

    @pytest.mark.parametrize("bad", BAD_IDS, ids=lambda bad: ascii(bad)[:20])
    def test_bad_ids_in_an_exchange_change_nothing(self, ledger: Ledger, worker: Worker, bad: str) -> None:
        put(ledger, lone(1))
        task = worker.take()
        real = worker.ending(task, Completed())
        wrong = Settle(
            task_id=bad,
            job_id=bad,
            token=1,
            status=Status.COMPLETED,
            outcome="completed",
            retry_count=0,
            reschedule_count=0,
            lost_count=0,
        )
        before = everything(ledger)
        reply = worker.exchange(settles=[wrong], releases=[Release(bad, 1, bad)])
        assert [settled.fenced for settled in reply.settled] == [True]
        ledger.renew(worker.id, [Hold(bad, 1, 60, bad)])
        assert everything(ledger) == before
        assert not worker.exchange(settles=[real]).settled[0].fenced

    @pytest.mark.parametrize("bad", BAD_IDS, ids=lambda bad: ascii(bad)[:20])
    def test_a_session_with_a_bad_id_is_not_alive(self, ledger: Ledger, bad: str) -> None:
        put(ledger, lone(1))
        with pytest.raises(BadName):
            Session(id=bad, worker="w")
        reply = ledger.exchange(bad, 1, wants=[Want("work", 1)])
        assert (reply.alive, reply.claims) == (False, ())
        assert not ledger.renew(bad).alive
        assert ledger.mine(bad) == []
        ledger.close_session(bad)

    @pytest.mark.parametrize("bad", ["x", "-1", "../", "' OR 1=1--", "\0", "9" * 10_000, "½"])
    def test_a_made_up_cursor_is_refused(self, ledger: Ledger, bad: str) -> None:
        put(ledger, lone(1), job_of(1))
        with pytest.raises(BadInput):
            ledger.list_tasks(Query(after=bad))
        with pytest.raises(BadInput):
            ledger.list_jobs(Query(after=bad))

    @pytest.mark.parametrize("bad", BAD_NUMBERS, ids=lambda bad: str(bad)[:10])
    def test_a_bad_number_is_refused(self, bad: object) -> None:
        number = cast("int", bad)
        makers: list[Callable[[], object]] = [
            lambda: lone(1, delay_s=bad),
            lambda: lone(1, timeout_s=bad),
            lambda: lone(1, max_retries=bad),
            lambda: lone(1, priority=1000 if bad is None or bad == -1 else bad),
            lambda: Hold(ids.random_id(), 1, number),
            lambda: Want("work", number),
            lambda: Want("work", 1, None, number),
            lambda: Usage("meter", "calls", number),
            lambda: Session(id=ids.random_id(), worker="w", lease_s=number),
            lambda: Query(size=number),
            lambda: Rescheduled(delay_s=number),
        ]
        for make in makers:
            with pytest.raises(BadInput):
                make()

    def test_numbers_out_of_range_are_refused(self) -> None:
        makers: list[Callable[[], object]] = [
            lambda: Query(size=0),
            lambda: Query(size=501),
            lambda: Want("work", 1001),
            lambda: lone(1, priority=101),
            lambda: lone(1, available_at=1e300),
            lambda: lone(1, deadline_at=-1),
            lambda: Session(id=ids.random_id(), worker="w", lease_s=0),
        ]
        for make in makers:
            with pytest.raises(BadInput):
                make()

    @pytest.mark.parametrize("bad", ["", "Work", "a/b", "..", "a\0", "a" * 65, "ä", "a b", 7, None])
    def test_a_bad_name_is_refused(self, bad: object) -> None:
        name = cast("str", bad)
        makers: list[Callable[[], object]] = [
            lambda: NewTask(kind=name),
            lambda: lone(1, tenant=bad),
            lambda: lone(1, environment=bad),
            lambda: Want(name, 1),
            lambda: Usage(name, "calls", 1),
            lambda: Event(name=name),
            lambda: Action(who="ann", tenant=name),
            lambda: Remembered(tenant=name, key=BLOB, document=BLOB),
        ]
        for make in makers:
            with pytest.raises(BadName):
                make()

    @pytest.mark.parametrize(("payload", "error"), BAD_PAYLOADS, ids=lambda value: ascii(value)[:20])
    def test_a_bad_payload_is_refused(self, payload: object, error: type[BadInput]) -> None:
        with pytest.raises(error):
            lone(payload)

    def test_a_payload_may_be_nested_32_deep_and_no_deeper(self, ledger: Ledger) -> None:
        (task_id,) = put(ledger, lone(_nested(32)))
        assert stored(ledger, task_id).payload == _nested(32)
        for depth in (33, 100_000):
            with pytest.raises(BadPayload):
                lone(_nested(depth))

    def test_the_largest_payload_is_stored_whole(self, ledger: Ledger, worker: Worker) -> None:
        text = "x" * (1024 * 1024 - 2)
        (task_id,) = put(ledger, lone(text))
        assert worker.take().payload == text
        assert stored(ledger, task_id).payload == text

    @pytest.mark.parametrize("payload", ODD_PAYLOADS, ids=lambda value: ascii(value)[:20])
    def test_odd_but_legal_payloads_come_back_equal(self, ledger: Ledger, worker: Worker, payload: object) -> None:
        (task_id,) = put(ledger, lone(payload, tags=("'; --", "%_")))
        assert stored(ledger, task_id).payload == payload
        assert worker.take().payload == payload
        assert [task.id for task in ledger.list_tasks(Query(tag="%_")).items] == [task_id]
        assert ledger.list_tasks(Query(tag="%")).items == ()

    def test_a_job_that_makes_no_sense_is_refused(self) -> None:
        makers: list[Callable[[], object]] = [
            lambda: NewJob(pipeline="ocr", tasks=()),
            lambda: NewJob(pipeline="ocr", tasks=(lone(1),)),
            lambda: NewJob(pipeline="ocr", tasks=(chunk(0), chunk(0))),
            lambda: NewJob(pipeline="ocr", tasks=(NewTask(kind="a", role=Role.MERGE),)),
            lambda: job_of(1, document="no blob"),
            lambda: chunk(-1),
        ]
        for make in makers:
            with pytest.raises(BadInput):
                make()

    def test_a_settle_cannot_leave_a_task_running_or_bring_a_merge(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1))
        task = worker.take()
        with pytest.raises(BadInput):
            worker.ending(task, Completed(follow_ups=(NewTask(kind="merge", role=Role.MERGE),)))
        with pytest.raises(BadInput):
            worker.ending(task, Completed(result_blob="no blob"))
        assert [each.status for each in all_tasks(ledger)] == [Status.RUNNING]

    @pytest.mark.parametrize("n", [None, "x", 0, -1, 1.5, math.nan, True, 2**70])
    def test_a_number_that_cannot_be_an_exchange_is_refused(self, ledger: Ledger, worker: Worker, n: object) -> None:
        put(ledger, lone(1))
        with pytest.raises(BadInput):
            ledger.exchange(worker.id, cast("int", n), wants=[Want("work", 1)])
        assert len(worker.claim(1)) == 1

    @pytest.mark.parametrize("batch", [None, 1, "text", [1], [None], {"a": 1}])
    def test_a_batch_of_something_else_is_refused(self, ledger: Ledger, batch: object) -> None:
        with pytest.raises(BadInput):
            ledger.submit(cast("list[NewTask]", batch))

    def test_of_a_batch_with_a_bad_item_nothing_is_stored(self, ledger: Ledger) -> None:
        with pytest.raises(BadInput):
            ledger.submit([lone(1), chunk(1)])
        assert all_tasks(ledger) == []

    @pytest.mark.parametrize("result_json", ["not json", '"\0"', '"\\ud800"', "NaN", "x" * 2_000_000, b"1", 5])
    def test_a_result_that_is_no_json_is_refused(self, result_json: object) -> None:
        with pytest.raises(BadInput):
            Completed(result_json=cast("str", result_json))

    def test_an_action_is_good_for_one_request(self, ledger: Ledger) -> None:
        first, second = put(ledger, lone(1), lone(2))
        once = action()
        assert ledger.cancel([first], once)[0].done
        for another in (
            lambda: ledger.cancel([second], once),
            lambda: ledger.retry([first], once),
            lambda: ledger.forget("default", BLOB, once),
            lambda: ledger.lose_result(first, None, once),
        ):
            with pytest.raises(Conflict, match="was used before"):
                another()
        assert stored(ledger, second).status is Status.PENDING

    def test_a_task_and_a_job_cannot_share_an_id(self, ledger: Ledger, worker: Worker) -> None:
        job = job_of(2)
        put(ledger, job)
        worker.take()
        assert ledger.submit([lone(1, id=job.id)])[0].outcome == "conflict"
        assert ledger.delete([job.id], action())[0].outcome == "running"

    @pytest.mark.parametrize("age_s", [-1, math.nan, "1", None])
    def test_a_retention_that_is_no_age_is_refused(self, ledger: Ledger, worker: Worker, age_s: object) -> None:
        put(ledger, lone(1))
        worker.complete(worker.take())
        with pytest.raises(BadInput):
            ledger.prune({Status.COMPLETED: cast("float", age_s)}, action())
        assert len(all_tasks(ledger)) == 1

    def test_a_closed_ledger_says_so(self, clock: ManualClock) -> None:
        with self.make_ledger(clock) as ledger:
            put(ledger, lone(1))
        ledger.close()
        with pytest.raises(StoreClosed):
            ledger.submit([lone(2)])
