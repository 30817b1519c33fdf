from __future__ import annotations

import pytest

from forebay.model.lane import Depth
from forebay.model.task import Status, Task, WaitReason
from forebay.rules.why import Gate, LimitView, Reason, Surroundings, why
from tests.unit.builders import NOW, task

STORED = (WaitReason.RETRY, WaitReason.RESCHEDULE, WaitReason.SCHEDULED, WaitReason.DEPENDENCY)
DERIVED = tuple(reason for reason in WaitReason if reason not in STORED)
ALONE = Surroundings(worker_count=1)


def pending(**changes: object) -> Task:
    return task(**({"status": Status.PENDING, "available_at": NOW - 1} | changes))


def codes(chain: tuple[Reason, ...]) -> list[str]:
    return [reason.code for reason in chain]


@pytest.mark.parametrize("reason", STORED)
def test_every_stored_reason_has_a_text_and_a_time(reason: WaitReason) -> None:
    (link,) = why(pending(wait_reason=reason, available_at=NOW + 60), ALONE, now=NOW)
    assert (link.code, link.until) == (reason, NOW + 60)
    assert len(link.text) > 10
    assert "{" not in link.text


@pytest.mark.parametrize("reason", DERIVED)
def test_every_derived_reason_is_told_in_the_words_of_what_holds_the_lane(reason: WaitReason) -> None:
    gate = Gate(reason=reason, text="limit adobe: 150 of 150 in flight", until=NOW + 3)
    assert why(pending(), Surroundings(worker_count=1, gates=(gate,)), now=NOW) == (
        Reason(reason, "limit adobe: 150 of 150 in flight", NOW + 3),
    )


def test_a_retry_tells_how_many_are_used_and_what_went_wrong() -> None:
    waiting = pending(wait_reason=WaitReason.RETRY, available_at=NOW + 9, retry_count=2, error_text="read {timed} out")
    assert why(waiting, ALONE, now=NOW)[0].text == (
        "waits before its next retry (2 of 3 used); last error: read {timed} out"
    )


def test_a_reschedule_tells_how_often_it_happened() -> None:
    waiting = pending(wait_reason=WaitReason.RESCHEDULE, available_at=NOW + 9, reschedule_count=17)
    assert why(waiting, ALONE, now=NOW)[0].text == "was rescheduled (17 times so far)"


def test_a_delay_that_was_asked_for_is_told_as_such() -> None:
    later = pending(available_at=NOW + 9, wait_reason=WaitReason.SCHEDULED)
    assert codes(why(later, ALONE, now=NOW)) == ["scheduled"]


def test_a_task_that_is_younger_than_the_clock_of_whoever_looks_is_ready() -> None:
    assert codes(why(pending(available_at=NOW + 0.01), ALONE, now=NOW)) == ["ready"]


def test_a_delay_that_is_over_holds_nothing_back() -> None:
    waiting = pending(wait_reason=WaitReason.RETRY, available_at=NOW)
    assert codes(why(waiting, ALONE, now=NOW)) == ["ready"]


def test_without_a_worker_nothing_starts() -> None:
    (link,) = why(pending(kind="call_api"), Surroundings(worker_count=0), now=NOW)
    assert (link.code, link.text) == ("no_worker", "no worker that runs 'call_api' is alive: start one")


def test_what_nobody_can_wait_out_comes_before_what_passes_by_itself() -> None:
    gates = tuple(
        Gate(reason=reason, text=reason) for reason in reversed(DERIVED) if reason is not WaitReason.NO_WORKER
    )
    waiting = pending(wait_reason=WaitReason.RETRY, available_at=NOW + 9)
    chain = why(waiting, Surroundings(worker_count=0, ahead=Depth(4), gates=gates), now=NOW)
    assert codes(chain) == [
        "retry",
        "paused",
        "no_worker",
        "quota",
        "budget",
        "breaker",
        "cooldown",
        "limit",
        "line",
    ]


def test_gates_of_one_kind_keep_their_order() -> None:
    gates = tuple(Gate(reason=WaitReason.LIMIT, text=text) for text in ("pages", "calls"))
    chain = why(pending(), Surroundings(worker_count=1, gates=gates), now=NOW)
    assert [link.text for link in chain] == ["pages", "calls"]


def test_those_ahead_in_the_lane_are_counted_last() -> None:
    (link,) = why(pending(lane="work@adobe"), Surroundings(worker_count=1, ahead=Depth(12)), now=NOW)
    assert link == Reason("line", "12 tasks are ahead of it in lane 'work@adobe'")


def test_a_task_that_nothing_holds_is_ready() -> None:
    assert why(pending(), ALONE, now=NOW) == (Reason("ready", "is ready and will be claimed next"),)


def test_a_running_task_tells_its_attempt_and_until_when_it_may_run() -> None:
    running = task(attempt_count=2, attempt_deadline_at=NOW + 89)
    held = Surroundings(worker_count=0, ahead=Depth(3))
    assert why(running, held, now=NOW) == (Reason("running", "attempt 3 runs", NOW + 89),)


def test_a_running_task_tells_what_those_in_hand_wait_for_if_some_do() -> None:
    gate = Gate(reason=WaitReason.LIMIT, text="limit 'api' has 5/5 calls in flight", until=NOW + 3)
    running = task(attempt_count=0, attempt_deadline_at=NOW + 89)
    runs = Reason("running", "attempt 1 runs", NOW + 89)
    held = Surroundings(worker_count=1, limit=LimitView(gates=(gate,), in_hand_count=2))
    text = "limit 'api' has 5/5 calls in flight; of its kind, in hand and waiting for it: 2"
    assert why(running, held, now=NOW) == (runs, Reason("limit", text, NOW + 3))
    calls = Surroundings(worker_count=1, limit=LimitView(gates=(gate,)))
    assert why(running, calls, now=NOW) == (runs,)


def test_a_running_task_that_was_asked_to_stop_says_so() -> None:
    running = task(attempt_count=0, attempt_deadline_at=NOW + 89, cancel_requested_at=NOW)
    assert why(running, ALONE, now=NOW) == (
        Reason("cancel_requested", "attempt 1 runs, and was asked to stop", NOW + 89),
    )


@pytest.mark.parametrize("status", [status for status in Status if status.terminal])
def test_a_task_that_has_ended_says_how_whatever_is_around_it(status: Status) -> None:
    ended = task(status=status, available_at=NOW + 60)
    around = Surroundings(worker_count=0, ahead=Depth(3), gates=(Gate(reason=WaitReason.PAUSED, text="paused"),))
    assert why(ended, around, now=NOW) == (Reason(status, f"it is {status}"),)
    assert why(ended._replace(error_text="no pages"), around, now=NOW) == (Reason(status, f"it is {status}: no pages"),)


def test_a_reader_who_may_not_see_the_note_of_a_pause_sees_the_rest_of_the_text() -> None:
    text = "limit 'api (eu)' is paused (night): resume it (night)"
    reason = Reason("paused", text, NOW + 9, "cli:ann", "night")
    assert reason.without_operator() == Reason("paused", "limit 'api (eu)' is paused: resume it (night)", NOW + 9)
    unnoted = Reason("paused", "is paused ()", None, "cli:ann")
    assert unnoted.without_operator() == Reason("paused", "is paused ()")
