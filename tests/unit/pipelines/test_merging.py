from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadChunks, BadInput, DuplicatedPages, ForebayError, ForeignPages, MissingPages
from forebay.model.document import Page
from forebay.pipelines.merging import Hole, Piece, merged
from tests.unit.builders import assert_helpful
from tests.unit.pipelines.pages import SHA256, hole, page, piece, split

DOCUMENT = {"sha256": SHA256, "name": "scan.pdf"}
CRASHED = Hole("parser_crashed", "The child that read it ended by SIGSEGV.")

words = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=5)
read = st.builds(
    page,
    st.lists(st.lists(words, max_size=4).map(" ".join), max_size=3).map("\n\n".join),
    processor=st.sampled_from(["local", "docai", 'a "quoted\\ one']),
    language=st.sampled_from([None, "en", "de"]),
    confidence=st.sampled_from([0.0, 0.25, 0.9871, 1.0]),
)
holes = st.sampled_from([CRASHED, Hole("refused", 'It said "no",\nand 🗎 again.')])
documents = st.lists(read | holes, min_size=1, max_size=9)


def result(pages: list[Page | Hole], cuts: Iterable[int] = ()) -> bytes:
    return b"".join(merged(DOCUMENT, len(pages), split(pages, cuts)))


@pytest.mark.slow
@given(documents, st.data())
def test_any_split_into_chunks_in_any_order_gives_the_same_bytes(pages: list[Page | Hole], data: st.DataObject) -> None:
    cuts = data.draw(st.sets(st.integers(1, len(pages))))
    chunks = data.draw(st.permutations(split(pages, cuts)))
    assert b"".join(merged(DOCUMENT, len(pages), chunks)) == result(pages) == result(pages)


def misplaced(found: dict[str, Any], pages: list[Page | Hole]) -> list[str]:
    """The pages and words that are not where the result says, in the text of all pages."""
    text = "\f".join(each.text if isinstance(each, Page) else "" for each in pages)
    wrong = [] if found["summary"]["text_length"] == len(text) else ["the end"]
    for each in found["pages"]:
        start = each["text_start"]
        if text[start : start + each["length"]] != each.get("text", ""):
            wrong.append(f"page {each['number']}")
        for line in (line for block in each.get("blocks", []) for line in block["lines"]):
            wrong += [
                word["text"] for word in line["words"] if not text.startswith(word["text"], start + word["start"])
            ]
    return wrong


@given(documents)
def test_offsets_lead_to_every_page_and_word_in_the_whole_text(pages: list[Page | Hole]) -> None:
    assert misplaced(json.loads(result(pages)), pages) == []


def test_offsets_that_count_bytes_or_no_page_ends_would_be_noticed() -> None:
    pages: list[Page | Hole] = [page("🗎 ä"), page("zwei"), page("drei")]
    in_bytes, without_ends = json.loads(result(pages)), json.loads(result(pages))
    in_bytes["pages"][1]["text_start"] = len("🗎 ä\f".encode())
    without_ends["pages"][2]["text_start"] -= 2
    assert misplaced(in_bytes, pages) == ["page 2", "zwei"]
    assert misplaced(without_ends, pages) == ["page 3", "drei"]


@given(documents)
def test_a_page_is_its_stored_line_with_number_and_place(pages: list[Page | Hole]) -> None:
    for found, given_page in zip(json.loads(result(pages))["pages"], pages, strict=True):
        rest = {name: value for name, value in found.items() if name not in {"number", "text_start"}}
        if isinstance(given_page, Page):
            assert rest == json.loads(given_page.encoded())
        else:
            assert rest == {"length": 0, "missing": given_page._asdict()}


def test_the_result_has_one_page_a_line() -> None:
    lines = result([page("One."), CRASHED, page("Three.")], cuts=[1, 2]).decode().splitlines()
    assert lines[0] == f'{{"forebay":1,"document":{{"sha256":"{SHA256}","name":"scan.pdf"}},"pages":['
    assert lines[1].startswith('{"number":1,"text_start":0,"length":4,"word_count":1,')
    assert lines[2].startswith('{"number":2,"text_start":5,"length":0,"missing":{"error_class":"parser_crashed",')
    assert lines[3].startswith('{"number":3,"text_start":6,"length":6,"word_count":1,')
    assert lines[4].startswith('],"summary":{"page_count":3,')


def test_the_summary_counts_pages_words_languages_and_processors() -> None:
    pages: list[Page | Hole] = [
        page("one two three", language="de", confidence=0.5),
        page("four", language="en", confidence=1.0),
        page("", language=None),
        page("five", processor="docai", language="de", confidence=0.9),
    ]
    notes = ["The cross-reference table was made anew."]
    made = b"".join(merged(DOCUMENT, len(pages), split(pages, [1, 3]), repaired=True, notes=notes))
    assert json.loads(made)["summary"] == {
        "page_count": 4,
        "word_count": 5,
        "text_length": 24,
        "confidence": 0.68,
        "languages": {"de": 2, "en": 1},
        "holes": [],
        "processors": {"local": 3, "docai": 1},
        "repaired": True,
        "notes": notes,
    }


def test_what_a_damaged_document_has_lost_of_a_page_is_its_first_note() -> None:
    odd = 'a text with "notes":[ in it'
    pages: list[Page | Hole] = [page(odd), replace(page(odd), notes=("its own",)), Hole("bug", "odd"), page(odd)]
    lacking = {1: "all", 2: 'an "image"', 3: "all"}
    found = json.loads(b"".join(merged({"sha256": SHA256}, 4, split(pages, ()), lacking=lacking)))
    why = "part of the page may be missing: "
    notes = [each.get("notes") for each in found["pages"]]
    assert notes == [[f"{why}all"], [f'{why}an "image"', "its own"], None, []]
    assert [each["text"] for each in found["pages"] if "text" in each] == [odd] * 3


def test_a_document_without_words_has_no_confidence() -> None:
    assert json.loads(result([page("")]))["summary"]["confidence"] is None


def test_neighbouring_pages_that_miss_for_one_reason_are_one_hole() -> None:
    refused = Hole("refused", "No.")
    pages: list[Page | Hole] = [CRASHED, CRASHED, refused, page("Here."), refused]
    found = json.loads(result(pages, cuts=[1, 2, 3, 4]))["summary"]["holes"]
    assert [(each["page_start"], each["page_end"], each["error_class"]) for each in found] == [
        (1, 2, "parser_crashed"),
        (3, 3, "refused"),
        (5, 5, "refused"),
    ]


ONE, TWO, THREE = page("One."), page("Two."), page("Three.")


@pytest.mark.parametrize(
    ("kind", "page_count", "chunks"),
    [
        (MissingPages, 3, [piece(1, ONE), piece(3, THREE)]),
        (MissingPages, 3, [piece(1, ONE, TWO)]),
        (MissingPages, 2, [piece(2, TWO)]),
        (MissingPages, 1, []),
        (DuplicatedPages, 2, [piece(1, ONE, TWO), piece(2, TWO)]),
        (DuplicatedPages, 2, [piece(1, ONE), piece(1, ONE), piece(2, TWO)]),
        (DuplicatedPages, 2, [piece(1, ONE, TWO), hole(2, CRASHED)]),
        (ForeignPages, 2, [piece(1, ONE, TWO, THREE)]),
        (ForeignPages, 2, [piece(0, ONE, TWO)]),
        (ForeignPages, 2, [piece(1, ONE), piece(2, TWO, document="b" * 64)]),
        (ForeignPages, 1, [Piece(document=SHA256, page_start=1, page_end=0, lines=CRASHED)]),
    ],
)
def test_pages_that_do_not_make_up_the_document_are_refused_before_the_first_byte(
    kind: type[ForebayError], page_count: int, chunks: list[Piece]
) -> None:
    with pytest.raises(kind) as caught:
        merged(DOCUMENT, page_count, chunks)
    assert_helpful(caught.value)


def stored(*lines: bytes) -> Callable[[], Iterable[bytes]]:
    return lambda: lines


@pytest.mark.parametrize(
    "lines",
    [
        stored(ONE.encoded()),
        stored(ONE.encoded(), TWO.encoded(), THREE.encoded()),
        stored(ONE.encoded(), TWO.encoded()[:-9]),
        stored(ONE.encoded(), TWO.encoded().rstrip(b"\n")),
        stored(ONE.encoded(), b"\n"),
        stored(ONE.encoded(), b'{"text":"Two."}\n'),
        stored(ONE.encoded(), b'{"number":2,' + TWO.encoded()[1:]),
    ],
)
def test_a_chunk_with_other_lines_than_its_pages_ends_the_merge(lines: Callable[[], Iterable[bytes]]) -> None:
    chunk = Piece(document=SHA256, page_start=1, page_end=2, lines=lines)
    with pytest.raises(BadChunks) as caught:
        list(merged(DOCUMENT, 2, [chunk]))
    assert_helpful(caught.value)


@pytest.mark.parametrize(("document", "page_count"), [({}, 1), ({"sha256": 7}, 1), (DOCUMENT, 0)])
def test_a_document_without_sha256_or_pages_is_refused(document: dict[str, Any], page_count: int) -> None:
    with pytest.raises(BadInput) as caught:
        merged(document, page_count, [])
    assert_helpful(caught.value)


def peak_of(consume: Callable[[Iterator[bytes]], object], page_count: int) -> int:
    """The most memory in use while a document of 20 kB a page is merged."""
    line = page("word " * 30).encoded()

    def lines() -> Iterator[bytes]:
        return (b'%b,"more":"%b"}\n' % (line[:-2], b"x" * 20_000) for _ in range(20))

    chunks = (
        Piece(document=SHA256, page_start=start, page_end=start + 19, lines=lines)
        for start in range(1, page_count + 1, 20)
    )
    tracemalloc.start()
    try:
        consume(merged(DOCUMENT, page_count, chunks))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_ten_thousand_pages_are_merged_a_page_at_a_time() -> None:
    assert peak_of(lambda made: sum(map(len, made)), 10_000) < 1_000_000


def test_a_result_held_whole_would_be_noticed() -> None:
    assert peak_of(list, 1_000) > 20_000_000
