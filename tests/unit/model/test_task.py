from __future__ import annotations

import math
from typing import Any

import pytest

from forebay.errors import BadInput, BadName, BadPayload, ForebayError, TooLarge
from forebay.ids import check_id, derived_id, random_id, shown
from forebay.model.task import TERMINAL, NewTask, Role, Status
from tests.unit.builders import BLOB, JOB_ID, TASK_ID, assert_helpful, task


def made(**options: object) -> NewTask:
    return NewTask(**({"kind": "work"} | options))  # type: ignore[arg-type]  # the point of these tests


def test_a_task_needs_no_more_than_a_kind() -> None:
    new = made()
    assert (new.tenant, new.priority, new.delay_s, new.timeout_s) == ("default", 0, 0.0, 60.0)
    assert (new.max_retries, new.max_reschedules, new.role, new.payload_json) == (3, None, Role.LONE, "null")
    assert (new.lane, new.payload_hash) == ("work", None)
    assert check_id(new.id) == new.id


def test_the_statuses_that_end_a_task_are_terminal() -> None:
    assert {status for status in Status if status.terminal} == {Status.COMPLETED, Status.FAILED, Status.CANCELED}
    assert {status for status in Status if status.terminal} == TERMINAL


def test_tasks_without_a_key_are_all_different() -> None:
    assert made(payload=1).id != made(payload=1).id


def test_the_same_key_gives_the_same_id_and_the_hash_of_the_payload() -> None:
    one = made(idempotency_key="invoice 17", payload={"a": 1, "b": 2})
    again = made(idempotency_key="invoice 17", payload={"b": 2, "a": 1}, priority=5)
    other = made(idempotency_key="invoice 17", payload={"a": 2, "b": 2})
    assert one.id == again.id == other.id
    assert one.payload_hash == again.payload_hash != other.payload_hash


@pytest.mark.parametrize(
    "change", [{"environment": "prod"}, {"tenant": "acme"}, {"kind": "other"}, {"idempotency_key": "k2"}]
)
def test_a_key_counts_within_its_environment_tenant_and_kind(change: dict[str, str]) -> None:
    assert made(idempotency_key="k").id != made(**({"idempotency_key": "k"} | change)).id


def test_no_two_places_of_a_key_share_an_id() -> None:
    assert made(kind="a", idempotency_key="bc").id != made(kind="ab", idempotency_key="c").id


def test_an_id_of_ones_own_is_kept() -> None:
    mine = random_id()
    assert made(id=mine).id == mine
    own = made(idempotency_key="k").id
    assert made(id=own, idempotency_key="k").id == own


def test_a_key_and_another_id_contradict_each_other() -> None:
    with pytest.raises(BadInput, match="gets its id from it") as caught:
        made(id=random_id(), idempotency_key="k")
    assert_helpful(caught.value)
    mine = random_id()
    assert made(id=mine, idempotency_key="k", role=Role.FOLLOW).id == mine


def test_another_blob_is_another_payload() -> None:
    one, other, none = (made(idempotency_key="k", payload_blob=blob) for blob in (BLOB, BLOB[::-1], None))
    assert len({one.payload_hash, other.payload_hash, none.payload_hash}) == 3


def test_a_limit_makes_a_lane_of_its_own() -> None:
    assert made(limit="adobe").lane == "work@adobe"


def test_the_payload_is_fixed_when_the_task_is_made() -> None:
    payload = {"page": 1}
    new = made(payload=payload)
    payload["page"] = 2
    assert new.payload_json == '{"page":1}'


@pytest.mark.parametrize("field", ["kind", "tenant", "environment", "limit"])
@pytest.mark.parametrize("name", ["", "..", "../etc", "a/b", "a'b", 'a"b', "A", "a\0", "x" * 10_240, 7, b"a"])
def test_a_bad_name_is_refused(field: str, name: object) -> None:
    with pytest.raises(BadName, match=field) as caught:
        made(**{field: name})
    assert_helpful(caught.value)


@pytest.mark.parametrize("field", ["idempotency_key", "fairness_key"])
@pytest.mark.parametrize("label", ["", "a\nb", "a\0b", "\ud800", "x" * 10_240, 7, b"a"])
def test_a_bad_key_is_refused(field: str, label: object) -> None:
    with pytest.raises(BadName, match=field.replace("_", " ")) as caught:
        made(**{field: label})
    assert_helpful(caught.value)


def test_an_attempt_needs_some_time() -> None:
    with pytest.raises(BadInput, match="timeout_s is 0"):
        NewTask(kind="a", timeout_s=0)


@pytest.mark.parametrize("field", ["delay_s", "timeout_s", "available_at", "deadline_at"])
@pytest.mark.parametrize(
    "value",
    [-1, math.nan, math.inf, -math.inf, 1e30, 10**5000, "1", True],
    ids=shown,
)
def test_a_bad_time_is_refused(field: str, value: object) -> None:
    with pytest.raises(BadInput, match=field) as caught:
        made(**{field: value})
    assert_helpful(caught.value)


@pytest.mark.parametrize("field", ["max_retries", "max_reschedules", "priority"])
@pytest.mark.parametrize(
    "value",
    [-101, 1.5, math.nan, "1", True, 10**30, 10**5000],
    ids=shown,
)
def test_a_bad_count_is_refused(field: str, value: object) -> None:
    with pytest.raises(BadInput, match=field) as caught:
        made(**{field: value})
    assert_helpful(caught.value)


def test_a_priority_goes_from_minus_100_to_100() -> None:
    assert [made(priority=value).priority for value in (-100, 100)] == [-100, 100]
    for value in (-101, 101):
        with pytest.raises(BadInput, match="priority"):
            made(priority=value)


def test_the_ceilings_may_be_zero() -> None:
    new = made(max_retries=0, max_reschedules=0)
    assert (new.max_retries, new.max_reschedules) == (0, 0)


@pytest.mark.parametrize(
    "tags",
    [
        ["a"],
        "a",
        {"a"},
        None,
        7,
        ("",),
        ("a\n",),
        ("a\0",),
        ("x" * 10_240,),
        (7,),
        (None,),
        tuple("abcdefghijklmnopqrstuvwxyz1234567"),
    ],
    ids=shown,
)
def test_bad_tags_are_refused(tags: object) -> None:
    with pytest.raises(BadInput, match="tag") as caught:
        made(tags=tags)
    assert_helpful(caught.value)


def test_up_to_32_tags_are_taken() -> None:
    assert len(made(tags=tuple(str(number) for number in range(32))).tags) == 32


@pytest.mark.parametrize("blob", ["", BLOB[:-1], BLOB + "0", BLOB.upper(), "../" + BLOB[3:], BLOB[:-1] + "\n", 7, b""])
def test_a_bad_blob_reference_is_refused(blob: object) -> None:
    with pytest.raises(BadInput, match="blob reference") as caught:
        made(payload_blob=blob)
    assert_helpful(caught.value)


@pytest.mark.parametrize(
    "value", ["../../etc/passwd", "a" * 25, "A" * 26, "a" * 25 + "\0", "'" * 26, "x" * 10_240, 7, b"a" * 26]
)
def test_a_bad_id_is_refused(value: object) -> None:
    with pytest.raises(BadName, match="is not an id") as caught:
        made(id=value)
    assert_helpful(caught.value)


@pytest.mark.parametrize(
    ("payload", "error"),
    [(b"a", BadPayload), ({1: 2}, BadPayload), (math.nan, BadPayload), ("\0", BadPayload), ("x" * 2**20, TooLarge)],
    ids=["bytes", "int key", "nan", "nul", "large"],
)
def test_a_bad_payload_is_refused(payload: object, error: type[ForebayError]) -> None:
    with pytest.raises(error, match="payload") as caught:
        made(payload=payload)
    assert_helpful(caught.value)


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.CHUNK])
def test_only_a_chunk_has_an_index(role: Role) -> None:
    assert made(role=role).chunk_index is None
    with pytest.raises(BadInput, match="index") as caught:
        made(role=role, chunk_index=0)
    assert_helpful(caught.value)


def test_a_chunk_has_an_index() -> None:
    assert made(role=Role.CHUNK, chunk_index=0).chunk_index == 0
    with pytest.raises(BadInput, match="index"):
        made(role=Role.CHUNK)
    with pytest.raises(BadInput, match="chunk_index"):
        made(role=Role.CHUNK, chunk_index=-1)


def test_a_role_may_be_given_by_its_name() -> None:
    assert made(role="chunk", chunk_index=0).role is Role.CHUNK


@pytest.mark.parametrize("role", ["", "boss", "CHUNK", None, 7, "x" * 10_240, []])
def test_an_unknown_role_is_refused(role: object) -> None:
    with pytest.raises(BadName, match="is not a role") as caught:
        made(role=role)
    assert_helpful(caught.value)


def test_a_stored_task_reads_its_payload_and_result_as_values() -> None:
    stored = task(payload_json='{"page":1}', result_json="[1,2]")
    assert (stored.payload, stored.result) == ({"page": 1}, [1, 2])
    assert (task().payload, task().result) == (None, None)


def test_a_task_changes_with_its_job_or_alone() -> None:
    assert task(job_id=JOB_ID).unit_id == JOB_ID
    assert task().unit_id == TASK_ID


def test_tasks_and_jobs_with_the_same_key_do_not_meet() -> None:
    parts = ("dev", "default", "ocr", "k")
    assert made(kind="ocr", idempotency_key="k").id == derived_id("task", *parts) != derived_id("job", *parts)


def test_a_task_like_another_is_what_it_would_be_if_it_were_made_by_itself() -> None:
    options: dict[str, Any] = {"priority": 5, "tenant": "acme", "limit": "ocr", "tags": ("a",), "delay_s": 3.0}
    first = NewTask(kind="ocr", payload={"page": 1}, **options)
    second = first.like({"page": 2})
    alone = NewTask(kind="ocr", payload={"page": 2}, id=second.id, **options)
    assert second == alone
    assert (second.payload_json, second.payload_hash) == (alone.payload_json, None)
    assert second.id != first.id
    keyed = first.like({"page": 3}, idempotency_key="scan#3")
    assert keyed == NewTask(kind="ocr", payload={"page": 3}, idempotency_key="scan#3", **options)
    assert keyed.payload_hash is not None
    assert keyed.like(None).idempotency_key is None


def test_an_id_is_drawn_unless_it_was_given_or_derived() -> None:
    first = NewTask(kind="ocr")
    assert first.drawn
    assert not NewTask(kind="ocr", id=first.id).drawn
    assert not NewTask(kind="ocr", idempotency_key="scan").drawn
    assert first.like(1).drawn
    assert first.like(1, id=random_id()).drawn
    assert not first.like(1, idempotency_key="scan").drawn


def test_a_task_like_another_has_its_payload_and_key_checked() -> None:
    first = NewTask(kind="ocr", payload=1)
    with pytest.raises(BadInput):
        first.like(float("nan"))
    with pytest.raises(BadInput):
        first.like(1, idempotency_key="")
    with pytest.raises(BadInput, match="no likes"):
        NewTask(kind="ocr", role=Role.CHUNK, chunk_index=0).like(1)
