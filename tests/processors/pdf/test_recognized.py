from __future__ import annotations

import io
import json
from typing import Any

import pikepdf
import pytest
from PIL import Image, ImageDraw

from forebay.processors.pdf import orient
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass
from tests.processors.pdf.papers import (
    ENGLISH,
    Put,
    call,
    drawn,
    paper,
    paragraph,
    read,
    saved,
    scanned,
    split,
    texts,
    words,
)

BY = {"processor": "local", "version": "1", "notes": []}
ODD = ["Größe", "\U0001f600", "日本", "שלום", "a\u0301", '"q"', "x"]


def tsv(rows: list[tuple[int, int, int, int, int, int, int, str]], confidence: float = 96.5) -> bytes:
    """Rows of block, paragraph, line, left, top, width, height and text."""
    head = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"
    lines = [
        f"5\t1\t{block}\t{par}\t{line}\t{at}\t{left}\t{top}\t{width}\t{height}\t{confidence}\t{text}\n"
        for at, (block, par, line, left, top, width, height, text) in enumerate(rows, 1)
    ]
    return (head + "1\t1\t0\t0\t0\t0\t0\t0\t99\t99\t-1\t\n" + "".join(lines)).encode()


def recognized(table: bytes, **changed: object) -> tuple[Any, Any]:
    arguments = {"width": 595.0, "height": 842.0, "pixels": [1000, 1400], "turned": 0, **BY}
    answer, line = call("recognized", arguments | changed, table)
    assert answer["size"] == len(line)
    return answer, json.loads(line)


@pytest.mark.parametrize(("turn", "skew"), [(0, 0.0), (90, 0.0), (180, 1.5), (270, 0.0), (0, -3.0), (90, 2.0)])
def test_boxes_come_back_to_where_the_ink_is_on_the_page_as_shown(turn: int, skew: float) -> None:
    page = Image.new("L", (1000, 1400), 255)
    ImageDraw.Draw(page).rectangle((100, 900, 179, 929), 0)
    seen = page.rotate(-turn, expand=True).rotate(skew, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    left, top, right, bottom = seen.point(lambda value: 255 * (value < 128)).getbbox() or (0, 0, 0, 0)
    table = tsv([(1, 1, 1, left, top, right - left, bottom - top, "ink")])
    _, made = recognized(table, image=list(seen.size), turned=turn, skew=skew)
    (word,) = words(made)
    assert word["box"] == pytest.approx([0.1, 900 / 1400, 0.18, 930 / 1400], abs=0.008)
    assert made["turned"] == turn


def test_lines_and_paragraphs_follow_the_table_and_a_misread_bullet_is_one() -> None:
    rows = [(1, 1, 1, 100, 100, 400, 44, "Rivers")]
    for line in range(5):
        par = 1 if line < 4 else 2
        rows += [(2, par, line, 100 + 90 * at, 200 + 30 * line, 80, 20, f"word{line}{at}") for at in range(6)]
    rows += [(3, 1, 1, 100, 500, 10, 12, "¢"), (3, 1, 1, 120, 500, 80, 20, "item"), (3, 1, 1, 210, 500, 80, 20, "one")]
    answer, made = recognized(tsv(rows))
    kinds = [(block["kind"], block.get("level"), len(block["lines"])) for block in made["blocks"]]
    assert kinds == [("heading", 1, 1), ("paragraph", None, 5), ("list_item", None, 1)]
    assert texts(made)[2] == "• item one"
    assert (answer["words"], answer["confidence"], answer["on_end"]) == (34, 0.965, False)
    assert made["method"] == "ocr"


def test_a_table_without_words_is_a_page_without_words() -> None:
    answer, made = recognized(tsv([(1, 1, 1, 5, 5, 5, 5, "  "), (1, 1, 1, 5, 5, 5, 5, "\x01")]))
    assert (answer["words"], answer["confidence"], made["text"], made["blocks"]) == (0, None, "", [])


def test_words_on_end_are_noticed() -> None:
    assert recognized(tsv([(1, 1, 1, 5, 5, 20, 80, "upright")]))[0]["on_end"] is True


@pytest.mark.parametrize("angle", [0.0, 0.1, 2.0, -2.0, 3.3])
def test_skew_is_found_to_a_fraction_of_a_degree_and_left_where_it_is_small(angle: float) -> None:
    page = drawn(paper([*paragraph(), *paragraph(top=690), *paragraph(top=600)]), dpi=150)
    found = orient.skew(page.rotate(angle, Image.Resampling.BICUBIC, fillcolor=255))
    assert found == pytest.approx(-angle, abs=0.15)
    assert (found == 0) == (abs(angle) < 0.2)
    assert not orient.is_sideways(page)
    assert orient.is_sideways(page.rotate(90, expand=True))


def test_a_page_is_drawn_as_it_is_shown() -> None:
    document = paper([Put(100, 600, "HARBOUR", 40)], Rotate=90)
    answer, picture = call("render", {"page": 0, "dpi": 72}, document)
    assert (answer["width"], answer["height"], answer["skew"]) == (842, 595, 0)
    ours = Image.open(io.BytesIO(picture), formats=["TIFF"])
    assert (ours.mode, ours.size, ours.info["compression"]) == ("L", (842, 595), "raw")
    assert ours.point(lambda value: 255 * (value < 99)).getbbox() == (
        drawn(document).point(lambda value: 255 * (value < 99)).getbbox()
    )
    turned, picture = call("render", {"page": 0, "dpi": 72, "turn": 90}, document)
    assert turned["image"] == [595, 842]
    assert Image.open(io.BytesIO(picture)).tobytes() == ours.rotate(-90, expand=True).tobytes()


def test_a_page_of_too_many_pixels_is_refused_by_its_number() -> None:
    with pytest.raises(Refused, match="Page 8 would have") as refused:
        call("render", {"page": 1, "dpi": 200, "first": 7}, paper([], [], size=(4000, 4000)))
    assert refused.value.error_class is ErrorClass.PAGE_TOO_LARGE


def test_an_image_of_too_many_pixels_is_refused_however_small_it_is_drawn() -> None:
    document = (
        scanned(Image.new("L", (8, 8))).replace(b"/Width 8", b"/Width 60000").replace(b"/Height 8", b"/Height 60000")
    )
    with pytest.raises(Refused, match="image of 3600 megapixels"):
        call("render", {"page": 0, "dpi": 72}, document)


def page_line(
    rows: list[tuple[int, int, int, int, int, int, int, str]], turned: int, size: tuple[float, float]
) -> bytes:
    pixels = [round(edge * 2) for edge in size]
    image = pixels if turned % 180 == 0 else pixels[::-1]
    arguments = {"width": size[0], "height": size[1], "pixels": pixels, "image": image, "turned": turned, **BY}
    _, line = call("recognized", arguments, tsv(rows))
    return b'{"number":1,"text_start":0,' + line[1:-1] + b",\n"


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_a_searchable_page_has_the_words_where_they_were_read(rotate: int, turned: int) -> None:
    rows = [
        (1, 1, line, 100 + 130 * at, 200 + 40 * line, 110, 24, word)
        for line in range(3)
        for at, word in enumerate(["gates", "were", "shut"])
    ]
    scan = scanned(Image.new("L", (60, 84), 200), Rotate=rotate, CropBox=[10, 20, 590, 830])
    size = (580.0, 810.0) if rotate % 180 == 0 else (810.0, 580.0)
    lines = b'{"forebay":1,"pages":[\n' + page_line(rows, turned, size) + b'],"summary":{}}\n'
    answer, made = call("searchable", {"media_type": "application/pdf"}, scan, lines)
    assert answer["size"] == len(made)
    assert drawn(made) == drawn(scan)
    (page,) = read(made)
    expected = words(json.loads(lines.split(b"\n")[1][:-1]))
    assert [word["text"] for word in words(page)] == [word["text"] for word in expected]
    for found, put in zip(words(page), expected, strict=True):
        assert found["box"] == pytest.approx(put["box"], abs=0.003)
    assert call("searchable", {}, scan, lines)[1] == made


def test_a_page_whose_fonts_are_no_dictionary_is_damaged_content() -> None:
    scan = scanned(Image.new("L", (60, 84), 200))
    with pikepdf.open(io.BytesIO(scan)) as pdf:
        pdf.pages[0].obj["/Resources"]["/Font"] = pikepdf.Array([0])
        odd = saved(pdf)
    rows = [(1, 1, 1, 100, 200, 100, 30, "gates")]
    with pytest.raises(Refused) as refused:
        call("searchable", {}, odd, page_line(rows, 0, (595.0, 842.0)))
    assert refused.value.error_class is ErrorClass.CORRUPTED_CONTENT


def test_any_text_can_be_found_again() -> None:
    rows = [(1, 1, 1, 100 + 120 * at, 200, 100, 30, word) for at, word in enumerate(ODD)]
    scan = scanned(Image.new("L", (60, 84), 200))
    _, made = call("searchable", {}, scan, page_line(rows, 0, (595.0, 842.0)))
    (page,) = read(made)
    assert sorted(word["text"] for word in words(page)) == sorted(ODD)


def test_pages_with_text_of_their_own_and_holes_stay_as_they_are() -> None:
    document = paper(paragraph(), paragraph())
    _, data = call("read", {"ocr": "auto"}, document)
    first = data.splitlines()[0]
    hole = b'{"number":2,"text_start":9,"length":0,"missing":{"error_class":"x","error_text":"y"}}\n'
    _, made = call("searchable", {}, document, b'{"number":1,"text_start":0,' + first[1:] + b"\n" + hole)
    assert b"GlyphLess" not in made
    assert [texts(page) for page in read(made)] == [[ENGLISH], [ENGLISH]]


def test_an_image_becomes_a_searchable_document() -> None:
    file = io.BytesIO()
    Image.new("L", (1190, 1684), 255).save(file, "PNG", dpi=(144, 144))
    rows = [(1, 1, 1, 100, 200, 110, 24, "gates")]
    _, made = call("searchable", {"media_type": "image/png"}, file.getvalue(), page_line(rows, 0, (595.0, 842.0)))
    assert read(made)[0]["text"] == "gates"
    assert len(split(made)[1]) == 1
