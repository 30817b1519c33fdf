from __future__ import annotations

import pytest

from forebay.rules.headings import MAX_TITLE, marks, shown


def titles(text: str) -> list[str]:
    return [heading.title for heading in marks(text).headings]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("````\n# no\n```\n# no\n````\n# yes", ["yes"]),
        ("```\n# no\n`````\n# yes", ["yes"]),
        ("```\n# no\n~~~\n# no\n```\n# yes", ["yes"]),
        ("```\n# no\n``` python\n# no\n```\n# yes", ["yes"]),
        ("```\n# no\n```  \n# yes", ["yes"]),
        ("~~~ a`b\n# no\n~~~\n# yes", ["yes"]),
        ("``` a`b\n# yes", ["yes"]),
        ("``` python\n# no", []),
    ],
    ids=[
        "a shorter fence closes nothing",
        "a longer one does",
        "nor does one of the other character",
        "nor one with a word after it",
        "spaces after it are no word",
        "tildes may have a backtick in their info",
        "backticks may not",
        "what is not closed goes to the end",
    ],
)
def test_what_is_fenced_is_no_heading(text: str, found: list[str]) -> None:
    assert titles(text) == found


def test_code_is_told_from_its_fence_to_the_end_of_its_last_line() -> None:
    text = "one\n```\ncode\n```\ntwo\n~~~\nopen"
    assert [text[start:end] for start, end in marks(text).code] == ["```\ncode\n```", "~~~\nopen"]


def test_a_fence_ends_a_paragraph_so_that_no_line_above_it_is_underlined() -> None:
    assert titles("one\n```\n```\n---\n") == []


@pytest.mark.parametrize("length", [MAX_TITLE - 1, MAX_TITLE])
def test_a_title_that_fits_is_whole(length: int) -> None:
    assert shown("x" * length) == "x" * length


def test_a_longer_title_is_cut_and_says_so() -> None:
    assert shown("x" * (MAX_TITLE + 1)) == "x" * (MAX_TITLE - 1) + "…"
    assert shown("x" * (MAX_TITLE - 2) + " yyy") == "x" * (MAX_TITLE - 2) + "…"


def test_one_sign_underlines_a_heading() -> None:
    assert [(each.level, each.title) for each in marks("one\n=\n\ntwo\n-\n").headings] == [(1, "one"), (2, "two")]


def test_the_text_of_a_section_begins_right_behind_its_heading_however_it_is_marked() -> None:
    text = "# one\nfirst\n\ntwo\n---\nsecond"
    found = marks(text).headings
    assert [text[each.start : each.end] for each in found] == ["# one\n", "two\n---\n"]
    assert [text[each.end :].splitlines()[0] for each in found] == ["first", "second"]
