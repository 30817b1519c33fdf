from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadInput, BadName, Conflict
from forebay.model.call_outcome import CallOutcome, Kind
from forebay.model.exchange import Settle, Usage
from forebay.model.job import Event
from forebay.model.outcome import Canceled, Completed, Failed, Outcome, Rescheduled
from forebay.model.task import Role, Status, Task, WaitReason
from forebay.rules import verdict
from forebay.rules.settlement import (
    MAX_LOST,
    MAX_OUTAGE_RESCHEDULES,
    MOVES,
    Ending,
    Move,
    after,
    decide,
    lost,
    released,
    repeats,
    settled,
    suspect,
)
from forebay.rules.verdict import ErrorClass, Verdict
from tests.unit.builders import BLOB, JOB_ID, NOW, TASK_ID, assert_helpful, chunk, follow, task

PENDING, RUNNING, COMPLETED, FAILED, CANCELED = Status

# Written out once more, by hand: the table in the code must say exactly this.
LEGAL = {
    (Move.CLAIM, PENDING): RUNNING,
    (Move.COMPLETE, RUNNING): COMPLETED,
    (Move.RETRY, RUNNING): PENDING,
    (Move.RESCHEDULE, RUNNING): PENDING,
    (Move.RELEASE, RUNNING): PENDING,
    (Move.LOSE, RUNNING): PENDING,
    (Move.FAIL, RUNNING): FAILED,
    (Move.CANCEL, RUNNING): CANCELED,
    (Move.CANCEL, PENDING): CANCELED,
    (Move.REVIVE, FAILED): PENDING,
    (Move.REVIVE, CANCELED): PENDING,
    (Move.RESULT_LOST, COMPLETED): PENDING,
}
JITTERS = st.floats(0, 1)
USED = (Usage("adobe", "pages", 15),)
EVENTS = (Event(name="seen"),)
RETRIED = [each for each in ErrorClass if verdict.of(each).verdict is Verdict.RETRY]
WAITING = [each for each in ErrorClass if verdict.of(each).verdict in {Verdict.RESCHEDULE, Verdict.STOP_LANE}]
FINAL = [each for each in ErrorClass if verdict.of(each).verdict in {Verdict.FAIL, Verdict.REPLAN}]


def failed(error_class: str = "timeout", **changes: object) -> Failed:
    return Failed(error_class=error_class, text="it broke", **changes)  # type: ignore[arg-type]  # a wrong name fails


def decided(held: Task, outcome: Outcome, *, jitter: float = 1.0) -> Settle:
    return decide(held, outcome, now=NOW, jitter=jitter)


def ended(held: Task, outcome: Outcome, *, jitter: float = 1.0) -> Ending:
    return settled(held, decided(held, outcome, jitter=jitter), NOW)


def next_attempt(held: Task, ending: Ending) -> Task:
    """The same task, claimed once more after it went back to pending."""
    assert ending.status is PENDING
    return held._replace(
        retry_count=ending.retry_count,
        reschedule_count=ending.reschedule_count,
        lost_count=ending.lost_count,
        available_at=ending.available_at,
        claim_count=held.claim_count + 1,
        attempt_count=held.attempt_count + ending.counted,
    )


@pytest.mark.parametrize(("move", "status"), list(product(Move, Status)))
def test_a_move_is_in_the_table_or_refused(move: Move, status: Status) -> None:
    if (move, status) in LEGAL:
        assert after(move, status) is LEGAL[move, status]
    else:
        with pytest.raises(Conflict, match=f"that is {status} cannot be {move}") as caught:
            after(move, status)
        assert_helpful(caught.value)


def test_the_table_has_every_move_and_nothing_else() -> None:
    assert set(MOVES) == set(Move)
    assert {(move, before): to for move, row in MOVES.items() for before, to in row.items()} == LEGAL


def test_only_a_person_or_a_lost_result_leads_out_of_a_terminal_status() -> None:
    assert {move for move, before in LEGAL if before.terminal} == {Move.REVIVE, Move.RESULT_LOST}


def test_a_completed_attempt_keeps_its_result_and_what_it_brings_along() -> None:
    follow_ups = (chunk(0), follow("told"))
    outcome = Completed(result_json="1", result_blob=BLOB, follow_ups=follow_ups, usage=USED, events=EVENTS)
    held = task(job_id=JOB_ID, retry_count=2, reschedule_count=4, lost_count=1, deadline_at=NOW - 1)
    settle = decided(held, outcome)
    assert (settle.status, settle.outcome) == (COMPLETED, "completed")
    assert (settle.result_json, settle.result_blob, settle.follow_ups) == ("1", BLOB, follow_ups)
    assert (settle.usage, settle.events) == (USED, EVENTS)
    assert (settle.retry_count, settle.reschedule_count, settle.lost_count) == (2, 4, 1)
    assert (settle.error_class, settle.error_text, settle.wait_reason) == (None, None, None)
    ending = settled(held, settle, NOW)
    assert (ending.status, ending.finished_at, ending.result_json, ending.result_blob) == (COMPLETED, NOW, "1", BLOB)
    assert (ending.settled, ending.counted, ending.keeps_place) == (True, True, False)
    assert ending.available_at == held.available_at


@pytest.mark.parametrize("role", [Role.MERGE, Role.FOLLOW])
def test_chunks_that_a_merge_or_a_follow_up_brings_are_refused(role: Role) -> None:
    with pytest.raises(BadInput, match=f"The {role} task {TASK_ID} brings 2 chunks along") as caught:
        decided(task(job_id=JOB_ID, role=role), Completed(follow_ups=(chunk(0), follow("told"), chunk(1))))
    assert_helpful(caught.value)


@pytest.mark.parametrize("role", [Role.SPLIT, Role.CHUNK, Role.MERGE, Role.FOLLOW])
def test_every_task_of_a_job_may_bring_a_follow_up(role: Role) -> None:
    brought = (follow("told"),)
    assert decided(task(job_id=JOB_ID, role=role), Completed(follow_ups=brought)).follow_ups == brought


@pytest.mark.parametrize("role", [Role.SPLIT, Role.CHUNK])
def test_a_split_or_a_chunk_may_bring_chunks(role: Role) -> None:
    brought = (chunk(0), chunk(1))
    assert decided(task(job_id=JOB_ID, role=role), Completed(follow_ups=brought)).follow_ups == brought


def test_a_stopped_attempt_ends_canceled_and_says_so() -> None:
    settle = decided(task(), Canceled(text="Job cancelled due to timeout", usage=USED, events=EVENTS))
    assert (settle.status, settle.outcome) == (CANCELED, "canceled")
    assert (settle.error_class, settle.error_text) == ("canceled", "Job cancelled due to timeout")
    assert (settle.usage, settle.events) == (USED, EVENTS)
    assert settled(task(), settle, NOW).finished_at == NOW


def test_a_failure_of_class_canceled_is_a_cancel_and_no_retry() -> None:
    settle = decided(task(), failed("canceled"))
    assert (settle.status, settle.outcome, settle.error_class) == (CANCELED, "canceled", "canceled")
    assert (settle.error_text, settle.retry_count) == ("it broke", 0)


def test_a_reschedule_sleeps_for_its_delay_and_burns_no_retry() -> None:
    held = task(retry_count=1, reschedule_count=6)
    settle = decided(held, Rescheduled(delay_s=30, usage=USED, events=EVENTS))
    assert (settle.status, settle.outcome, settle.wait_reason) == (PENDING, "rescheduled", WaitReason.RESCHEDULE)
    assert (settle.retry_count, settle.reschedule_count) == (1, 7)
    assert (settle.delay_s, settle.available_at) == (30, None)
    assert (settle.usage, settle.events) == (USED, EVENTS)
    ending = settled(held, settle, NOW + 5)
    assert (ending.available_at, ending.finished_at) == (NOW + 35, None)
    assert (ending.keeps_place, ending.wait_reason) == (False, WaitReason.RESCHEDULE)


def test_a_delay_of_zero_goes_to_the_back_of_the_line() -> None:
    ending = ended(task(tag=7), Rescheduled(delay_s=0))
    assert (ending.status, ending.available_at, ending.keeps_place) == (PENDING, NOW, False)


def test_a_delay_has_no_upper_bound_in_practice() -> None:
    century_s = 100 * 365 * 86_400
    assert ended(task(), Rescheduled(delay_s=century_s)).available_at == NOW + century_s


def test_a_reschedule_until_an_instant_starts_then() -> None:
    held = task()
    settle = decided(held, Rescheduled(until=NOW + 3600))
    assert (settle.available_at, settle.reschedule_count) == (NOW + 3600, 1)
    assert settled(held, settle, NOW + 5).available_at == NOW + 3600


def test_an_instant_in_the_past_is_a_delay_of_zero() -> None:
    assert ended(task(), Rescheduled(until=NOW - 3600)).available_at == NOW


def test_a_reschedule_has_an_error_class_only_if_an_error_was_the_reason() -> None:
    settle = decided(task(), Rescheduled(delay_s=1))
    assert (settle.error_class, settle.error_text) == (None, None)
    spoken = decided(task(), Rescheduled(delay_s=1, text="the market is closed"))
    assert (spoken.error_class, spoken.error_text) == (None, "the market is closed")
    refused = decided(task(), failed("rate_limited", delay_s=1.0))
    assert refused.error_class == "rate_limited"


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(Rescheduled(delay_s=0), ""), (failed("rate_limited", delay_s=0.0), ": rate_limited: it broke")],
)
def test_the_100th_reschedule_succeeds_and_the_101st_fails(outcome: Outcome, reason: str) -> None:
    held = task(max_reschedules=100, max_retries=3)
    for number in range(1, 101):
        ending = ended(held, outcome)
        assert (ending.status, ending.reschedule_count, ending.retry_count) == (PENDING, number, 0)
        held = next_attempt(held, ending)
    ending = ended(held, outcome)
    assert (ending.status, ending.outcome, ending.finished_at) == (FAILED, "failed", NOW)
    assert ending.error_class == ErrorClass.RESCHEDULES_EXCEEDED
    assert ending.error_text == f"Max reschedules (100) exceeded{reason}"
    assert (ending.reschedule_count, ending.retry_count) == (100, 0)


def test_no_reschedule_is_allowed_where_none_is_wanted() -> None:
    settle = decided(task(max_reschedules=0), Rescheduled(delay_s=1, usage=USED))
    assert (settle.status, settle.error_text, settle.usage) == (FAILED, "Max reschedules (0) exceeded", USED)


def test_reschedules_without_a_ceiling_never_end() -> None:
    ending = ended(task(reschedule_count=1_000_000), Rescheduled(delay_s=1))
    assert (ending.status, ending.reschedule_count) == (PENDING, 1_000_001)


def test_a_reschedule_past_the_deadline_fails_at_once() -> None:
    for outcome in (Rescheduled(delay_s=60), Rescheduled(until=NOW + 60)):
        assert decided(task(deadline_at=NOW + 61), outcome).status is PENDING
        settle = decided(task(deadline_at=NOW + 60), outcome)
        assert (settle.status, settle.error_class, settle.reschedule_count) == (FAILED, "deadline", 0)
        assert settle.error_text == "It would start again after its deadline: rescheduled"
    spoken = decided(task(deadline_at=NOW), Rescheduled(delay_s=60, text="HTTP 429"))
    assert spoken.error_text == "It would start again after its deadline: HTTP 429"


@pytest.mark.parametrize("error_class", WAITING)
def test_what_the_provider_asks_to_wait_for_burns_no_retry(error_class: ErrorClass) -> None:
    held = task(retry_count=3, max_retries=3, reschedule_count=4)
    settle = decided(held, failed(error_class, usage=USED, events=EVENTS))
    assert (settle.status, settle.outcome, settle.wait_reason) == (PENDING, "rescheduled", WaitReason.RESCHEDULE)
    assert (settle.retry_count, settle.reschedule_count) == (3, 5)
    assert (settle.error_class, settle.error_text) == (error_class, "it broke")
    assert (settle.usage, settle.events) == (USED, EVENTS)


def test_the_classes_that_wait_are_rate_limits_quotas_and_credentials() -> None:
    assert set(WAITING) == {ErrorClass.RATE_LIMITED, ErrorClass.QUOTA_EXHAUSTED, ErrorClass.AUTH}


def test_throttling_burns_no_retry_however_often_it_happens() -> None:
    held = task(max_retries=3)
    for _ in range(500):
        held = next_attempt(held, ended(held, failed("rate_limited")))
    assert (held.retry_count, held.reschedule_count) == (0, 500)
    assert ended(held, failed("timeout")).status is PENDING


def test_an_attempt_that_ran_out_of_its_time_burns_a_retry_also_in_an_outage() -> None:
    ending = ended(task(max_retries=3), failed("timeout", provider_down=True, delay_s=2.0))
    assert (ending.status, ending.reschedule_count, ending.retry_count) == (PENDING, 0, 1)


@pytest.mark.parametrize(("kind", "retries"), [("failed", 0), ("unsent", 0), ("cut_off", 1)])
def test_a_time_out_that_the_provider_answered_is_part_of_its_outage(kind: Kind, retries: int) -> None:
    call = CallOutcome(kind, status=504, blames_provider=True)
    ending = ended(task(max_retries=3), failed("timeout", provider_down=True, delay_s=2.0, call=call))
    assert (ending.status, ending.retry_count, ending.reschedule_count) == (PENDING, retries, 1 - retries)


@pytest.mark.parametrize("error_class", ["network_error", "service_unavailable", "internal_error"])
def test_an_outage_of_the_provider_burns_no_retry(error_class: str) -> None:
    held = task(max_retries=3)
    for number in range(1, MAX_OUTAGE_RESCHEDULES + 1):
        ending = ended(held, failed(error_class, provider_down=True, delay_s=2.0))
        assert (ending.status, ending.reschedule_count, ending.retry_count) == (PENDING, number, 0)
        assert ending.error_class == error_class
        held = next_attempt(held, ending)
    # It may be the task that breaks the provider: from now on its retries are used up.
    assert ended(held, failed(error_class, provider_down=True)).retry_count == 1


def test_an_outage_never_exceeds_the_reschedules_that_a_task_allows() -> None:
    ending = ended(task(max_reschedules=2, reschedule_count=2), failed("internal_error", provider_down=True))
    assert (ending.status, ending.retry_count, ending.reschedule_count) == (PENDING, 1, 2)


def test_an_outage_changes_nothing_for_what_is_not_retried() -> None:
    assert ended(task(), failed("internal_error", provider_down=True, permanent=True)).status is FAILED
    assert ended(task(), failed("internal_error")).retry_count == 1


def test_throttling_without_a_hint_waits_longer_each_time_up_to_half_a_minute() -> None:
    waits = [decided(task(reschedule_count=number), failed("rate_limited"), jitter=0.0).delay_s for number in range(7)]
    assert waits == [2, 4, 8, 16, 30, 30, 30]


@given(st.integers(0, 50), JITTERS)
def test_jitter_only_lengthens_the_wait_after_throttling(reschedule_count: int, jitter: float) -> None:
    delay_s = decided(task(reschedule_count=reschedule_count), failed("rate_limited"), jitter=jitter).delay_s
    step_s = [2, 4, 8, 16, 30][min(reschedule_count, 4)]
    assert step_s <= delay_s <= 1.2 * step_s


def test_the_providers_own_hint_goes_first() -> None:
    for error_class in ("rate_limited", "timeout"):
        assert decided(task(), failed(error_class, delay_s=12.5)).delay_s == 12.5
        assert decided(task(), failed(error_class, delay_s=0.0)).delay_s == 0


@pytest.mark.parametrize("error_class", RETRIED)
def test_a_passing_failure_is_retried_with_its_evidence(error_class: ErrorClass) -> None:
    held = task(reschedule_count=5, lost_count=2)
    settle = decided(held, failed(error_class, traceback="Traceback …", usage=USED, events=EVENTS))
    assert (settle.status, settle.outcome, settle.wait_reason) == (PENDING, "retried", WaitReason.RETRY)
    assert (settle.retry_count, settle.reschedule_count, settle.lost_count) == (1, 5, 2)
    assert (settle.error_class, settle.error_text, settle.traceback) == (error_class, "it broke", "Traceback …")
    assert (settle.usage, settle.events) == (USED, EVENTS)
    ending = settled(held, settle, NOW)
    assert (ending.error_class, ending.error_text, ending.traceback) == (error_class, "it broke", "Traceback …")
    assert (ending.available_at, ending.finished_at) == (NOW + settle.delay_s, None)


def attempts_until_failed(held: Task, outcome: Outcome) -> int:
    for attempt in range(1, 50):
        ending = ended(held, outcome)
        if ending.status is FAILED:
            return attempt
        held = next_attempt(held, ending)
    raise AssertionError("it never fails")


@pytest.mark.parametrize("max_retries", [0, 1, 3, 7])
def test_so_many_retries_make_one_attempt_more(max_retries: int) -> None:
    assert attempts_until_failed(task(max_retries=max_retries), failed("timeout")) == max_retries + 1


@pytest.mark.parametrize(
    ("error_class", "attempts"),
    [("parser_crashed", 2), ("parser_timeout", 2), ("parser_memory", 2), ("bad_response", 3), ("timeout", 4)],
)
def test_a_class_may_lower_the_ceiling_of_retries(error_class: str, attempts: int) -> None:
    assert attempts_until_failed(task(max_retries=3), failed(error_class)) == attempts


@pytest.mark.parametrize("error_class", ["parser_crashed", "bad_response"])
def test_a_class_never_raises_the_ceiling_of_retries(error_class: str) -> None:
    assert attempts_until_failed(task(max_retries=0), failed(error_class)) == 1


def test_retries_wait_twice_as_long_each_time() -> None:
    waits = [decided(task(retry_count=number, max_retries=9), failed("timeout")).delay_s for number in range(9)]
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300]


@given(st.integers(0, 20), JITTERS)
def test_jitter_takes_at_most_half_of_a_retry_delay_away(retry_count: int, jitter: float) -> None:
    held = task(retry_count=retry_count, max_retries=100)
    step_s = min(2.0 * 2**retry_count, 300)
    assert step_s / 2 <= decided(held, failed("timeout"), jitter=jitter).delay_s <= step_s


def test_a_failure_at_the_ceiling_keeps_its_own_class_and_evidence() -> None:
    held = task(retry_count=3, max_retries=3)
    settle = decided(held, failed("timeout", traceback="Traceback …", usage=USED, events=EVENTS))
    assert (settle.status, settle.outcome, settle.wait_reason) == (FAILED, "failed", None)
    assert (settle.error_class, settle.error_text, settle.traceback) == ("timeout", "it broke", "Traceback …")
    assert (settle.retry_count, settle.usage, settle.events) == (3, USED, EVENTS)
    assert settled(held, settle, NOW).finished_at == NOW


@pytest.mark.parametrize("error_class", FINAL)
def test_what_no_retry_can_mend_fails_at_once(error_class: ErrorClass) -> None:
    settle = decided(task(), failed(error_class))
    assert (settle.status, settle.error_class, settle.retry_count) == (FAILED, error_class, 0)


@pytest.mark.parametrize("error_class", [*RETRIED, *WAITING, *FINAL])
def test_a_permanent_failure_fails_whatever_its_class(error_class: ErrorClass) -> None:
    settle = decided(task(), failed(error_class, permanent=True))
    assert (settle.status, settle.error_class) == (FAILED, error_class)
    assert (settle.retry_count, settle.reschedule_count) == (0, 0)


def test_a_retry_that_would_start_after_the_deadline_is_not_made() -> None:
    assert decided(task(deadline_at=NOW + 61), failed("timeout", delay_s=60.0)).status is PENDING
    settle = decided(task(deadline_at=NOW + 60), failed("timeout", delay_s=60.0))
    assert (settle.status, settle.error_class, settle.retry_count) == (FAILED, "timeout", 0)


@pytest.mark.parametrize("outcome", [None, "completed", {"status": "completed"}, Completed, ValueError("boom")])
def test_what_is_no_outcome_is_refused(outcome: Outcome) -> None:
    with pytest.raises(BadInput, match="is not an outcome") as caught:
        decided(task(), outcome)
    assert_helpful(caught.value)


def test_a_settle_repeats_what_was_written_unless_a_cancel_overruled_it() -> None:
    settle = decided(task(), Rescheduled(delay_s=1))
    assert [move for move in Move if repeats(settle, move)] == [Move.RESCHEDULE, Move.CANCEL]
    assert not repeats(decided(task(), Completed()), Move.LOSE)


def test_an_unknown_error_class_is_refused() -> None:
    with pytest.raises(BadName, match="is not an error class"):
        decided(task(), failed("whatever"))


ASKED = task(job_id=JOB_ID, cancel_requested_at=NOW - 1, retry_count=1, reschedule_count=2, lost_count=3)


@pytest.mark.parametrize(
    "outcome",
    [
        Rescheduled(delay_s=60),
        failed("timeout"),
        failed("rate_limited"),
        Completed(follow_ups=(chunk(0),)),
        Completed(follow_ups=(follow("told"), chunk(0))),
    ],
    ids=["rescheduled", "retried", "throttled", "split", "split and told"],
)
def test_what_would_go_on_ends_canceled_once_that_was_asked_for(outcome: Outcome) -> None:
    ending = ended(ASKED, outcome)
    assert (ending.status, ending.outcome, ending.finished_at) == (CANCELED, "canceled", NOW)
    assert (ending.error_class, ending.error_text) == ("canceled", "Canceled")
    assert (ending.retry_count, ending.reschedule_count, ending.lost_count) == (1, 2, 3)
    assert (ending.settled, ending.counted, ending.wait_reason) == (True, True, None)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Completed(result_json="1"), COMPLETED),
        (Completed(follow_ups=(follow("told"),)), COMPLETED),
        (failed("invalid_pdf"), FAILED),
        (Canceled(text="stopped"), CANCELED),
    ],
)
def test_what_ended_by_itself_stays_so_though_a_cancel_was_asked_for(outcome: Outcome, status: Status) -> None:
    assert ended(ASKED, outcome) == ended(ASKED._replace(cancel_requested_at=None), outcome)
    assert ended(ASKED, outcome).status is status


def test_a_released_claim_is_canceled_once_that_was_asked_for() -> None:
    for ending in (released(ASKED, NOW, started=True), lost(ASKED, NOW, why="its session ended")):
        assert (ending.status, ending.outcome, ending.finished_at) == (CANCELED, "canceled", NOW)
        assert (ending.error_class, ending.lost_count, ending.settled) == ("canceled", 3, False)


@pytest.mark.parametrize("started", [True, False])
def test_a_released_claim_goes_back_to_its_place_and_costs_nothing(started: bool) -> None:  # noqa: FBT001 - a case
    held = task(retry_count=1, reschedule_count=2, lost_count=3)
    ending = released(held, NOW, started=started)
    assert (ending.status, ending.outcome, ending.finished_at) == (PENDING, "released", None)
    assert (ending.keeps_place, ending.available_at) == (True, held.available_at)
    assert (ending.retry_count, ending.reschedule_count, ending.lost_count) == (1, 2, 3)
    assert (ending.counted, ending.settled) == (started, False)


def test_a_lost_attempt_goes_back_to_its_place_and_is_counted_apart() -> None:
    held = task(retry_count=1, reschedule_count=2)
    ending = lost(held, NOW, why="its session ended")
    assert (ending.status, ending.outcome, ending.finished_at) == (PENDING, "lost", None)
    assert (ending.keeps_place, ending.available_at) == (True, held.available_at)
    assert (ending.retry_count, ending.reschedule_count, ending.lost_count) == (1, 2, 1)
    assert (ending.counted, ending.settled) == (True, False)
    assert (ending.error_class, ending.error_text) == (None, "its session ended")


def test_five_lost_attempts_make_a_task_poison() -> None:
    held = task(retry_count=1, reschedule_count=2)
    for number in range(1, 5):
        ending = lost(held, NOW, why="its session ended")
        assert (ending.status, ending.lost_count) == (PENDING, number)
        held = next_attempt(held, ending)
    ending = lost(held, NOW, why="its attempt was overdue")
    assert (ending.status, ending.outcome, ending.finished_at) == (FAILED, "lost", NOW)
    assert (ending.error_class, ending.lost_count) == ("poison", 5)
    assert ending.error_text == "5 attempts were lost with their workers, the last one because its attempt was overdue"
    assert (ending.retry_count, ending.reschedule_count, ending.available_at) == (1, 2, held.available_at)
    assert (ending.keeps_place, ending.settled) == (False, False)


OUTCOMES = st.one_of(
    st.just(Completed()),
    st.just(Canceled()),
    st.builds(lambda delay_s: Rescheduled(delay_s=delay_s), st.floats(0, 1000)),
    st.builds(lambda until: Rescheduled(until=until), st.floats(NOW - 1000, NOW + 1000)),
    st.builds(
        lambda error_class, permanent, delay_s: failed(error_class, permanent=permanent, delay_s=delay_s),
        st.sampled_from([each for each in ErrorClass if each is not ErrorClass.CANCELED]),
        st.sampled_from([False, False, False, True]),
        st.none() | st.floats(0, 1000),
    ),
)
PASSING = st.one_of(
    st.just(Rescheduled(delay_s=0)),
    st.sampled_from([failed(each) for each in (*RETRIED, *WAITING)]),
)
STEPS = PASSING | st.sampled_from(["release", "lose"])
HELD = st.builds(
    task,
    retry_count=st.integers(0, 5),
    reschedule_count=st.integers(0, 5),
    lost_count=st.integers(0, 4),
    claim_count=st.integers(1, 1000),
    max_retries=st.integers(0, 5),
    max_reschedules=st.none() | st.integers(0, 5),
    deadline_at=st.none() | st.floats(NOW - 10, NOW + 1000),
    cancel_requested_at=st.none() | st.just(NOW - 1),
    role=st.sampled_from(Role),
)


@pytest.mark.slow
@given(st.integers(0, 4), st.integers(0, 4), st.lists(st.tuples(STEPS, JITTERS), min_size=15, max_size=40))
def test_no_sequence_of_outcomes_gets_past_its_ceilings(
    max_retries: int, max_reschedules: int, steps: list[tuple[Outcome | str, float]]
) -> None:
    held = task(max_retries=max_retries, max_reschedules=max_reschedules, attempt_count=0)
    counted = 0
    for step, jitter in steps:
        if step == "release":
            ending = released(held, NOW, started=True)
        elif step == "lose":
            ending = lost(held, NOW, why="its session ended")
        else:
            assert not isinstance(step, str)
            ending = ended(held, step, jitter=jitter)
        counted += step != "release"
        assert ending.retry_count <= max_retries
        assert ending.reschedule_count <= max_reschedules
        assert ending.lost_count <= MAX_LOST
        assert counted <= max_retries + max_reschedules + MAX_LOST
        if ending.status is not PENDING:
            assert ending.status is FAILED
            return
        held = next_attempt(held, ending)


@given(HELD, OUTCOMES, JITTERS)
def test_counters_never_fall_and_rise_by_one_in_all(held: Task, outcome: Outcome, jitter: float) -> None:
    ending = ended(held, outcome, jitter=jitter)
    retries = ending.retry_count - held.retry_count
    reschedules = ending.reschedule_count - held.reschedule_count
    assert (retries, reschedules) in {(0, 0), (1, 0), (0, 1)}
    assert (retries, reschedules, ending.outcome) != (0, 0, "retried")
    assert ending.lost_count == held.lost_count


@given(HELD, OUTCOMES, JITTERS)
def test_a_settle_always_carries_the_token_of_its_claim(held: Task, outcome: Outcome, jitter: float) -> None:
    settle = decided(held, outcome, jitter=jitter)
    assert (settle.task_id, settle.job_id, settle.token) == (held.id, held.job_id, held.claim_count)


@pytest.mark.slow
@given(HELD, OUTCOMES, JITTERS)
def test_a_task_that_waits_knows_why_and_until_when_and_one_that_ended_when(
    held: Task, outcome: Outcome, jitter: float
) -> None:
    ending = ended(held, outcome, jitter=jitter)
    if ending.status is PENDING:
        assert ending.wait_reason in {WaitReason.RETRY, WaitReason.RESCHEDULE}
        assert ending.finished_at is None
        assert NOW <= ending.available_at <= NOW + 1000
        assert held.deadline_at is None or ending.available_at < held.deadline_at
    else:
        assert (ending.wait_reason, ending.finished_at) == (None, NOW)
    assert ending.status in set(LEGAL.values()) - {RUNNING}


@given(HELD, OUTCOMES, JITTERS)
def test_what_failed_or_was_canceled_has_a_class_of_the_vocabulary(held: Task, outcome: Outcome, jitter: float) -> None:
    ending = ended(held, outcome, jitter=jitter)
    if ending.status in {FAILED, CANCELED}:
        assert ending.error_class in set(ErrorClass)
        assert ending.error_text


@pytest.mark.slow
def test_a_task_that_was_lost_three_times_is_suspect() -> None:
    assert [suspect(task(lost_count=count)) for count in range(5)] == [False, False, False, True, True]
