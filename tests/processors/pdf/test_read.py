from __future__ import annotations

import zlib
from typing import Any

import pytest
from pikepdf import Array, Dictionary, Name, Pdf, String
from PIL import Image, ImageOps

from forebay.model.document import Block, BlockKind, Box, Line, Method, Page, Word
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass
from tests.processors.pdf.papers import (
    ENGLISH,
    Put,
    add,
    call,
    coded,
    drawn,
    fonts,
    paper,
    paragraph,
    read,
    saved,
    scanned,
    shown,
    texts,
    words,
)

GREY = Image.linear_gradient("L").resize((60, 84))


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
@pytest.mark.parametrize("crop", [None, [40, 50, 500, 700]])
def test_a_words_box_is_around_its_ink_on_the_page_as_shown(turn: int, crop: list[int] | None) -> None:
    box = Array([0, 0, 595, 842] if crop is None else crop)
    document = paper([Put(100, 600, "HARBOUR", 40)], Rotate=turn, CropBox=box)
    (page,) = read(document)
    image = drawn(document)
    assert (round(page["width"]), round(page["height"])) == image.size
    left, top, right, bottom = ImageOps.invert(image).getbbox() or (0, 0, 0, 0)
    (word,) = words(page)
    ink = [left / image.width, top / image.height, right / image.width, bottom / image.height]
    # The box is as high as the font's letters may be, not as these are.
    assert word["box"] == pytest.approx(ink, abs=0.035)
    assert word["text"] == page["text"] == "HARBOUR"


def test_text_that_runs_up_the_page_has_upright_boxes() -> None:
    (page,) = read(paper([Put(300, 200, "Sideways", 20, "0 1 -1 0")]))
    left, top, right, bottom = words(page)[0]["box"]
    assert (bottom - top) * 842 > 2 * (right - left) * 595


def test_columns_that_are_written_row_by_row_are_read_one_after_the_other() -> None:
    rows: list[Put] = []
    for number in range(6):
        rows.append(Put(60, 700 - 14 * number, f"left line {number} has some words"))
        rows.append(Put(320, 700 - 14 * number, f"right line {number} has others"))
    (page,) = read(paper([Put(60, 740, "One title goes across both columns of this page", 11), *rows]))
    title, left, right = texts(page)
    assert title.startswith("One title")
    assert left == " ".join(f"left line {number} has some words" for number in range(6))
    assert right == " ".join(f"right line {number} has others" for number in range(6))


def test_a_table_is_read_row_by_row() -> None:
    rows: list[Put] = []
    for number in range(6):
        rows.append(Put(60, 700 - 14 * number, f"Item {number}"))
        rows.append(Put(320, 700 - 14 * number, f"{number}.50"))
    (page,) = read(paper(rows))
    assert page["text"].startswith("Item 0 0.50\nItem 1 1.50\n")


def test_paragraphs_headings_and_items_of_lists_are_told_apart() -> None:
    (page,) = read(
        paper(
            [
                Put(60, 800, "Report", 24),
                Put(60, 765, "Water", 16),
                *paragraph(top=740),
                *paragraph(top=670),
                Put(60, 590, "\u2022 one thing to do"),
                Put(60, 576, "\u2022 another thing"),
                Put(72, 562, "that goes on"),
                Put(60, 530, "1. first"),
                Put(60, 516, "2. second"),
                Put(60, 480, "In the year 2019 nothing happened, and"),
                Put(60, 466, "12. was the last of its numbers."),
            ]
        )
    )
    kinds = [(block["kind"], block.get("level")) for block in page["blocks"]]
    paragraphs, item = ("paragraph", None), ("list_item", None)
    assert kinds == [("heading", 1), ("heading", 2), paragraphs, paragraphs, item, item, item, item, paragraphs]
    assert texts(page)[2] == texts(page)[3] == ENGLISH
    assert texts(page)[5] == "\u2022 another thing that goes on"
    assert page["language"] == "en"


def test_a_paragraph_may_begin_by_an_indent_alone() -> None:
    first, second = paragraph(top=780), paragraph(top=738)
    (page,) = read(paper([*first, second[0]._replace(x=75), *second[1:]]))
    assert texts(page) == [ENGLISH, ENGLISH]


def test_a_hyphen_at_the_end_of_a_line_stays_where_it_is() -> None:
    (page,) = read(paper([Put(60, 700, "The reser-"), Put(60, 686, "voir is full.")]))
    assert page["text"] == "The reser-\nvoir is full."


def test_characters_beyond_the_first_plane_and_ligatures_are_read() -> None:
    (page,) = read(coded(["\U0001f600", "A", "fi", "\ufb01", "\U0001d400z"]), "never")
    assert page["text"].split() == ["\U0001f600", "A", "fi", "fi", "\U0001d400z"]
    starts = [page["text"][word["start"] :][: len(word["text"])] for word in words(page)]
    assert starts == [word["text"] for word in words(page)]
    lefts = [word["box"][0] for word in words(page)]
    assert lefts == sorted(set(lefts))


def rebuilt(page: dict[str, Any]) -> Page:
    return Page(
        width=page["width"],
        height=page["height"],
        processor=page["processor"],
        version=page["version"],
        method=Method(page["method"]),
        language=page["language"],
        notes=tuple(page["notes"]),
        blocks=tuple(
            Block(
                tuple(
                    Line(tuple(Word(word["text"], Box(*word["box"]), word["confidence"]) for word in line["words"]))
                    for line in block["lines"]
                ),
                BlockKind(block["kind"]),
                block.get("level"),
            )
            for block in page["blocks"]
        ),
    )


@pytest.mark.parametrize(
    "document",
    [
        paper([Put(60, 800, "Title", 30), *paragraph(), Put(-50, 30, "off the page"), Put(60, 40, 'a "b" \\ c\u20ac')]),
        paper([Put(100, 600, "turned")], Rotate=270),
        coded(["\U0001f600", "\u2028x", "\x01", "\ud7ff", "\ue000"]),
        paper([]),
    ],
    ids=["plain", "turned", "astral", "empty"],
)
def test_the_line_is_the_one_that_a_page_encodes_to(document: bytes) -> None:
    answer, data = call("read", {"ocr": "never"}, document)
    page = read(document, "never")[0]
    assert data == rebuilt(page).encoded()
    assert answer["pages"] == [{"offset": 0, "size": len(data)}]


def test_a_blank_page_needs_no_ocr_and_a_picture_does() -> None:
    for ocr in ("auto", "always"):
        (page,) = read(paper([]), ocr)
        assert (page["method"], page["text"], page["confidence"], page["word_count"]) == ("none", "", None, 0)
    assert read(scanned(GREY)) == [None]
    assert read(scanned(GREY), "never")[0]["method"] == "none"


def test_text_is_recognized_anyway_if_always_is_asked_for() -> None:
    answer, _ = call("read", {"ocr": "always"}, paper(paragraph(), Rotate=90))
    assert answer["pages"] == [{"ocr": True, "width": 842, "height": 595}]


def test_a_stamp_on_a_scan_is_no_text_layer() -> None:
    stamp = shown([Put(60, 60, "Received 12 March")])
    assert read(scanned(GREY, stamp)) == [None]
    assert read(scanned(GREY, stamp), "never")[0]["text"] == "Received 12 March"


def test_the_invisible_layer_of_an_earlier_ocr_is_used() -> None:
    (page,) = read(scanned(GREY, b"3 Tr " + shown([Put(60, 60, "Two words")])))
    assert (page["method"], page["text"]) == ("text", "Two words")


def test_a_photograph_with_a_page_of_text_beside_it_is_read() -> None:
    (page,) = read(scanned(GREY, shown([*paragraph(), *paragraph(top=600)])))
    assert page["method"] == "text"


def test_text_of_private_characters_is_not_usable() -> None:
    assert read(coded(["\ue001", "\ue002", "\ue003", "a"])) == [None]
    assert read(coded(["\ue001", "b", "c", "a"]))[0]["method"] == "text"


def compressed(content: bytes, how: object = Name.FlateDecode) -> bytes:
    """A sound page, and one whose content is what was given as its compressed form."""
    with Pdf.new() as pdf:
        add(pdf, shown(paragraph()))
        page = add(pdf, b"")
        page["/Contents"] = pdf.make_stream(content)
        page["/Contents"]["/Filter"] = how
        return saved(pdf)


@pytest.mark.parametrize("how", [Name.FlateDecode, Name.LZWDecode])
def test_content_that_cannot_be_decoded_is_refused_and_not_an_empty_page(how: Name) -> None:
    with pytest.raises(Refused, match="page 12 cannot be decoded") as refused:
        read(compressed(b"no zlib at all", how), first=11)
    assert refused.value.error_class is ErrorClass.CORRUPTED_CONTENT


@pytest.mark.parametrize("how", [0, True, 1.5, String("x"), Dictionary()], ids=repr)
def test_a_filter_that_is_none_is_passed_over(how: object) -> None:
    assert [texts(page) for page in read(compressed(shown(paragraph()), how))] == [[ENGLISH], [ENGLISH]]


def test_content_that_breaks_off_is_read_as_far_as_it_goes_and_noted() -> None:
    packed = zlib.compress(shown([Put(60, 800 - number / 9, f"{number} {ENGLISH}") for number in range(900)]), 0)
    whole, part = read(compressed(packed[: len(packed) // 2]))
    assert whole["notes"] == []
    assert part["word_count"] > 100
    assert part["notes"] == ["part of the page may be missing: its compressed data breaks off"]


def test_a_wrong_checksum_alone_is_no_damage() -> None:
    packed = zlib.compress(shown(paragraph()))
    _, page = read(compressed(packed[:-1] + bytes([packed[-1] ^ 1])))
    assert page["notes"] == []
    assert texts(page) == [ENGLISH]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["content", "form"])
def test_a_bomb_is_refused_wherever_it_is(place: str) -> None:
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(129)) + packer.flush()
    with Pdf.new() as pdf:
        page = add(pdf, b"/Fm Do")
        stream = pdf.make_stream(bomb)
        stream["/Filter"] = Name.FlateDecode
        if place == "form":
            stream["/Subtype"], stream["/BBox"] = Name.Form, Array([0, 0, 9, 9])
            page["/Resources"] = Dictionary(Font=fonts(), XObject=Dictionary(Fm=stream))
        else:
            page["/Contents"] = stream
        document = saved(pdf)
    with pytest.raises(Refused) as refused:
        read(document)
    assert refused.value.error_class is ErrorClass.DECOMPRESSION_LIMIT
