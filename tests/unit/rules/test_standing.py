from __future__ import annotations

import pytest

from forebay.model.lane import Certainty, Depth, Lane
from forebay.model.task import Role, Status, Task, WaitReason
from forebay.rules.standing import NOBODY, job_standing, next_in, standing
from forebay.rules.why import Gate, LimitView, Reason, Surroundings
from tests.unit.builders import NOW, job, task

PAUSE = Gate(reason=WaitReason.PAUSED, text="paused", until=NOW + 30, binds="pause of lane call@api")
FULL = Gate(reason=WaitReason.LIMIT, text="full", binds="in_flight 5/5")
COOLS = Gate(reason=WaitReason.COOLDOWN, text="cools", until=NOW + 8, binds="cooldown of api")


def pending(**changes: object) -> Task:
    return task(**({"status": Status.PENDING, "available_at": NOW - 1, "kind": "call", "lane": "call@api"} | changes))


def around(**changes: object) -> Surroundings:
    return Surroundings(**({"worker_count": 1, "limit": LimitView(eta_s=0.0)} | changes))  # type: ignore[arg-type]


def test_one_that_nothing_holds_starts_now_and_is_next() -> None:
    found = standing(pending(), around(), now=NOW)
    assert (found.wait_reason, found.limit, found.position, found.eta_s, found.eta_at) == (None, "api", 1, 0.0, NOW)
    assert (found.backoff_s, found.backoff_level, found.cooldown_until, found.binds) == (0.0, 0, None, ())
    assert found.more_workers_help is None


def test_where_nobody_works_it_waits_for_a_worker() -> None:
    found = standing(pending(), NOBODY, now=NOW)
    assert (found.wait_reason, found.eta_s, found.more_workers_help) == (WaitReason.NO_WORKER, None, True)


def test_the_longest_of_what_it_waits_for_is_its_time() -> None:
    waiting = pending(wait_reason=WaitReason.RETRY, available_at=NOW + 20, retry_count=2)
    limit = LimitView(gates=(COOLS,), eta_s=8.0, cooldown_for_s=8.0, level=3, mean_call_s=2.0)
    found = standing(waiting, around(limit=limit), now=NOW)
    assert (found.wait_reason, found.backoff_s, found.backoff_level) == (WaitReason.RETRY, 20.0, 2)
    assert (found.eta_s, found.end_eta_at, found.cooldown_until) == (20.0, NOW + 22, NOW + 8)
    assert standing(waiting, around(limit=limit, gates=(PAUSE,)), now=NOW).eta_s == 30.0
    due = standing(waiting._replace(available_at=NOW), around(limit=limit), now=NOW)
    assert (due.wait_reason, due.backoff_s, due.backoff_level, due.eta_s) == (WaitReason.COOLDOWN, 0.0, 3, 8.0)


@pytest.mark.parametrize(
    ("reason", "level"), [(WaitReason.RETRY, 2), (WaitReason.RESCHEDULE, 17), (WaitReason.SCHEDULED, 0)]
)
def test_the_level_of_its_own_delay_is_how_often_it_was_delayed(reason: WaitReason, level: int) -> None:
    waiting = pending(wait_reason=reason, available_at=NOW + 1, retry_count=2, reschedule_count=17)
    assert standing(waiting, around(), now=NOW).backoff_level == level


def test_one_that_is_not_due_has_no_place_in_line() -> None:
    assert standing(pending(available_at=NOW + 1, wait_reason=WaitReason.SCHEDULED), around(), now=NOW).position is None


@pytest.mark.parametrize(
    "held",
    [
        around(worker_count=0),
        around(gates=(Gate(reason=WaitReason.PAUSED, text="until somebody resumes it"),)),
        around(limit=LimitView(eta_s=None)),
        around(limit=None, ahead=Depth(3)),
        around(ahead=None),
    ],
)
def test_where_nobody_can_tell_there_is_no_time(held: Surroundings) -> None:
    found = standing(pending(), held, now=NOW)
    assert (found.eta_s, found.eta_at, found.end_eta_s) == (None, None, None)


@pytest.mark.parametrize(
    ("held", "helps"),
    [
        (around(worker_count=0), True),
        (around(limit=LimitView(gates=(FULL,), eta_s=3.0), ahead=Depth(7)), False),
        (around(gates=(PAUSE,), ahead=Depth(7)), False),
        (around(limit=LimitView(eta_s=3.0), ahead=Depth(7)), True),
        (around(limit=None, ahead=Depth(7)), True),
        (around(limit=LimitView(gates=(FULL,), answers=False)), None),
    ],
)
def test_more_workers_help_where_room_is_left_and_nowhere_else(held: Surroundings, helps: bool | None) -> None:  # noqa: FBT001 - a case
    assert standing(pending(), held, now=NOW).more_workers_help is helps


def test_more_workers_do_not_shorten_a_delay_of_its_own() -> None:
    assert (
        standing(pending(available_at=NOW + 1, wait_reason=WaitReason.SCHEDULED), around(), now=NOW).more_workers_help
        is False
    )
    held_back = pending(available_at=NOW + 1, wait_reason=WaitReason.BUDGET)
    assert standing(held_back, NOBODY, now=NOW).more_workers_help is False


def test_what_binds_is_named() -> None:
    found = standing(pending(), around(gates=(PAUSE,), limit=LimitView(gates=(COOLS, FULL), eta_s=8.0)), now=NOW)
    assert found.binds == ("pause of lane call@api", "cooldown of api", "in_flight 5/5")
    assert [reason.code for reason in found.reasons] == ["paused", "cooldown", "limit"]


def test_the_next_of_a_lane_stands_as_its_first_task_does() -> None:
    lane = Lane(
        name="call@api", kind="call", paused_at=None, paused_until=None, note="", ready_count=3, later_count=0,
        running_count=0,
    )  # fmt: skip
    held = around(limit=LimitView(gates=(FULL,), eta_s=3.0))
    assert next_in(lane, held, now=NOW) == standing(pending(), held, now=NOW)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PENDING])
def test_what_runs_or_has_ended_waits_for_nothing(status: Status) -> None:
    found = standing(pending(status=status), around(worker_count=0), now=NOW)
    assert (found.wait_reason, found.position, found.eta_s, found.more_workers_help) == (None, None, None, None)


def test_a_job_stands_where_its_next_chunk_does_and_ends_when_its_last_one_has_called() -> None:
    half = job(chunk_count=10, open_count=6, running_count=1)
    chunk = pending(role=Role.CHUNK, chunk_index=4)
    soon, late = around(limit=LimitView(eta_s=1.0)), around(limit=LimitView(eta_s=9.0, mean_call_s=2.0), ahead=Depth(4))
    found = job_standing(half, chunk, soon, late, now=NOW)
    assert (found.position, found.eta_s, found.last_eta_s) == (1, 1.0, 9.0)
    assert (found.end_eta_s, found.end_eta_at, found.calls_left_count) == (11.0, NOW + 11, 5)
    assert found.reasons[0] == Reason("job", "40% done, 4 of 10 chunks, 1 running, 5 waiting")


def test_a_job_whose_last_chunks_run_has_no_calls_left() -> None:
    running = pending(status=Status.RUNNING, role=Role.CHUNK, chunk_index=4)
    found = job_standing(job(chunk_count=2, open_count=1, running_count=1), running, NOBODY, NOBODY, now=NOW)
    assert (found.wait_reason, found.calls_left_count, found.end_eta_s) == (None, 0, None)


def test_a_job_whose_last_chunks_may_wait_in_hand_says_for_what_and_not_that_none_has_to_call() -> None:
    running = pending(status=Status.RUNNING, role=Role.CHUNK, chunk_index=4)
    held = around(limit=LimitView(gates=(FULL,), eta_s=1.0, in_hand_count=1))
    found = job_standing(job(chunk_count=2, open_count=1, running_count=1), running, held, held, now=NOW)
    assert (found.wait_reason, found.calls_left_count, found.binds) == (None, None, ("in_flight 5/5",))
    assert [reason.code for reason in found.reasons] == ["job", "running", "limit"]


def test_what_follows_a_split_is_not_known() -> None:
    split = pending(role=Role.SPLIT)
    held = around(limit=LimitView(eta_s=1.0, mean_call_s=1.0))
    found = job_standing(job(), split, held, held, now=NOW)
    assert (found.eta_s, found.end_eta_s, found.calls_left_count) == (1.0, None, None)


def test_a_job_that_has_ended_says_how() -> None:
    ended = job(status=Status.FAILED, error_text="chunk 3 failed")
    assert job_standing(ended, None, NOBODY, NOBODY, now=NOW).reasons == (
        Reason("failed", "it is failed: chunk 3 failed"),
    )


@pytest.mark.parametrize("waiting", [None, pending(role=Role.CHUNK, chunk_index=0)])
def test_a_job_that_was_asked_to_stop_says_so_first(waiting: Task | None) -> None:
    found = job_standing(job(cancel_requested_at=NOW - 1), waiting, NOBODY, NOBODY, now=NOW)
    assert [reason.code for reason in found.reasons][:2] == ["job", "cancel_requested"]
    going_on = job_standing(job(), waiting, NOBODY, NOBODY, now=NOW)
    assert "cancel_requested" not in [reason.code for reason in going_on.reasons]


def test_times_below_a_second_count() -> None:
    limit = LimitView(eta_s=0.5, cooldown_for_s=0.5, mean_call_s=0.25)
    found = standing(pending(), around(limit=limit), now=NOW)
    assert (found.cooldown_until, found.end_eta_s) == (NOW + 0.5, 0.75)


def test_a_claimed_task_waits_for_its_slot_if_all_that_were_claimed_do() -> None:
    running = pending(status=Status.RUNNING, attempt_deadline_at=NOW + 60)
    view = LimitView(gates=(COOLS,), eta_s=8.0, in_hand_count=2, all_in_hand=True)
    found = standing(running, around(limit=view), now=NOW)
    assert [reason.code for reason in found.reasons] == ["running", "cooldown"]
    assert (found.wait_reason, found.eta_s, found.eta_at) == (WaitReason.COOLDOWN, 8.0, NOW + 8)
    assert (found.position, found.binds) == (None, ("cooldown of api",))


def test_which_of_several_claimed_tasks_waits_is_not_guessed() -> None:
    running = pending(status=Status.RUNNING, attempt_deadline_at=NOW + 60)
    view = LimitView(gates=(COOLS,), eta_s=8.0, in_hand_count=2)
    found = standing(running, around(limit=view), now=NOW)
    assert (found.wait_reason, found.eta_s, found.binds) == (None, None, ("cooldown of api",))


@pytest.mark.parametrize(
    ("certainty", "text"),
    [
        (Certainty.EXACT, "961000 tasks are ahead of it"),
        (Certainty.ABOUT, "about 961000 tasks are ahead of it"),
        (Certainty.AT_LEAST, "more than 961000 tasks are ahead of it"),
    ],
)
def test_a_place_says_how_sure_it_is(certainty: Certainty, text: str) -> None:
    found = standing(pending(), around(ahead=Depth(961_000, certainty)), now=NOW)
    assert (found.position, found.position_is) == (961_001, certainty)
    assert [reason.text for reason in found.reasons] == [f"{text} in lane 'call@api'"]
