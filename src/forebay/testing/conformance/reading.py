"""Promises to readers: lists in order and in pages, counts that add up, ids found by their beginning."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from itertools import chain, product
from threading import Event

import pytest

from forebay import ids
from forebay.clock import ManualClock
from forebay.model.outcome import Canceled, Completed, Failed
from forebay.model.query import Query
from forebay.model.task import NewTask, Role, Status, Task
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, put, stored
from forebay.testing.workers import Worker, action, follow, job_of, lone


def _shown(tasks: tuple[Task, ...]) -> list[str]:
    return [task.id for task in tasks]


def _all_pages(ledger: Ledger, query: Query) -> list[Task]:
    tasks: list[Task] = []
    after = None
    while True:
        page = ledger.list_tasks(replace(query, after=after))
        tasks += page.items
        after = page.next
        if after is None:
            return tasks


class ReadPromises(LedgerCase):
    def test_what_is_not_there_is_not_found(self, ledger: Ledger) -> None:
        (task_id, job_id) = put(ledger, lone(1), job_of(1))
        assert (ledger.get(ids.random_id()), ledger.get_job(ids.random_id())) == (None, None)
        assert (ledger.get(job_id), ledger.get_job(task_id)) == (None, None)

    def test_lists_show_the_newest_first_without_payload_and_result(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        made = []
        for n in range(4):
            made += put(ledger, lone({"n": n}))
            clock.advance(1)
        worker.settle(worker.take(), Completed(result_json="17"))
        page = ledger.list_tasks(Query())
        assert _shown(page.items) == made[::-1]
        assert page.next is None
        assert {(task.payload_json, task.result_json) for task in page.items} == {(None, None)}
        assert stored(ledger, made[0]).result == 17

    def test_a_jobs_tasks_are_listed_in_the_order_they_were_made(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        new = job_of(12)
        put(ledger, new, lone(1))
        clock.advance(1)
        for task in worker.claim(99):
            follow_ups = [follow("told")] if task.chunk_index == 3 else []
            worker.complete(task, follow_ups=follow_ups)
            clock.advance(1)
        page = ledger.list_tasks(Query(job_id=new.id))
        assert [task.chunk_index for task in page.items] == [*range(12), None, None]
        assert [task.role for task in page.items][12:] == [Role.FOLLOW, Role.MERGE]

    def test_many_tasks_are_read_at_once_in_the_order_asked_for(self, ledger: Ledger, worker: Worker) -> None:
        made = put(ledger, *(lone({"n": n}) for n in range(4)))
        worker.settle(worker.take(), Completed(result_json="17"))
        asked = [made[2], ids.random_id(), made[0], made[3]]
        assert ledger.get_many(asked) == [stored(ledger, each) for each in (made[2], made[0], made[3])]
        assert ledger.get_many([]) == []

    def test_every_combination_of_filters_lists_the_tasks_that_match(self, ledger: Ledger, worker: Worker) -> None:
        kinds, tenants, tags = ("work", "other"), ("default", "acme"), ((), ("red",), ("red", "blue"))
        for kind, tenant, worn in product(kinds, tenants, tags):
            put(
                ledger,
                *(NewTask(kind=kind, tenant=tenant, tags=worn, payload=n, max_retries=1) for n in range(5)),
                NewTask(kind=kind, tenant=tenant, tags=worn, delay_s=60),
            )
        outcomes = (
            Completed(),
            Failed(error_class="bug", text="It broke."),
            Canceled(),
            Failed(error_class="timeout", text="It took too long."),
        )
        for number, task in enumerate(worker.claim(25)):
            if number % 5 < len(outcomes):
                worker.settle(task, outcomes[number % 5])
        ledger.cancel([task.id for task in ledger.list_tasks(Query(status=Status.PENDING)).items[:5]], action())
        known = _all_pages(ledger, Query())
        assert {task.status for task in known} == set(Status)
        choices = (None, *Status), (None, *kinds, "none"), (None, *tenants, "none"), (None, "red", "blue", "none")
        for status, kind, tenant, tag in product(*choices):
            query = Query(status=status, kind=kind, tenant=tenant, tag=tag, size=7)
            matching = [
                task
                for task in known
                if status in {None, task.status}
                and kind in {None, task.kind}
                and tenant in {None, task.tenant}
                and (tag is None or tag in task.tags)
            ]
            assert _all_pages(ledger, query) == matching, query

    def test_pages_continue_where_the_last_one_ended(self, ledger: Ledger, clock: ManualClock) -> None:
        made = []
        for n in range(7):
            made += put(ledger, lone(n))
            clock.advance(n % 2)
        pages, after = [], None
        while True:
            page = ledger.list_tasks(Query(size=3, after=after))
            pages.append(_shown(page.items))
            after = page.next
            if after is None:
                break
        assert [len(page) for page in pages] == [3, 3, 1]
        assert [*chain(*pages)] == made[::-1]

    def test_pages_skip_nothing_while_new_tasks_arrive(self, ledger: Ledger, clock: ManualClock) -> None:
        made = put(ledger, *(lone(n) for n in range(7)))
        seen: set[str] = set()
        after = None
        for _ in range(20):
            page = ledger.list_tasks(Query(size=3, after=after))
            seen.update(_shown(page.items))
            after = page.next
            if after is None:
                break
            clock.advance(1)
            put(ledger, lone("new"))
        assert seen >= set(made)

    def test_a_jobs_tasks_are_paged_in_order(self, ledger: Ledger) -> None:
        new = job_of(10)
        put(ledger, new, lone(1))
        first = ledger.list_tasks(Query(job_id=new.id, size=6))
        second = ledger.list_tasks(Query(job_id=new.id, size=6, after=first.next))
        assert [task.chunk_index for task in (*first.items, *second.items)] == [*range(10)]
        assert second.next is None

    def test_filters_are_joined(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(2, tenant="acme")
        one, two, three, job_id = put(
            ledger, lone(1, tags=("red",)), lone(2, tenant="acme", tags=("red", "big")), lone(3, kind="other"), new
        )
        first, second = (task.id for task in ledger.list_tasks(Query(job_id=job_id)).items)
        worker.complete(worker.take())
        assert set(_shown(ledger.list_tasks(Query(tenant="acme")).items)) == {two, first, second}
        assert _shown(ledger.list_tasks(Query(kind="other")).items) == [three]
        assert _shown(ledger.list_tasks(Query(status=Status.COMPLETED)).items) == [one]
        assert _shown(ledger.list_tasks(Query(role=Role.CHUNK, job_id=job_id)).items) == [first, second]
        assert _shown(ledger.list_tasks(Query(tag="red")).items) == [two, one]
        assert _shown(ledger.list_tasks(Query(tag="red", tenant="acme")).items) == [two]
        assert _shown(ledger.list_tasks(Query(tag="red", status=Status.COMPLETED)).items) == [one]
        assert ledger.list_tasks(Query(tag="re")).items == ()
        assert ledger.list_tasks(Query(tag="red", kind="other")).items == ()

    def test_a_filtered_list_is_paged_too(self, ledger: Ledger) -> None:
        made = put(ledger, *(lone(n, kind="odd" if n % 2 else "even") for n in range(12)))
        first = ledger.list_tasks(Query(kind="odd", size=4))
        second = ledger.list_tasks(Query(kind="odd", size=4, after=first.next))
        assert _shown(first.items) + _shown(second.items) == made[1::2][::-1]
        assert second.next is None

    def test_jobs_are_listed_newest_first_and_filtered(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        made = []
        for options in ({"tenant": "acme"}, {"tags": ("red",)}, {}, {"tenant": "acme", "tags": ("red",)}):
            made += put(ledger, job_of(1, merge=False, **options))
            clock.advance(1)
        put(ledger, lone(1))
        assert [job.id for job in ledger.list_jobs(Query()).items] == made[::-1]
        worker.complete(next(task for task in worker.claim(9) if task.job_id == made[1]))
        assert [job.id for job in ledger.list_jobs(Query(tenant="acme")).items] == [made[3], made[0]]
        assert [job.id for job in ledger.list_jobs(Query(tag="red")).items] == [made[3], made[1]]
        assert [job.id for job in ledger.list_jobs(Query(status=Status.COMPLETED)).items] == [made[1]]
        assert [job.id for job in ledger.list_jobs(Query(kind="ocr", tenant="acme", tag="red")).items] == [made[3]]
        assert ledger.list_jobs(Query(kind="segment")).items == ()
        first = ledger.list_jobs(Query(size=3))
        second = ledger.list_jobs(Query(size=3, after=first.next))
        assert [job.id for job in (*first.items, *second.items)] == made[::-1]

    def test_counts_are_by_kind_and_status(self, ledger: Ledger, worker: Worker) -> None:
        assert ledger.count() == {}
        put(ledger, lone(1), lone(2, tenant="acme"), lone(3, kind="other"), job_of(2, tenant="acme"))
        for task in worker.claim(2):
            worker.complete(task)
        worker.take()
        assert ledger.count() == {
            ("work", Status.COMPLETED): 2,
            ("work", Status.RUNNING): 1,
            ("work", Status.PENDING): 1,
            ("other", Status.PENDING): 1,
        }
        assert sum(ledger.count(tenant="acme").values()) == 3
        assert ledger.count(tenant="nobody") == {}

    def test_open_jobs_are_counted_by_tenant(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1, tenant="acme"), job_of(2, tenant="acme"), job_of(1, tenant="acme", merge=False))
        assert (ledger.open_job_count("acme"), ledger.open_job_count("nobody")) == (2, 0)
        for task in worker.claim(9):
            worker.complete(task)
        assert ledger.open_job_count("acme") == 1

    def test_ids_are_found_by_their_beginning(self, ledger: Ledger) -> None:
        near = "a" * 20
        twins = [f"{near}bbbbbb", f"{near}cccccc", f"{near}dddddd"]
        put(ledger, *(lone(n, id=task_id) for n, task_id in enumerate(twins)))
        new = job_of(1, id="e" * 26)
        put(ledger, new)
        assert ledger.find(twins[1]) == [twins[1]]
        assert ledger.find(near + "b") == [twins[0]]
        assert len(ledger.find(near)) == 2
        assert set(ledger.find(near)) <= set(twins)
        assert ledger.find("eee") == [new.id]
        (chunk,) = ledger.list_tasks(Query(job_id=new.id)).items
        assert chunk.id in ledger.find(chunk.id[:20])
        assert ledger.find("zzzzzzzz") == []

    def test_a_sound_ledger_has_nothing_to_complain_about(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), job_of(2))
        worker.complete(worker.take())
        assert ledger.check() == []

    def test_listening_can_be_stopped_at_any_time(self, ledger: Ledger) -> None:
        calls: list[None] = []
        stop = ledger.listen(lambda: calls.append(None))
        put(ledger, lone(1))
        stop()
        stop()
        heard = len(calls)
        put(ledger, lone(2))
        assert len(calls) == heard

    @pytest.mark.parametrize("verb", ["submit", "cancel", "retry", "pause", "resume"])
    def test_listeners_hear_of_work_and_of_what_people_ask(self, ledger: Ledger, worker: Worker, verb: str) -> None:
        if not self.wakes:
            pytest.skip("this store wakes nobody")
        running, failed = put(ledger, lone(1), lone(2))
        _, task = worker.claim(2)
        worker.fail(task)
        ledger.pause("paused", action())
        heard = Event()
        stop = ledger.listen(heard.set)
        if verb == "submit":
            put(ledger, lone(3))
        elif verb == "cancel":
            ledger.cancel([running], action())
        elif verb == "retry":
            ledger.retry([failed], action())
        elif verb == "pause":
            ledger.pause("work", action())
        else:
            ledger.resume("paused", action())
        assert heard.wait(5)
        stop()

    def test_a_listener_with_a_loop_is_called_in_it(self, ledger: Ledger) -> None:
        if not self.wakes:
            pytest.skip("this store wakes nobody")
        called_in: list[int] = []

        async def listen() -> None:
            heard = asyncio.Event()

            def wake() -> None:
                called_in.append(threading.get_ident())
                heard.set()

            stop = ledger.listen(wake, loop=asyncio.get_running_loop())
            await asyncio.to_thread(put, ledger, lone(1))
            await asyncio.wait_for(heard.wait(), 5)
            stop()
            count = len(called_in)
            await asyncio.to_thread(put, ledger, lone(2))
            await asyncio.sleep(0)
            assert len(called_in) == count

        asyncio.run(listen())
        put(ledger, lone(3))
        assert set(called_in) == {threading.get_ident()}
