from __future__ import annotations

import pytest

from forebay.rules.exception_facts import Answer, describe, read_answer


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such page"), "ValueError: no such page"),
        (TimeoutError(), "TimeoutError"),
        (UnprintableError("lost"), "UnprintableError"),
    ],
)
def test_an_error_without_a_text_is_described_by_its_type_alone(error: Exception, text: str) -> None:
    assert describe(error) == text


class ClientError(Exception):
    """As botocore raises it."""

    def __init__(self, response: dict[str, object]) -> None:
        self.response = response


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ({}, None),
        ({"Error": {"Code": ""}, "ResponseMetadata": {"HTTPHeaders": {"Retry-After": "3"}}}, None),
        ({"Error": "Throttling", "ResponseMetadata": 503}, None),
        ({"Error": {"Code": "SlowDown"}}, Answer(None, {}, None, ("SlowDown",), None)),
        (
            {"ResponseMetadata": {"HTTPStatusCode": 503, "HTTPHeaders": {"Retry-After": "3"}}},
            Answer(503, {"retry-after": "3"}, None, (), None),
        ),
    ],
)
def test_a_response_of_botocore_is_an_answer_if_it_has_a_status_or_a_code(
    response: dict[str, object], answer: Answer | None
) -> None:
    assert read_answer(ClientError(response)) == answer
