from __future__ import annotations

import enum
import hashlib
import json
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadInput, BadPayload, TooLarge
from forebay.ids import shown
from forebay.model.payload import MAX_BYTES, MAX_DEPTH, Json, check_json, clean_text, decode, encode, fingerprint, parse
from tests.unit.builders import assert_helpful

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**1024) + 1, 2**1024 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)


class Colour(enum.Enum):
    RED = 1


def nested(depth: int, *, by: type = list) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value} if by is dict else by([value])
    return value


def cycle(by: type) -> object:
    if by is dict:
        value: dict[str, object] = {}
        value["self"] = value
        return value
    endless: list[object] = []
    endless.append(endless)
    return endless


def reordered(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [reordered(each) for each in value]
    return value


@pytest.mark.slow
@given(JSON)
def test_every_json_value_reads_back_equal_and_of_the_same_types(value: Json) -> None:
    assert repr(decode(encode(value))) == repr(value)


@given(JSON)
def test_the_text_is_compact_and_what_other_readers_understand(value: Json) -> None:
    assert json.loads(encode(value).encode()) == value
    assert encode({"a": [1, 2.5, None, True, "ü"]}) == '{"a":[1,2.5,null,true,"ü"]}'


def test_a_tuple_is_kept_as_a_list() -> None:
    assert decode(encode({"pages": (1, (2, 3))})) == {"pages": [1, [2, 3]]}


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        bytearray(b"bytes"),
        {1, 2},
        frozenset(),
        object(),
        Path("a"),
        Decimal(1),
        1j,
        datetime(2026, 1, 1, tzinfo=UTC),
        Colour.RED,
        range(3),
        (each for each in "abc"),
        len,
        math.nan,
        math.inf,
        -math.inf,
        2**1024,
        -(2**1024),
        10**5000,
        "\0",
        "a\0b",
        "\ud800",
        "a\udfffb",
        "\ud83d\ude00",
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", shown(value)),  # runs in parallel must agree on the names
)
@pytest.mark.parametrize(
    "wrap",
    [lambda it: it, lambda it: [[it]], lambda it: {"a": {"b": it}}, lambda it: (it,)],
    ids=["bare", "list", "dict", "tuple"],
)
def test_what_json_does_not_have_is_refused_wherever_it_hides(value: object, wrap: type) -> None:
    with pytest.raises(BadPayload, match="payload") as caught:
        encode(wrap(value))
    assert_helpful(caught.value)


@pytest.mark.parametrize(
    "key",
    [1, 1.5, True, None, (1, 2), b"a", "a\0", "\ud800", Colour.RED, 10**5000],
    ids=shown,
)
def test_a_key_that_json_would_change_is_refused(key: object) -> None:
    with pytest.raises(BadPayload) as caught:
        encode({"fine": 1, "inner": [{key: 1}]})
    assert_helpful(caught.value)


@pytest.mark.parametrize("by", [list, tuple, dict])
def test_nesting_is_taken_up_to_its_bound_and_no_further(by: type) -> None:
    decoded = decode(encode(nested(MAX_DEPTH, by=by)))
    assert decoded == nested(MAX_DEPTH, by=dict if by is dict else list)
    with pytest.raises(BadPayload, match="nested deeper than 32") as caught:
        encode(nested(MAX_DEPTH + 1, by=by))
    assert_helpful(caught.value)


def test_a_payload_of_a_hundred_thousand_levels_is_refused_without_a_crash() -> None:
    with pytest.raises(BadPayload, match="nested"):
        encode(nested(100_000))


@pytest.mark.parametrize("by", [list, dict])
def test_a_payload_that_holds_itself_is_refused(by: type) -> None:
    with pytest.raises(BadPayload, match="nested"):
        encode(cycle(by))


@pytest.mark.parametrize("letter", ["a", "ü", "€", "😀"])
def test_the_size_is_counted_in_bytes_and_taken_up_to_its_bound(letter: str) -> None:
    width = len(letter.encode())
    fitting = letter * ((MAX_BYTES - 2) // width) + "a" * ((MAX_BYTES - 2) % width)
    assert len(encode(fitting).encode()) == MAX_BYTES == 1_048_576
    with pytest.raises(TooLarge, match=f"{MAX_BYTES + 1} bytes") as caught:
        encode(fitting + "a")
    assert_helpful(caught.value)
    assert caught.value.http_status == 413


def test_each_use_may_have_its_own_bound_and_name() -> None:
    assert encode("abc", what="event", max_bytes=5) == '"abc"'
    with pytest.raises(TooLarge, match="The event has 6 bytes of JSON; 5 are allowed"):
        encode("abcd", what="event", max_bytes=5)


def test_a_small_object_that_unfolds_to_gigabytes_is_refused_at_once() -> None:
    folded: list[object] = []
    for _ in range(MAX_DEPTH - 2):
        folded = [folded, folded]
    with pytest.raises(TooLarge) as caught:
        encode(folded, max_bytes=64 * 1024)
    assert_helpful(caught.value)


def test_as_many_values_as_fit_the_bound_are_taken() -> None:
    assert encode(1, max_bytes=1) == "1"
    assert encode([1] * 10, max_bytes=21) == "[1,1,1,1,1,1,1,1,1,1]"
    with pytest.raises(TooLarge):
        encode([1] * 11, max_bytes=21)


@pytest.mark.slow
@given(JSON)
def test_a_fingerprint_does_not_depend_on_the_order_of_keys(value: Json) -> None:
    assert fingerprint(encode(reordered(value))) == fingerprint(encode(value))


@pytest.mark.slow
@given(JSON, JSON)
def test_different_values_have_different_fingerprints(one: Json, other: Json) -> None:
    canonical = [json.dumps(each, sort_keys=True) for each in (one, other)]
    assert (fingerprint(encode(one)) == fingerprint(encode(other))) == (canonical[0] == canonical[1])


def test_a_fingerprint_tells_true_from_one_and_a_number_from_its_text() -> None:
    alike = [True, 1, "1", [1], None, "null", {"a": 1}, [["a", 1]]]
    assert len({fingerprint(encode(each)) for each in alike}) == len(alike)


def test_a_fingerprint_never_changes_between_releases() -> None:
    canonical = '[{"a":null,"b":[1,"\\u00fc"]}]'
    assert fingerprint('{"b": [1, "ü"], "a": null}') == hashlib.sha256(canonical.encode()).hexdigest()


def test_texts_beside_a_value_count_and_do_not_run_into_it() -> None:
    alike = [("1",), ("1", ""), ("1", "2"), ("1", "2", ""), ("12",), ("[1]",), ('"1"', "2"), ("1", "12")]
    assert len({fingerprint(*parts) for parts in alike}) == len(alike)
    assert fingerprint('{"a":1,"b":2}', "x") == fingerprint('{"b":2,"a":1}', "x")


@given(st.text(), st.integers(2, 40))
def test_cleaned_text_can_be_stored_and_is_bounded(text: str, most: int) -> None:
    cleaned = clean_text(text, most=most)
    assert len(cleaned) <= most
    assert "\0" not in cleaned
    assert cleaned.encode().decode() == cleaned
    encode(cleaned)


@given(TEXTS.filter(lambda text: len(text) <= 4000))
def test_sound_text_is_kept_as_it_is(text: str) -> None:
    assert clean_text(text) == text


def test_text_that_is_cut_shows_it() -> None:
    assert clean_text("abcdef", most=6) == "abcdef"
    assert clean_text("abcdefg", most=6) == "abcd …"
    assert clean_text("x" * 4000) == "x" * 4000
    assert clean_text("x" * 4001) == f"{'x' * 3998} …"


def test_nul_and_half_characters_leave_a_mark() -> None:
    assert clean_text("a\0b\ud800c") == "a\N{REPLACEMENT CHARACTER}b?c"


@given(JSON)
def test_json_text_of_others_is_taken_as_it_is(value: Json) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        assert check_json(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nul",
        "NaN",
        "[Infinity]",
        '{"a": -Infinity}',
        "1e999",
        '"\\u0000"',
        '"\\ud800"',
        "[" * 33 + "]" * 33,
        "[" * 100_000,
        "9" * 400,
        "9" * 5000,
        "\x1b[2J",
        None,
        7,
        b"1",
        ["1"],
    ],
    ids=shown,
)
def test_json_text_of_others_is_held_to_the_same_rules(text: object) -> None:
    with pytest.raises(BadPayload, match="result") as caught:
        check_json(text)
    assert_helpful(caught.value)


def test_json_text_of_others_is_bounded() -> None:
    assert check_json('"abc"', what="event", max_bytes=5) == '"abc"'
    with pytest.raises(TooLarge, match="The event has 6 bytes"):
        check_json('"abcd"', what="event", max_bytes=5)


@pytest.mark.parametrize("text", [None, 7, b"text", ["text"]])
def test_what_is_no_text_cannot_be_cleaned(text: str) -> None:
    with pytest.raises(BadPayload, match=f"not {type(text).__name__}") as caught:
        clean_text(text)
    assert_helpful(caught.value)


def test_a_bad_payload_is_bad_input() -> None:
    assert issubclass(BadPayload, BadInput)
    assert issubclass(TooLarge, BadInput)


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", "-Infinity", '{"a": 1, "a": 2}', '[{"a": {"b": 1, "b": 1}}]', '"\\u0000"']
)
def test_parse_refuses_what_is_no_json_or_would_lose_an_entry(text: str) -> None:
    with pytest.raises(BadPayload):
        parse(text)


def test_parse_returns_the_value() -> None:
    assert parse(' {"a": [1, "ü", null]} ') == {"a": [1, "ü", None]}


def test_text_that_is_nested_too_deep_is_said_to_be_so() -> None:
    with pytest.raises(BadPayload, match=f"nested deeper than {MAX_DEPTH} levels"):
        parse("[" * 100_000 + "]" * 100_000)


def test_a_key_that_is_there_twice_is_found_in_one_look_however_many_there_are() -> None:
    # To look at all that came before each of them would take minutes.
    text = "{" + ",".join(f'"{number:x}":0' for number in range(60_000)) + ',"e000":0}'
    with pytest.raises(BadPayload, match="e000' is there twice"):
        parse(text)
