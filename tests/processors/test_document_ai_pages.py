from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.model.document import Page
from forebay.processors.document_ai_pages import Malformed, pages

SIZE = (595.0, 842.0)


def layout(start: int, end: int, box: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4), **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """As the API writes it: numbers of 64 bits as text, zeros left out."""
    left, top, right, bottom = box
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    segment = {name: str(value) for name, value in (("startIndex", start), ("endIndex", end)) if value}
    vertices = [{name: value for name, value in (("x", x), ("y", y)) if value} for x, y in corners]
    anchor = {"textSegments": [segment]}
    return {"layout": {"textAnchor": anchor, "boundingPoly": {"normalizedVertices": vertices}, **more}}


def read(text: str, **page: Any) -> Page:  # noqa: ANN401 - JSON
    (found,) = pages({"text": text, "pages": [{"pageNumber": 1, **page}]}, [SIZE], processor="docai", version="1")
    return found


def words(page: Page) -> list[str]:
    return [word.text for word in page.words]


def test_words_go_into_lines_and_lines_into_paragraphs() -> None:
    page = read(
        "One two\nthree\nfour\n",
        tokens=[layout(0, 4), layout(4, 8), layout(8, 14), layout(14, 19)],
        lines=[layout(0, 8), layout(8, 14), layout(14, 19)],
        paragraphs=[layout(0, 14), layout(14, 19)],
    )
    assert page.text == "One two\nthree\n\nfour"
    assert (page.width, page.height, page.method) == (595.0, 842.0, "api")


def test_punctuation_is_part_of_the_word_it_touches() -> None:
    page = read(
        "Hi, you!\n",
        tokens=[
            layout(0, 2, (0.1, 0.2, 0.2, 0.3), confidence=0.9),
            layout(2, 4, (0.2, 0.2, 0.25, 0.35), confidence=0.8),
            layout(4, 7),
            layout(7, 9),
        ],
    )
    assert words(page) == ["Hi,", "you!"]
    first = next(page.words)
    assert first.box == (0.1, 0.2, 0.25, 0.35)
    assert first.confidence == 0.8


def test_coordinates_that_are_zero_are_left_out_and_come_back_as_zero() -> None:
    page = read("a\n", tokens=[layout(0, 2, (0.0, 0.0, 1.0, 0.5))])
    assert next(page.words).box == (0.0, 0.0, 1.0, 0.5)


def test_a_confidence_of_zero_is_left_out_but_where_none_is_told_there_is_none() -> None:
    told = read("a b\n", tokens=[layout(0, 2, confidence=0.7), layout(2, 4)])
    assert [word.confidence for word in told.words] == [0.7, 0.0]
    silent = read("a b\n", tokens=[layout(0, 2), layout(2, 4)])
    assert [word.confidence for word in silent.words] == [1.0, 1.0]


def test_the_corners_of_turned_text_begin_elsewhere_and_its_box_is_still_one() -> None:
    turned = layout(0, 2)
    turned["layout"]["boundingPoly"]["normalizedVertices"] = [
        {"x": 0.9, "y": 0.1}, {"x": 0.9, "y": 0.6}, {"x": 0.8, "y": 0.6}, {"x": 0.8, "y": 0.1}
    ]  # fmt: skip
    turned["layout"]["orientation"] = "PAGE_RIGHT"
    assert next(read("a\n", tokens=[turned]).words).box == (0.8, 0.1, 0.9, 0.6)


def test_offsets_count_code_points_also_beyond_the_basic_plane() -> None:
    page = read("😀🎉 naïve 🚀\n", tokens=[layout(0, 3), layout(3, 9), layout(9, 11)])
    assert words(page) == ["😀🎉", "naïve", "🚀"]


def test_the_likeliest_language_is_the_pages_and_undetermined_is_none() -> None:
    found = [
        {"languageCode": "en", "confidence": 0.2},
        {"languageCode": "de", "confidence": 0.7},
        {"languageCode": "fr"},
    ]
    assert read("", detectedLanguages=found).language == "de"
    assert read("", detectedLanguages=[{"languageCode": "und", "confidence": 1}]).language is None
    assert read("").language is None


def test_lines_without_tokens_are_split_at_spaces() -> None:
    page = read("One two\n", lines=[layout(0, 8, (0.1, 0.1, 0.9, 0.2), confidence=0.5)])
    assert [(word.text, word.box, word.confidence) for word in page.words] == [
        ("One", (0.1, 0.1, 0.9, 0.2), 0.5),
        ("two", (0.1, 0.1, 0.9, 0.2), 0.5),
    ]


def test_a_page_with_nothing_but_a_layout_has_the_text_of_that() -> None:
    assert read("One\ntwo\n", **layout(0, 8, (0.0, 0.0, 1.0, 1.0))).text == "One\ntwo"


def test_a_blank_page_is_a_page() -> None:
    assert read("", layout={"boundingPoly": {}}).text == ""


def test_segments_of_an_anchor_are_joined() -> None:
    token = layout(0, 2)
    token["layout"]["textAnchor"]["textSegments"] = [{"endIndex": "2"}, {"startIndex": "3", "endIndex": "5"}]
    assert words(read("abXcd", tokens=[token])) == ["abcd"]


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"pages": []},
        {"pages": [{}, {}]},
        {"pages": "x"},
        {"pages": [1]},
        {"text": 1, "pages": [{}]},
        {"text": "\ud800", "pages": [{}]},
        {"text": "ab", "pages": [{"tokens": [layout(0, 3)]}]},
        {"text": "ab", "pages": [{"tokens": [layout(2, 1)]}]},
        {"text": "ab", "pages": [{"tokens": [{"layout": {"textAnchor": {"textSegments": [{"endIndex": "x"}]}}}]}]},
        {"text": "ab", "pages": [{"tokens": [{"layout": {"textAnchor": {"textSegments": [{"endIndex": -1}]}}}]}]},
        {"text": "ab", "pages": [{"tokens": [{"layout": {"textAnchor": {"textSegments": [{"endIndex": True}]}}}]}]},
        {"text": "ab", "pages": [{"tokens": [{"layout": []}]}]},
        {"text": "ab", "pages": [{"tokens": [layout(0, 1, confidence="much")]}]},
        {"text": "ab", "pages": [{"detectedLanguages": [{"confidence": []}]}]},
    ],
)
def test_what_the_api_does_not_promise_is_refused(document: object) -> None:
    with pytest.raises(Malformed):
        pages(document, [SIZE], processor="docai", version="1")


WORD = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=6).filter(
    lambda text: text.split() == [text]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.lists(WORD, min_size=1, max_size=4), min_size=1, max_size=3), max_size=3))
def test_every_word_comes_back_in_its_place(paragraphs: list[list[list[str]]]) -> None:
    text = ""
    tokens, lines, groups = [], [], []
    for paragraph in paragraphs:
        first = len(text)
        for line in paragraph:
            begin = len(text)
            for place, word in enumerate(line):
                start = len(text)
                text += word + ("\n" if place == len(line) - 1 else " ")
                tokens.append(layout(start, len(text)))
            lines.append(layout(begin, len(text)))
        groups.append(layout(first, len(text)))
    page = read(text, tokens=tokens, lines=lines, paragraphs=groups)
    assert [[[word.text for word in line.words] for line in block.lines] for block in page.blocks] == paragraphs
    assert page.encoded()
