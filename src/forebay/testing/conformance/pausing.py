"""Promises of pause and resume: a paused lane is claimed from by nobody, keeps its line, and is shown as it is."""

from __future__ import annotations

from typing import cast

import pytest

from forebay.clock import ManualClock
from forebay.errors import BadInput, BadName, Conflict
from forebay.model.exchange import Acted, Action, Want
from forebay.model.lane import Lane
from forebay.model.task import Status
from forebay.stores.base import MAX_LANES, Ledger
from forebay.testing.conformance.case import LedgerCase, everything, job_row, put, stored
from forebay.testing.workers import Worker, action, job_of, lone


def _paused(ledger: Ledger) -> dict[str, tuple[float, float | None, str]]:
    lanes = [lane for lane in ledger.lanes() if lane.paused_at is not None]
    return {lane.name: (lane.paused_at or 0.0, lane.paused_until, lane.note) for lane in lanes}


class PausePromises(LedgerCase):
    def test_nothing_is_claimed_from_a_paused_lane_while_others_go_on(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1), lone(2, limit="adobe", priority=9), lone(3))
        assert ledger.pause("work@adobe", action()) == Acted("work@adobe", "done")
        reply = worker.exchange(wants=[Want("work", 1)])
        assert [task.payload for task in reply.claims] == [1]
        assert (reply.lanes, reply.next_due_in_s) == ({"work": ("work",)}, None)
        assert worker.claim(9, lane="work@adobe") == ()
        reply = worker.exchange(wants=[Want("work", 9)])
        assert [task.payload for task in reply.claims] == [3]
        assert (reply.lanes, reply.next_due_in_s) == ({"work": ()}, None)
        assert worker.claim(9) == ()

    def test_what_runs_in_a_paused_lane_goes_on(self, ledger: Ledger, worker: Worker) -> None:
        (task_id,) = put(ledger, lone(1))
        task = worker.take()
        ledger.pause("work", action())
        assert ledger.renew(worker.id).cancel_requested == ()
        assert not worker.complete(task).fenced
        assert stored(ledger, task_id).status is Status.COMPLETED

    def test_what_comes_back_to_a_paused_lane_waits_there(
        self, ledger: Ledger, clock: ManualClock, worker: Worker, other: Worker
    ) -> None:
        put(ledger, *(lone(n) for n in range(4)))
        released, rescheduled, _ = worker.claim(3)
        ledger.pause("work", action())
        worker.release(released)
        worker.reschedule(rescheduled, 5)
        clock.advance(20)
        ledger.rescue()
        assert other.claim(9) == ()
        ledger.resume("work", action())
        assert [task.payload for task in other.claim(9)] == [0, 2, 3, 1]

    def test_a_resumed_lane_is_claimed_in_its_old_order(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, priority=n % 2) for n in range(4)))
        ledger.pause("work", action())
        assert worker.claim(9) == ()
        assert ledger.resume("work", action()) == Acted("work", "done")
        reply = worker.exchange(wants=[Want("work", 3)])
        assert [task.payload for task in reply.claims] == [1, 3, 0]
        assert reply.lanes == {"work": ("work",)}

    def test_a_pause_ends_exactly_at_its_instant(self, ledger: Ledger, clock: ManualClock, worker: Worker) -> None:
        put(ledger, lone(1))
        ledger.pause("work", action(), until=clock.now() + 10)
        reply = worker.exchange(wants=[Want("work", 1)])
        assert (reply.claims, reply.lanes, reply.next_due_in_s) == ((), {"work": ()}, 10)
        clock.advance(9.75)
        assert worker.exchange(wants=[Want("work", 1, "work")]).next_due_in_s == 0.25
        assert _paused(ledger) == {"work": (clock.now() - 9.75, clock.now() + 0.25, "")}
        clock.advance(0.25)
        assert _paused(ledger) == {}
        assert worker.take().payload == 1

    def test_a_pause_is_waited_for_only_if_it_holds_back_ready_tasks_of_a_wanted_kind(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone(1, delay_s=20), lone(2, kind="other"))
        ledger.pause("work", action(), until=clock.now() + 30)
        ledger.pause("other", action(), until=clock.now() + 40)
        assert worker.exchange(wants=[Want("work", 1)]).next_due_in_s == 20
        assert worker.exchange(wants=[Want("work", 1), Want("other", 1)]).next_due_in_s == 20
        clock.advance(20)
        assert worker.exchange(wants=[Want("work", 1)]).next_due_in_s == 10
        assert worker.exchange(wants=[Want("other", 1)]).next_due_in_s == 20
        ledger.pause("work", action())
        assert worker.exchange(wants=[Want("work", 1)]).next_due_in_s is None

    def test_pausing_again_replaces_the_end_and_the_note(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        began_at = clock.now()
        put(ledger, lone(1))
        ledger.pause("work", action(note="maintenance"), until=began_at + 10)
        clock.advance(5)
        assert ledger.pause("work", action(note="goes on"), until=began_at + 60).done
        assert _paused(ledger) == {"work": (began_at, began_at + 60, "goes on")}
        clock.advance(30)
        assert worker.claim() == ()
        ledger.pause("work", action(note="for good"))
        assert _paused(ledger) == {"work": (began_at, None, "for good")}
        clock.advance(1000)
        assert worker.claim() == ()

    def test_a_pause_after_one_that_is_over_begins_anew(self, ledger: Ledger, clock: ManualClock) -> None:
        ledger.pause("work", action(note="first"), until=clock.now() + 10)
        clock.advance(10)
        ledger.pause("work", action(note="second"))
        assert _paused(ledger) == {"work": (clock.now(), None, "second")}

    def test_a_pause_that_ends_in_the_past_holds_nothing_back(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        put(ledger, lone(1))
        ledger.pause("work", action())
        for until in (clock.now(), clock.now() - 10, 0.0):
            assert ledger.pause("work", action(), until=until).done
            assert _paused(ledger) == {}
        assert worker.take().payload == 1

    def test_a_lane_may_be_paused_before_it_has_tasks(self, ledger: Ledger, worker: Worker) -> None:
        assert ledger.pause("work@adobe", action()).done
        assert [lane.name for lane in ledger.lanes()] == ["work@adobe"]
        put(ledger, lone(1, limit="adobe"))
        assert worker.claim() == ()

    def test_a_lane_that_is_not_paused_can_be_resumed(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, lone(1))
        assert ledger.resume("work", action()) == Acted("work", "done")
        assert ledger.resume("unheard", action()).done
        assert [lane.name for lane in ledger.lanes()] == ["work"]
        assert worker.take().payload == 1

    def test_a_job_waits_for_its_paused_lanes(self, ledger: Ledger, worker: Worker) -> None:
        new = job_of(1)
        put(ledger, new)
        ledger.pause("merge", action())
        worker.complete(worker.take())
        assert worker.claim(1, "merge") == ()
        assert job_row(ledger, new.id).status is Status.RUNNING
        ledger.resume("merge", action())
        worker.complete(worker.take("merge"))
        assert job_row(ledger, new.id).status is Status.COMPLETED

    def test_paused_lanes_take_no_room_in_the_reply_from_others(self, ledger: Ledger, worker: Worker) -> None:
        put(ledger, *(lone(n, limit=f"limit-{n:04}") for n in range(self.many)))
        paused = min(20, self.many // 4)
        for n in range(paused):
            ledger.pause(f"work@limit-{n:04}", action())
        lanes = worker.exchange(wants=[Want("work", 0)]).lanes["work"]
        assert len(lanes) == min(self.many - paused, MAX_LANES)
        assert lanes[0] == f"work@limit-{paused:04}"
        assert sum(len(worker.claim(1000)) for _ in range(3)) == self.many - paused

    def test_a_repeated_pause_is_answered_alike_and_does_not_pause_what_was_resumed_since(
        self, ledger: Ledger, worker: Worker
    ) -> None:
        put(ledger, lone(1), lone(2))
        pausing, resuming = action(), action()
        ledger.pause("work", pausing)
        assert ledger.pause("work", pausing) == Acted("work", "done")
        ledger.resume("work", resuming)
        before = everything(ledger)
        assert ledger.pause("work", pausing) == Acted("work", "done")
        assert everything(ledger) == before
        assert worker.take().payload == 1
        ledger.pause("work", action())
        assert ledger.resume("work", resuming) == Acted("work", "done")
        assert worker.claim() == ()

    def test_pauses_are_in_the_audit(self, ledger: Ledger, clock: ManualClock) -> None:
        pausing, resuming = action(note="quota", tenant="acme"), action("bob")
        ledger.pause("work@adobe", pausing)
        clock.advance(3)
        ledger.resume("work@adobe", resuming)
        last, first = ledger.audit()
        assert (first.id, first.verb, first.targets, first.target_count) == (pausing.id, "pause", ("work@adobe",), 1)
        assert (first.who, first.tenant, first.note, first.at) == ("ann", "acme", "quota", clock.now() - 3)
        assert (last.id, last.who, last.verb, last.at) == (resuming.id, "bob", "resume", clock.now())

    def test_an_action_pauses_one_lane_once(self, ledger: Ledger) -> None:
        once = action()
        ledger.pause("work", once)
        for another in (
            lambda: ledger.pause("other", once),
            lambda: ledger.resume("work", once),
            lambda: ledger.cancel([lone(1).id], once),
        ):
            with pytest.raises(Conflict, match="was used before"):
                another()
        assert [*_paused(ledger)] == ["work"]

    def test_lanes_are_shown_by_name_with_their_open_tasks(
        self, ledger: Ledger, clock: ManualClock, worker: Worker
    ) -> None:
        began = clock.now()
        put(ledger, lone(1), lone(2), lone(3), lone(4, delay_s=10), lone(5, kind="other", limit="adobe", delay_s=10))
        put(ledger, lone(6, kind="done"))
        worker.complete(worker.take("done"))
        worker.take()
        ledger.pause("idle@docai", action(note="later"), until=clock.now() + 15)
        nobody = {"paused_at": None, "paused_until": None, "note": ""}
        other = {"name": "other@adobe", "kind": "other", "running_count": 0, **nobody}
        work = {"name": "work", "kind": "work", "running_count": 1, **nobody}
        idle = Lane(
            name="idle@docai",
            kind="idle",
            paused_at=clock.now(),
            paused_until=clock.now() + 15,
            note="later",
            ready_count=0,
            later_count=0,
            running_count=0,
        )
        assert ledger.lanes() == [
            idle,
            Lane(**other, ready_count=0, later_count=1),  # type: ignore[arg-type]  # the rest of its fields
            Lane(**work, ready_count=2, later_count=1, oldest_ready_at=began),  # type: ignore[arg-type]  # the rest of its fields
        ]
        clock.advance(10)
        assert ledger.lanes() == [
            idle,
            Lane(**other, ready_count=1, later_count=0, oldest_ready_at=began + 10),  # type: ignore[arg-type]  # same
            Lane(**work, ready_count=3, later_count=0, oldest_ready_at=began),  # type: ignore[arg-type]  # the rest of its fields
        ]
        clock.advance(5)
        assert [lane.name for lane in ledger.lanes()] == ["other@adobe", "work"]
        for task in worker.claim(9, "other"):
            worker.complete(task)
        assert [lane.name for lane in ledger.lanes()] == ["work"]

    def test_pauses_outlive_reopening(self, ledger: Ledger, clock: ManualClock) -> None:
        put(ledger, lone(1))
        pausing = action(note="till noon")
        ledger.pause("work", pausing, until=clock.now() + 100)
        before = ledger.lanes()
        ledger = self.reopened(ledger, clock)
        assert ledger.lanes() == before
        again = Worker(ledger, clock)
        assert again.claim() == ()
        assert ledger.pause("work", pausing) == Acted("work", "done")
        ledger.resume("work", action())
        assert again.take().payload == 1

    @pytest.mark.parametrize(
        "bad", ["", "Work", "a/b", "..", "@", "a@", "@b", "a@b@c", "a@..", "a b", "a" * 65, 7, None]
    )
    def test_what_cannot_be_a_lane_is_refused(self, ledger: Ledger, bad: object) -> None:
        lane = cast("str", bad)
        for verb in (ledger.pause, ledger.resume):
            with pytest.raises(BadName) as refused:
                verb(lane, action())
            assert refused.value.remedy
        assert (ledger.lanes(), ledger.audit()) == ([], [])

    @pytest.mark.parametrize("bad", [-1, 1e300, float("nan"), "noon", True])
    def test_a_pause_until_no_instant_is_refused(self, ledger: Ledger, bad: object) -> None:
        with pytest.raises(BadInput):
            ledger.pause("work", action(), until=cast("float", bad))
        with pytest.raises(BadInput):
            ledger.pause("work", cast("Action", "ann"))
        assert (ledger.lanes(), ledger.audit()) == ([], [])
