"""Many tasks as one value: each is what it would be by itself."""

from __future__ import annotations

import pytest

from forebay.errors import BadInput
from forebay.ids import check_id
from forebay.model.bulk import Bulk
from forebay.model.payload import encode
from forebay.model.task import NewTask
from forebay.stores.sql.ledger import _groups

TEXTS = [encode({"page": page}) for page in range(7)]


def test_each_has_its_own_payload_and_id_and_the_rest_of_the_first() -> None:
    bulk = Bulk(NewTask(kind="scan", priority=3, tags=("red",)), TEXTS)
    assert [task.payload for task in bulk] == [{"page": page} for page in range(7)]
    assert {(task.kind, task.priority, task.tags, task.drawn) for task in bulk} == {("scan", 3, ("red",), True)}
    assert len({check_id(task.id) for task in bulk}) == len(bulk) == 7
    assert bulk[2] == bulk[2]
    assert [task.id for task in bulk[2:4]] == [*bulk.ids[2:4]]


def test_a_task_with_a_name_of_its_own_has_no_likes() -> None:
    with pytest.raises(BadInput, match="no likes"):
        Bulk(NewTask(kind="scan", idempotency_key="a"), TEXTS)


@pytest.mark.parametrize("most", [1, 3, 7, 100])
def test_its_parts_are_all_of_it_in_order(most: int) -> None:
    bulk = Bulk(NewTask(kind="scan"), TEXTS)
    parts = [*_groups(bulk, most)]
    assert [task.id for part in parts for task in part if isinstance(task, NewTask)] == [*bulk.ids]
    assert [len(part) for part in parts[:-1]] == [most] * (len(parts) - 1)


def test_large_payloads_make_short_parts() -> None:
    bulk = Bulk(NewTask(kind="scan"), [encode("x" * 1_000_000)] * 9)
    assert [len(part) for part in _groups(bulk, 500)] == [5, 4]
