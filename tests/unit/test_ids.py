from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadName
from forebay.ids import LENGTH, check_id, check_prefix, derived_id, printable, random_id, random_ids, shown
from tests.unit.builders import assert_helpful

PARTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]))).map(tuple)


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words for it")


class Noisy:
    def __repr__(self) -> str:
        return "\x1b[2J\n\0"


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def test_random_ids_are_ids_and_differ_within_their_first_characters() -> None:
    made = [random_id() for _ in range(1000)]
    assert [check_id(each) for each in made] == made
    assert len({each[:10] for each in made}) == 1000


def test_many_ids_are_ids_and_differ() -> None:
    many = random_ids(1000)
    assert len(set(map(check_id, many))) == 1000
    assert random_ids(0) == []


def test_every_letter_appears_at_every_place_of_a_random_id() -> None:
    letters = set("abcdefghijklmnopqrstuvwxyz234567")
    assert all(set(column) == letters for column in zip(*(random_id() for _ in range(2000)), strict=True))


@given(PARTS)
def test_equal_parts_give_equal_ids(parts: tuple[str, ...]) -> None:
    assert check_id(derived_id(*parts)) == derived_id(*parts)


@pytest.mark.slow
@given(PARTS, PARTS)
def test_different_parts_give_different_ids(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (derived_id(*one) == derived_id(*other)) == (one == other)


def test_where_a_part_ends_matters_to_the_id() -> None:
    alike = [("a", "bc"), ("ab", "c"), ("abc",), ("abc", ""), ("", "abc"), ("a", "b", "c")]
    assert len({derived_id(*parts) for parts in alike}) == len(alike)


def test_a_derived_id_never_changes_between_releases() -> None:
    assert derived_id("task", "dev", "default", "work", "invoice 17") == "awcyciv7fg7agu364udzeriukg"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a" * (LENGTH - 1),
        "a" * (LENGTH + 1),
        "A" * LENGTH,
        "1" * LENGTH,
        "ä" * LENGTH,
        "../" + "a" * (LENGTH - 3),
        "'" + "a" * (LENGTH - 2) + "'",
        '"; DROP TABLE tasks; --aaa',
        "a" * (LENGTH - 1) + "\0",
        "a" * (LENGTH - 1) + "\n",
        "a" * LENGTH + "\n",
        "\ud800" * LENGTH,
        "x" * 10_240,
        "\x1b[2J" * 1000,
        None,
        17,
        10**5000,
        b"a" * LENGTH,
        ["a" * LENGTH],
        Unspeakable(),
        Noisy(),
    ],
    ids=shown,
)
def test_what_is_no_id_is_refused(value: str) -> None:
    with pytest.raises(BadName, match="is not an id") as caught:
        check_id(value)
    assert_helpful(caught.value)


@pytest.mark.parametrize("prefix", ["a", "2", "abc234", "a" * LENGTH])
def test_the_beginning_of_an_id_is_taken(prefix: str) -> None:
    assert check_prefix(prefix) == prefix


@pytest.mark.parametrize(
    "prefix", ["", "A", "1", "%", "_", "*", "a'", "../a", "a\0", "a\n", "a" * (LENGTH + 1), None, 7]
)
def test_what_begins_no_id_is_refused(prefix: str) -> None:
    with pytest.raises(BadName, match="beginning of an id") as caught:
        check_prefix(prefix)
    assert_helpful(caught.value)


@given(st.text() | st.binary() | st.integers() | st.floats() | st.builds(Noisy) | st.lists(st.text()))
def test_a_foreign_value_is_shown_on_one_short_line_of_plain_letters(value: object) -> None:
    text = shown(value)
    assert 0 < len(text) <= 60
    assert text.isascii()
    assert text.isprintable()


def test_a_short_value_is_shown_whole() -> None:
    assert shown("a" * 58) == f"'{'a' * 58}'"
    assert shown("a" * 59) == f"'{'a' * 56}..."


@pytest.mark.parametrize(
    "value", [10**5000, [10**5000], Unspeakable(), nested(100_000)], ids=["int", "list", "odd", "deep"]
)
def test_a_value_that_cannot_be_printed_is_shown_by_its_type(value: object) -> None:
    assert re.fullmatch(r"<\w+>", shown(value))


@pytest.mark.slow
def test_printable_text_stays_and_the_rest_is_escaped() -> None:
    assert printable("Übergröße 1") == "Übergröße 1"
    assert printable("a\n\x1b[2J\u202e") == "a\\n\\x1b[2J\\u202e"
