from __future__ import annotations

from typing import Any

import pytest

from forebay.errors import BadInput
from forebay.processors.schema import check, problem

TAGS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 1, "maxItems": 2},
        "language": {"anyOf": [{"type": "null"}, {"enum": ["en", "de"]}]},
        "sure": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    },
    "required": ["tags"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "value",
    [
        {"tags": ["a"]},
        {"tags": ["a", "b"], "language": None, "sure": 1},
        {"tags": ["a"], "language": "de", "sure": 0.5},
    ],
)
def test_what_fits_has_no_problem(value: object) -> None:
    check(TAGS)
    assert problem(value, TAGS) is None


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ([], "the answer is not of type object"),
        ({}, "has no tags"),
        ({"tags": "a"}, "the answer.tags is not of type array"),
        ({"tags": []}, "tags has 0 items"),
        ({"tags": ["a", "b", "c"]}, "tags has 3 items"),
        ({"tags": ["a", 1]}, r"tags\[1\] is not of type string"),
        ({"tags": ["too long"]}, r"tags\[0\] has 8 characters"),
        ({"tags": ["a"], "more": 1}, "'more', which nobody asked for"),
        ({"tags": ["a"], "language": "fr"}, "language is none of what it may be"),
        ({"tags": ["a"], "sure": 2}, "sure is 2"),
        ({"tags": ["a"], "sure": True}, "sure is not of type number or null"),
    ],
)
def test_what_does_not_fit_says_where(value: object, where: str) -> None:
    import re  # noqa: PLC0415 - the one place

    assert re.search(where, problem(value, TAGS) or "")


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "x"},
        {"type": "text"},
        {"properties": {"a": {"$ref": "#"}}},
        {"items": {"oneOf": []}},
        {"anyOf": [{"not": {}}]},
    ],
)
def test_a_schema_that_would_not_be_checked_in_full_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        check(schema)


def test_whole_numbers_may_be_written_with_a_point() -> None:
    assert problem(3.0, {"type": "integer"}) is None
    assert problem(3.5, {"type": "integer"}) is not None
