from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.errors import BadInput, BadName, BadPayload, TooLarge
from forebay.ids import check_id, derived_id, random_id
from forebay.model.job import Event, NewJob, member, member_id
from forebay.model.task import NewTask, Role
from tests.unit.builders import BLOB, JOB_ID, assert_helpful, chunk, follow, job, new_job, split_job


def made(**options: object) -> NewJob:
    fields = {"pipeline": "ocr", "tasks": (chunk(0), chunk(1))}
    return NewJob(**(fields | options))  # type: ignore[arg-type]  # the point of these tests


def test_a_job_starts_with_one_split_or_with_chunks() -> None:
    assert [task.role for task in split_job().tasks] == [Role.SPLIT]
    assert [task.chunk_index for task in new_job(3).tasks] == [0, 1, 2]


SPLIT = NewTask(kind="split", role=Role.SPLIT)


@pytest.mark.parametrize(
    "tasks",
    [
        (),
        (SPLIT, SPLIT),
        (SPLIT, chunk(0)),
        (NewTask(kind="work"),),
        (NewTask(kind="merge", role=Role.MERGE),),
        (follow("k"),),
        (chunk(0), follow("k")),
        (chunk(0), NewTask(kind="work")),
    ],
    ids=["none", "two splits", "split and chunk", "lone", "merge", "follow", "chunk and follow", "chunk and lone"],
)
def test_a_job_that_starts_otherwise_is_refused(tasks: tuple[NewTask, ...]) -> None:
    with pytest.raises(BadInput, match="one split task or with chunks") as caught:
        made(tasks=tasks)
    assert_helpful(caught.value)


def test_two_chunks_with_one_index_are_refused() -> None:
    with pytest.raises(BadInput, match="same index") as caught:
        made(tasks=(chunk(0), chunk(1), chunk(0)))
    assert_helpful(caught.value)


@pytest.mark.parametrize("tasks", [[chunk(0)], "chunks", None, (None,), (chunk(0), "chunk"), ({"kind": "work"},)])
def test_what_is_no_tuple_of_tasks_is_refused(tasks: object) -> None:
    with pytest.raises(BadInput, match="tasks is") as caught:
        made(tasks=tasks)
    assert_helpful(caught.value)


@pytest.mark.parametrize("merge", ["merge", {"kind": "merge"}, (NewTask(kind="merge"),), True])
def test_what_is_no_task_cannot_merge(merge: object) -> None:
    with pytest.raises(BadInput, match="merge is") as caught:
        made(merge=merge)
    assert_helpful(caught.value)


def test_a_job_merges_nothing_and_allows_no_holes_unless_it_is_told_to() -> None:
    assert (made().merge, made().allow_holes) == (None, False)


def test_the_ids_of_members_follow_from_their_place_in_the_job() -> None:
    new = made(id=JOB_ID, tenant="acme")
    assert [task.id for task in new.tasks] == [member_id(JOB_ID, Role.CHUNK, index) for index in (0, 1)]
    assert {task.tenant for task in new.tasks} == {"acme"}
    assert made(id=JOB_ID).tasks[0].id == new.tasks[0].id != made().tasks[0].id
    assert split_job(id=JOB_ID).tasks[0].id == member_id(JOB_ID, Role.SPLIT, 1)


def test_jobs_without_a_key_are_all_different() -> None:
    assert check_id(made().id) != made().id
    assert made().payload_hash is None


def test_the_same_key_gives_the_same_job() -> None:
    one, again = made(idempotency_key="k", document=BLOB), made(idempotency_key="k", document=BLOB)
    assert one.id == again.id == derived_id("job", "dev", "default", "ocr", "k")
    assert one.payload_hash == again.payload_hash is not None


@pytest.mark.parametrize(
    "change",
    [
        {"document": "f" * 64},
        {"tasks": (chunk(0),)},
        {"tasks": (chunk(0), chunk(1, payload={"other": 1}))},
        {"tasks": (chunk(0), chunk(1, payload_blob=BLOB))},
        {"tasks": (chunk(0), chunk(1, kind="other"))},
        {"tasks": (chunk(0), chunk(2, payload={"chunk": 1}))},
        {"merge": NewTask(kind="merge", role=Role.MERGE)},
    ],
    ids=["document", "fewer chunks", "payload", "blob", "kind", "index", "merge"],
)
def test_the_same_key_with_other_content_has_another_hash(change: dict[str, object]) -> None:
    one, other = made(idempotency_key="k"), made(idempotency_key="k", **change)
    assert one.id == other.id
    assert one.payload_hash != other.payload_hash


@pytest.mark.parametrize("change", [{"environment": "prod"}, {"tenant": "acme"}, {"pipeline": "autotag"}])
def test_a_key_counts_within_its_environment_tenant_and_pipeline(change: dict[str, str]) -> None:
    assert made(idempotency_key="k").id != made(idempotency_key="k", **change).id


def test_an_id_of_ones_own_is_kept_and_checked() -> None:
    mine = random_id()
    assert made(id=mine).id == mine
    with pytest.raises(BadName, match="is not an id"):
        made(id="../x")


@pytest.mark.parametrize("field", ["pipeline", "tenant", "environment"])
@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "a\0", "x" * 10_240, 7])
def test_a_bad_name_is_refused(field: str, name: object) -> None:
    with pytest.raises(BadName, match=field) as caught:
        made(**{field: name})
    assert_helpful(caught.value)


@pytest.mark.parametrize("field", ["label", "idempotency_key"])
@pytest.mark.parametrize("label", ["", "a\nb", "a\0", "\ud800", "x" * 10_240, 7])
def test_a_bad_label_is_refused(field: str, label: object) -> None:
    with pytest.raises(BadName, match=field.replace("_", " ")) as caught:
        made(**{field: label})
    assert_helpful(caught.value)


@pytest.mark.parametrize(
    "change", [{"document": "scan.pdf"}, {"document": BLOB.upper()}, {"tags": ["a"]}, {"tags": ("a\n",)}]
)
def test_a_bad_document_and_bad_tags_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadInput) as caught:
        made(**change)
    assert_helpful(caught.value)


def test_each_generation_has_a_merge_of_its_own() -> None:
    merge = NewTask(kind="merge", role=Role.MERGE)
    first, again, second = (member(merge, JOB_ID, tenant="acme", generation=number) for number in (1, 1, 2))
    assert first.id == again.id == member_id(JOB_ID, Role.MERGE, 1)
    assert second.id == member_id(JOB_ID, Role.MERGE, 2) != first.id
    assert (first.role, first.tenant) == (Role.MERGE, "acme")


def test_a_chunk_is_the_same_in_every_generation() -> None:
    assert len({member(chunk(3), JOB_ID, tenant="acme", generation=number).id for number in (1, 2)}) == 1


def test_a_follow_up_is_known_by_its_key_within_its_job() -> None:
    ids = {member(follow(key), job_id, tenant="acme").id for key in ("a", "b") for job_id in (JOB_ID, random_id())}
    assert len(ids) == 4
    assert member(follow("a"), JOB_ID, tenant="acme").id == member_id(JOB_ID, Role.FOLLOW, "a")


def test_a_follow_up_without_a_key_is_refused() -> None:
    with pytest.raises(BadInput, match="needs an idempotency key") as caught:
        member(NewTask(kind="callback", role=Role.FOLLOW), JOB_ID, tenant="acme")
    assert_helpful(caught.value)


def test_a_lone_task_cannot_join_a_job() -> None:
    with pytest.raises(BadInput, match="cannot be part of a job") as caught:
        member(NewTask(kind="work"), JOB_ID, tenant="acme")
    assert_helpful(caught.value)


def test_members_of_different_roles_never_share_an_id() -> None:
    parts = [(role, part) for role in Role for part in (1, "1", 2)]
    assert len({member_id(JOB_ID, role, part) for role, part in parts}) == 2 * len(Role)


def test_what_is_open_and_does_not_run_is_pending() -> None:
    assert replace(job(), open_count=7, running_count=3).pending_count == 4


def test_an_event_has_a_name_and_fields_that_can_be_stored() -> None:
    assert Event(name="merging", fields={"holes": 2}).fields == {"holes": 2}
    assert (Event(name="merging").number, Event(name="merging").at) == (0, 0.0)
    with pytest.raises(BadName, match="event"):
        Event(name="Merging!")
    with pytest.raises(BadPayload, match="event"):
        Event(name="merging", fields={"at": b""})  # type: ignore[dict-item]  # the point of this test
    with pytest.raises(TooLarge, match="event"):
        Event(name="merging", fields={"text": "x" * 64 * 1024})
    with pytest.raises(BadInput, match="fields of an event") as caught:
        Event(name="merging", fields=[("holes", 2)])  # type: ignore[arg-type]  # the point of this test
    assert_helpful(caught.value)
    with pytest.raises(BadInput, match="event number"):
        Event(name="merging", number=-1)


@pytest.mark.parametrize("task", [chunk(3), follow("k"), SPLIT], ids=["chunk", "follow", "split"])
def test_a_member_is_as_if_it_had_been_made_in_its_place(task: NewTask) -> None:
    before = replace(task)
    placed = member(task, JOB_ID, tenant="acme")
    anew = replace(task, id=placed.id, tenant="acme")
    assert (placed, placed.drawn) == (anew, anew.drawn)
    assert placed != task
    assert replace(task, id=before.id) == before
