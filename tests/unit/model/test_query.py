from __future__ import annotations

import pytest

from forebay.errors import BadInput
from forebay.model.query import MAX_PAGE, Query
from forebay.model.task import Role, Status
from tests.unit.builders import JOB_ID, assert_helpful


def test_a_query_asks_for_everything_in_pages_of_fifty() -> None:
    query = Query()
    assert (query.size, query.status, query.kind, query.tenant, query.after) == (50, None, None, None, None)


def test_a_query_keeps_what_it_is_given() -> None:
    query = Query(kind="work", tenant="acme", job_id=JOB_ID, size=1, status=Status.FAILED, role=Role.CHUNK)
    assert (query.kind, query.tenant, query.job_id, query.size) == ("work", "acme", JOB_ID, 1)
    assert (query.status, query.role) == (Status.FAILED, Role.CHUNK)
    query = Query(after="17", tag="scans", size=MAX_PAGE)
    assert (query.after, query.tag, query.size) == ("17", "scans", 500)


@pytest.mark.parametrize(
    "change",
    [
        {"size": 0},
        {"size": MAX_PAGE + 1},
        {"size": True},
        {"size": "50"},
        {"kind": "a'; --"},
        {"tenant": "../acme"},
        {"job_id": "x" * 10_240},
        {"job_id": "a" * 25 + "\0"},
        {"status": "gone"},
        {"status": ""},
        {"status": 7},
        {"role": "boss"},
        {"role": "\x1b[2J"},
        {"after": 17},
        {"tag": b"scans"},
        {"tag": "\udcff"},
        {"tag": "a\0b"},
    ],
    ids=str,
)
def test_a_query_that_asks_for_nothing_sensible_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadInput) as caught:
        Query(**change)  # type: ignore[arg-type]  # the point of this test
    assert_helpful(caught.value)
