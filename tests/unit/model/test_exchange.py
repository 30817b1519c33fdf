from __future__ import annotations

import math

import pytest

from forebay.errors import BadInput, BadName
from forebay.ids import check_id
from forebay.model.exchange import (
    MAX_CLAIMS,
    Acted,
    Action,
    Hold,
    Release,
    Remembered,
    Reply,
    Session,
    Settle,
    Usage,
    Want,
)
from forebay.model.task import NewTask, Role, Status
from tests.unit.builders import BLOB, JOB_ID, SESSION_ID, TASK_ID, assert_helpful, chunk, follow


def settle(**changes: object) -> Settle:
    fields = {
        "task_id": TASK_ID,
        "job_id": None,
        "token": 1,
        "status": Status.COMPLETED,
        "outcome": "completed",
        "retry_count": 0,
        "reschedule_count": 0,
        "lost_count": 0,
    }
    return Settle(**(fields | changes))


def test_a_session_has_a_worker_and_a_lease() -> None:
    session = Session(id=SESSION_ID, worker="host-1 pid 17", kinds=("work",))
    assert (session.lease_s, session.ended_at, session.exchange_n) == (15.0, None, 0)
    assert Session(id=SESSION_ID, worker="w1", lease_s=0.5).lease_s == 0.5


def test_an_answer_is_empty_and_from_a_living_session_unless_it_says_otherwise() -> None:
    reply = Reply()
    assert (reply.settled, reply.claims, reply.lanes, reply.next_due_in_s, reply.alive) == ((), (), {}, None, True)


def test_a_claim_is_handed_back_unused_unless_it_says_otherwise() -> None:
    assert not Release(TASK_ID, 1).started


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../x"},
        {"worker": ""},
        {"worker": "a\nb"},
        {"worker": "\x1b[2J"},
        {"lease_s": 0},
        {"lease_s": -1},
        {"lease_s": math.nan},
        {"lease_s": math.inf},
        {"kinds": ("Work",)},
        {"kinds": ("work", "")},
        {"kinds": "work"},
        {"kinds": ["work"]},
    ],
    ids=str,
)
def test_a_bad_session_is_refused(change: dict[str, object]) -> None:
    fields = {"id": SESSION_ID, "worker": "w1"}
    with pytest.raises(BadInput) as caught:
        Session(**(fields | change))  # type: ignore[arg-type]  # the point of this test
    assert_helpful(caught.value)


def test_a_want_names_a_kind_and_a_bounded_count() -> None:
    assert [Want("work", count).count for count in (0, MAX_CLAIMS)] == [0, 1000]


@pytest.mark.parametrize(
    ("kind", "count", "grace_s"), [("Work", 1, 0), ("work", -1, 0), ("work", MAX_CLAIMS + 1, 0), ("work", 1, math.nan)]
)
def test_a_bad_want_is_refused(kind: str, count: int, grace_s: float) -> None:
    with pytest.raises(BadInput) as caught:
        Want(kind, count, grace_s=grace_s)
    assert_helpful(caught.value)


def test_usage_is_an_amount_of_a_unit() -> None:
    assert [Usage("adobe", "pages", amount).amount for amount in (0, 15, 1e12)] == [0, 15, 1e12]


@pytest.mark.parametrize(
    ("meter", "unit", "amount"),
    [("Adobe", "pages", 1), ("adobe", "a/b", 1), ("adobe", "pages", -1), ("adobe", "pages", math.nan)],
)
def test_bad_usage_is_refused(meter: str, unit: str, amount: float) -> None:
    with pytest.raises(BadInput) as caught:
        Usage(meter, unit, amount)
    assert_helpful(caught.value)
    assert "seconds" not in str(caught.value)


def test_a_hold_is_bounded() -> None:
    assert Hold(TASK_ID, 1, 60.0).hold_s == 60.0
    with pytest.raises(BadInput, match="hold_s"):
        Hold(TASK_ID, 1, math.nan)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.RUNNING])
def test_a_settle_ends_an_attempt(status: Status) -> None:
    assert settle(status=status).status is status


@pytest.mark.parametrize("status", [Status.RUNNING, "completed", "gone", None, 7])
def test_a_settle_that_ends_nothing_is_refused(status: object) -> None:
    with pytest.raises(BadInput, match="ends an attempt") as caught:
        settle(status=status)
    assert_helpful(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"delay_s": -1},
        {"delay_s": math.nan},
        {"available_at": -1},
        {"available_at": math.inf},
        {"result_blob": "scan.pdf"},
        {"token": -1},
        {"token": "1"},
        {"retry_count": -1},
        {"reschedule_count": True},
        {"lost_count": 1.5},
        {"error_class": "Timeout!"},
    ],
    ids=str,
)
def test_a_settle_that_no_store_could_keep_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadInput) as caught:
        settle(**change)
    assert_helpful(caught.value)


def test_a_settle_brings_chunks_and_follow_ups_and_nothing_else() -> None:
    assert len(settle(job_id=JOB_ID, follow_ups=(chunk(0), follow("told"))).follow_ups) == 2
    for other in (*(NewTask(kind="work", role=role) for role in (Role.LONE, Role.SPLIT, Role.MERGE)), "chunk", None):
        with pytest.raises(BadInput, match="is not a follow-up") as caught:
            settle(job_id=JOB_ID, follow_ups=(chunk(0), other))
        assert_helpful(caught.value)


def test_a_follow_up_without_a_key_is_refused_before_it_is_sent() -> None:
    with pytest.raises(BadInput, match="needs an idempotency key") as caught:
        settle(job_id=JOB_ID, follow_ups=(NewTask(kind="callback", role=Role.FOLLOW),))
    assert_helpful(caught.value)


def test_a_lone_task_brings_nothing_along() -> None:
    with pytest.raises(BadInput, match="has no follow-ups") as caught:
        settle(follow_ups=(chunk(0),))
    assert_helpful(caught.value)


def test_the_words_of_an_error_are_made_fit_to_be_stored() -> None:
    kept = settle(error_text="a\0" + "b" * 5000, traceback="\ud800" + "c" * 70_000)
    assert kept.error_text is not None
    assert kept.traceback is not None
    assert (len(kept.error_text), len(kept.traceback)) == (4000, 64 * 1024)
    assert "\0" not in kept.error_text
    assert kept.traceback.startswith("?c")
    assert (settle().error_text, settle().traceback) == (None, None)


def test_an_action_says_who_and_has_an_id_of_its_own() -> None:
    one, other = Action(who="ann"), Action(who="ann")
    assert check_id(one.id) != other.id
    assert Action(who="ann", note="a\0b").note == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize("change", [{"who": ""}, {"who": "a\nb"}, {"tenant": "../acme"}, {"id": "1"}], ids=str)
def test_a_bad_action_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(BadName) as caught:
        Action(**({"who": "ann"} | change))
    assert_helpful(caught.value)


def test_an_action_is_done_or_says_why_not() -> None:
    assert Acted(TASK_ID, "done").done
    assert not Acted(TASK_ID, "changed", "It has another result now.").done


def test_a_remembered_result_is_known_by_hashes() -> None:
    kept = Remembered(tenant="acme", key=BLOB, document=BLOB, result_blob=BLOB, result_json="[1]")
    assert (kept.created_at, kept.result_json) == (0.0, "[1]")
    assert Remembered(tenant="acme", key=BLOB, document=BLOB).result_blob is None
    fields = {"tenant": "acme", "key": BLOB, "document": BLOB}
    for change in ({"tenant": ".."}, {"key": "k"}, {"document": "scan.pdf"}, {"result_blob": ""}, {"result_json": "["}):
        with pytest.raises(BadInput) as caught:
            Remembered(**(fields | change))  # type: ignore[arg-type]  # the point of this test
        assert_helpful(caught.value)
