"""Keeps docs/reference/errors.md equal to the code; a failure prints the row to paste."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay import errors
from forebay.rules import verdict
from forebay.rules.verdict import ErrorClass, Verdict

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
LINES = PAGE.splitlines()
EXCEPTIONS = [
    each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.ForebayError)
]


def row(error_class: ErrorClass) -> str:
    found = verdict.of(error_class)
    bound = "" if found.max_retries is None else f", at most {found.max_retries}"
    cells = (
        f"`{error_class}`",
        found.meaning,
        f"{found.verdict}{bound}",
        "yes" if found.retryable else "no",
        str(found.http_status),
        str(found.exit_code),
        found.remedy,
    )
    return f"| {' | '.join(cells)} |"


def beginning(kind: type[errors.ForebayError]) -> str:
    parent = kind.__bases__[0].__name__
    return f"| `{kind.__name__}` | `{parent}` | `{kind.code}` | {kind.http_status} | {kind.exit_code} | "


@pytest.mark.parametrize("error_class", ErrorClass)
def test_every_error_class_has_the_row_that_the_code_has(error_class: ErrorClass) -> None:
    assert row(error_class) in LINES


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_every_exception_is_documented_with_its_code_and_statuses(kind: type[errors.ForebayError]) -> None:
    assert [line for line in LINES if line.startswith(beginning(kind))], beginning(kind)


@pytest.mark.parametrize("each", Verdict)
def test_every_verdict_is_explained(each: Verdict) -> None:
    assert [line for line in LINES if line.startswith(f"| {each} | ")]


def test_the_page_names_nothing_that_the_code_does_not_have() -> None:
    named = {line.split("`")[1] for line in LINES if line.startswith("| `")}
    assert named == set(ErrorClass) | {each.__name__ for each in EXCEPTIONS}
