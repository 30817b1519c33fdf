"""Promises of a claim: exclusive, by priority and place in line, never more than wanted."""

from __future__ import annotations

from forebay.clock import ManualClock
from forebay.model.exchange import Want
from forebay.model.task import Status
from forebay.stores.base import MAX_LANES, Ledger
from forebay.testing.conformance.case import LedgerCase, put, stored
from forebay.testing.workers import Worker, lone


class ClaimPromises(LedgerCase):
    def test_a_claim_grants_a_lease(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        (task_id,) = put(ledger, lone({"a": 1}, timeout_s=20))
        (task,) = worker.claim(grace_s=5)
        assert (task.id, task.status, task.payload) == (task_id, Status.RUNNING, {"a": 1})
        assert (task.claim_count, task.session_id, task.exchange_n) == (1, worker.id, 1)
        assert (task.claimed_at, task.attempt_deadline_at) == (clock.now(), clock.now() + 25)
        assert stored(ledger, task_id) == task
        assert ledger.mine(worker.id) == [task]

    def test_a_task_is_claimed_by_one_session_only(self, ledger: Ledger, worker: Worker, other: Worker) -> None:
        put(ledger, lone(1))
        assert len(worker.claim(10)) == 1
        assert other.claim(10) == ()
        assert worker.claim(10) == ()

    def test_no_more_is_claimed_than_wanted_and_the_rest_stays_claimable(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n) for n in range(7)))
        taken = [[task.payload for task in worker.claim(2)] for _ in range(5)]
        assert taken == [[0, 1], [2, 3], [4, 5], [6], []]

    def test_a_want_of_none_claims_nothing_and_loses_nothing(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(0), lone(1))
        for _ in range(3):
            reply = worker.exchange(wants=[Want("work", 0)])
            assert (reply.claims, reply.lanes) == ((), {"work": ("work",)})
        assert [task.payload for task in worker.claim(5)] == [0, 1]

    def test_higher_priority_goes_first_then_who_came_first(self, ledger: Ledger, worker: Worker) -> None:
        for n, priority in enumerate([0, 5, -5, 5, 0]):
            put(ledger, lone(n, priority=priority))
        assert [task.payload for task in worker.claim(5)] == [1, 3, 0, 4, 2]

    def test_tasks_of_one_batch_are_claimed_in_its_order(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n) for n in range(20)))
        assert [task.payload for task in worker.claim(20)] == [*range(20)]

    def test_only_wanted_kinds_are_claimed(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1, kind="known"), lone(2, kind="unknown"))
        assert [task.kind for task in worker.claim(10, "known")] == ["known"]
        assert worker.claim(10, "never_heard_of") == ()
        assert ledger.count() == {("known", Status.RUNNING): 1, ("unknown", Status.PENDING): 1}

    def test_a_want_may_name_its_lane(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), lone(2, limit="adobe"), lone(3, limit="docai"), lone(4, limit="adobe"))
        assert [task.payload for task in worker.claim(10, lane="work@adobe")] == [2, 4]
        assert [task.payload for task in worker.claim(10, lane="work")] == [1]
        assert worker.claim(10, lane="work@unheard") == ()
        assert [task.payload for task in worker.claim(10)] == [3]

    def test_a_want_without_a_lane_takes_from_all_by_priority(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), lone(2, limit="adobe", priority=3), lone(3, limit="docai", priority=9))
        assert [task.payload for task in worker.claim(10)] == [3, 2, 1]

    def test_each_want_of_an_exchange_gets_its_own_count(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n) for n in range(5)), *(lone(n, kind="other", limit="adobe") for n in range(5)))
        reply = worker.exchange(wants=[Want("work", 2), Want("other", 3, "other@adobe"), Want("work", 1)])
        assert [task.kind for task in reply.claims].count("work") == 3
        assert [task.kind for task in reply.claims].count("other") == 3
        assert len({task.id for task in reply.claims}) == 6

    def test_without_wants_nothing_is_claimed(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1))
        reply = worker.exchange()
        assert (reply.claims, reply.lanes, reply.next_due_in_s, reply.alive) == ((), {}, None, True)

    def test_the_reply_names_the_lanes_with_work_left(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), lone(2, limit="adobe"), lone(3, limit="adobe"), lone(4, kind="other"))
        reply = worker.exchange(wants=[Want("work", 2), Want("other", 1), Want("idle", 1)])
        assert reply.lanes == {"work": ("work@adobe",), "other": (), "idle": ()}

    def test_the_lanes_in_a_reply_are_bounded(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, limit=f"limit-{n}") for n in range(self.many)))
        lanes = worker.exchange(wants=[Want("work", 0)]).lanes["work"]
        assert len(set(lanes)) == len(lanes) == min(self.many, MAX_LANES)
        assert sum(len(worker.claim(1000)) for _ in range(3)) == self.many

    def test_the_reply_tells_the_time_and_when_the_next_task_is_due(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone(1, delay_s=30), lone(2, delay_s=20), lone(3, kind="other", delay_s=5))
        assert worker.exchange(wants=[Want("work", 1)]).next_due_in_s == 20
        clock.advance(8)
        reply = worker.exchange(wants=[Want("work", 1)])
        assert (reply.next_due_in_s, reply.now) == (12, clock.now())
        assert worker.exchange(wants=[Want("work", 0), Want("other", 0)]).next_due_in_s == 12
        clock.advance(100)
        worker.claim(5)
        assert worker.exchange(wants=[Want("work", 1)]).next_due_in_s is None
