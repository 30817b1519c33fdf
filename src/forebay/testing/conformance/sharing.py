"""Promises of fairness: a huge job and a small one interleave, and keys and tenants take turns."""

from __future__ import annotations

import random

from forebay.clock import ManualClock
from forebay.model.bulk import Bulk
from forebay.model.exchange import Settle
from forebay.model.outcome import Rescheduled
from forebay.model.payload import JsonText
from forebay.model.task import NewTask, Status
from forebay.rules import fairness
from forebay.rules.fairness import Line, key_within
from forebay.stores.base import Ledger
from forebay.testing.conformance.case import LedgerCase, put, stored
from forebay.testing.invariants import all_tasks
from forebay.testing.workers import Worker, action, job_of, lone

HANDFUL = 8


class FairnessPromises(LedgerCase):
    @property
    def huge(self) -> int:
        return max(30, self.many // 4)

    def test_a_small_job_is_not_starved_by_a_huge_one(self, ledger: Ledger, worker: Worker) -> None:
        huge, small = job_of(self.huge), job_of(2)
        put(ledger, huge)
        put(ledger, small)
        first = [task.job_id for task in worker.claim(HANDFUL)]
        assert first.count(small.id) == 2

    def test_a_small_job_that_comes_late_is_not_starved_either(self, ledger: Ledger, worker: Worker) -> None:
        huge, small = job_of(self.huge), job_of(2)
        put(ledger, huge)
        for task in worker.claim(self.huge // 2):
            worker.complete(task)
        put(ledger, small)
        assert [task.job_id for task in worker.claim(HANDFUL)].count(small.id) == 2

    def test_a_small_job_is_not_starved_by_a_storm_of_reschedules(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        huge, small = job_of(self.huge), job_of(2)
        put(ledger, huge)
        for delay_s in (0.0, 5.0, 0.0):
            storm: list[Settle] = [
                worker.ending(task, Rescheduled(delay_s=delay_s)) for task in worker.claim(self.huge // 3)
            ]
            worker.exchange(settles=storm)
            clock.advance(5)
        put(ledger, small)
        assert [task.job_id for task in worker.claim(HANDFUL)].count(small.id) == 2

    def test_a_lone_task_is_not_starved_by_a_huge_job(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, job_of(self.huge))
        (task_id,) = put(ledger, lone(1))
        assert task_id in [task.id for task in worker.claim(HANDFUL)]

    def test_a_huge_job_is_not_starved_by_newcomers(self, ledger: Ledger, worker: Worker) -> None:
        huge = job_of(self.huge)
        put(ledger, huge)
        taken = []
        for n in range(40):
            put(ledger, lone(n))
            taken.append(worker.take().job_id)
        assert taken.count(huge.id) >= 5

    def test_fairness_keys_take_turns_whatever_their_backlog(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, fairness_key="loud") for n in range(self.huge)))
        put(ledger, *(lone(n, fairness_key="quiet") for n in range(3)))
        keys = [task.flow for task in worker.claim(HANDFUL)]
        assert keys.count("quiet") == 3

    def test_fairness_keys_share_alike_while_both_have_work(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, fairness_key="loud") for n in range(self.huge)))
        put(ledger, *(lone(n, fairness_key="quiet") for n in range(25)))
        keys = [worker.take().flow for _ in range(40)]
        for end in range(10, 41, 10):
            assert abs(keys[:end].count("loud") - keys[:end].count("quiet")) <= 2

    def test_within_a_flow_the_order_is_kept(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, fairness_key="a") for n in range(5)))
        put(ledger, *(lone(n, fairness_key="b") for n in range(5)))
        claims = worker.claim(10)
        for key in ("a", "b"):
            assert [task.payload for task in claims if task.flow == key] == [*range(5)]

    def test_tenants_take_turns_without_a_fairness_key(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, tenant="loud") for n in range(self.huge)))
        put(ledger, *(lone(n, tenant="quiet") for n in range(3)))
        assert [task.tenant for task in worker.claim(HANDFUL)].count("quiet") == 3

    def test_tenants_take_turns_when_many_tasks_are_submitted_at_once(self, ledger: Ledger, worker: Worker) -> None:
        ledger.submit(Bulk(lone(tenant="loud"), [JsonText(str(n)) for n in range(self.huge)]))
        put(ledger, *(lone(n, tenant="quiet") for n in range(3)))
        claims = worker.claim(HANDFUL)
        assert [task.tenant for task in claims].count("quiet") == 3
        assert [task.payload for task in claims if task.tenant == "loud"] == [*range(HANDFUL - 3)]

    def test_a_tenant_with_many_jobs_does_not_starve_one_with_a_single_job(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        for _ in range(self.huge // 2):
            put(ledger, job_of(2, tenant="loud"))
        quiet = job_of(2, tenant="quiet")
        put(ledger, quiet)
        assert [task.job_id for task in worker.claim(HANDFUL)].count(quiet.id) == 2

    def test_delayed_tasks_of_tenants_take_turns_once_they_are_due(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, *(lone(n, tenant="loud", delay_s=1.0) for n in range(30)))
        put(ledger, *(lone(n, tenant="quiet", delay_s=2.0) for n in range(3)))
        clock.advance(3)
        assert [task.tenant for task in worker.claim(HANDFUL)].count("quiet") == 3

    def test_a_fairness_key_stands_above_the_tenant(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, tenant="loud") for n in range(self.huge)))
        put(ledger, *(lone(n, tenant="loud", fairness_key="urgent") for n in range(3)))
        assert [task.flow for task in worker.claim(HANDFUL)].count("urgent") == 3

    def test_keys_within_a_tenant_share_its_turn(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, tenant="loud", fairness_key=key_within("loud", f"x{n}")) for n in range(self.huge)))
        put(ledger, *(lone(n, tenant="quiet") for n in range(3)))
        put(ledger, *(lone(n, tenant="calm", fairness_key=key_within("calm", "x0")) for n in range(3)))
        tenants = [task.tenant for task in worker.claim(2 * HANDFUL)]
        assert (tenants.count("quiet"), tenants.count("calm")) == (3, 3)

    def test_keys_within_a_tenant_share_its_turn_when_they_become_due(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        keys = [key_within("loud", f"x{n}") for n in range(30)]
        put(ledger, *(lone(n, tenant="loud", fairness_key=key, delay_s=1.0) for n, key in enumerate(keys)))
        put(ledger, *(lone(n, tenant="quiet", delay_s=2.0) for n in range(3)))
        clock.advance(3)
        assert [task.tenant for task in worker.claim(2 * HANDFUL)].count("quiet") == 3

    def test_keys_without_a_tenant_have_a_turn_each(self, ledger: Ledger, worker: Worker) -> None:
        """The control: this is what a tenant's own keys must not be."""
        put(ledger, *(lone(n, tenant="loud", fairness_key=f"x{n}") for n in range(self.huge)))
        put(ledger, *(lone(n, tenant="quiet") for n in range(3)))
        assert [task.tenant for task in worker.claim(2 * HANDFUL)].count("quiet") == 0

    def test_a_key_that_looks_like_the_flow_of_another_tenant_is_not_in_its_way(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        put(ledger, *(lone(n, tenant="loud", fairness_key=key_within("loud", "quiet/")) for n in range(self.huge)))
        put(ledger, *(lone(n, tenant="quiet") for n in range(3)))
        assert [task.tenant for task in worker.claim(HANDFUL)].count("quiet") == 3

    def test_keys_within_a_tenant_take_turns(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, tenant="acme", fairness_key=key_within("acme", "loud")) for n in range(self.huge)))
        put(ledger, *(lone(n, tenant="acme", fairness_key=key_within("acme", "quiet")) for n in range(2)))
        assert [task.flow for task in worker.claim(HANDFUL)].count("acme/quiet") == 2

    def test_what_was_canceled_is_in_nobodys_way(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, tenant="quiet") for n in range(self.huge)))
        waiting = [lone(n, tenant="loud") for n in range(self.huge)]
        put(ledger, *waiting)
        ledger.cancel([task.id for task in waiting], action())
        put(ledger, lone("later", tenant="loud"))
        assert [task.tenant for task in worker.claim(HANDFUL)].count("loud") == 1

    def test_priority_goes_before_fairness(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, fairness_key="a", priority=1) for n in range(20)))
        put(ledger, lone("low", fairness_key="b"))
        assert [task.priority for task in worker.claim(21)] == [*[1] * 20, 0]

    def test_a_task_that_is_submitted_alone_gets_the_tag_of_the_rule(self, ledger: Ledger, worker: Worker) -> None:
        """A ledger may work it out in a language of its own."""
        draw = random.Random(5)  # noqa: S311 - the same tasks in each run
        put(ledger, *(job_of(1, tenant="acme") for _ in range(fairness.MAX_CROWD + 1)))
        for n in range(60):
            tenant, key = draw.choice(("acme", "blue", "b")), draw.choice((None, None, "urgent", "acme/x"))
            new = lone(n, tenant=tenant, fairness_key=key, priority=draw.choice((0, 0, 7)))
            expected = tag_by_rule(ledger, new)
            put(ledger, new)
            assert stored(ledger, new.id).tag == (expected if self.tags_at_submit else None)
            if draw.random() < 0.3:
                worker.claim(draw.randrange(1, 9))
            if draw.random() < 0.1:
                put(ledger, job_of(2, tenant=tenant))


def tag_by_rule(ledger: Ledger, new: NewTask) -> int:
    """What `rules.fairness` says of a lone task, by what waits in the ledger."""
    line = Line(new.kind, new.lane, new.priority)
    flow = fairness.flow_of(new.fairness_key, new.tenant, None)
    waiting = [
        (task.flow or "", task.tag)
        for task in all_tasks(ledger)
        if task.status is Status.PENDING and task.tag is not None and (task.kind, task.lane, task.priority) == line
    ]
    first, beyond = fairness.flow_range(new.tenant)
    tags = [tag for other, tag in waiting if other == flow]
    return fairness.tags(
        [fairness.place_of(line, flow, new.tenant)],
        {line: min(tag for _, tag in waiting)} if waiting else {},
        {(line, flow): max(tags)} if tags else {},
        {(line, new.tenant): min(len({other for other, _ in waiting if first <= other < beyond}), fairness.MAX_CROWD)},
    )[0]
