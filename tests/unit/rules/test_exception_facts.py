from __future__ import annotations

import pytest

from forebay.rules.exception_facts import describe


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
