from __future__ import annotations

import io

import pytest
from pikepdf import Array, Dictionary, Name, Pdf
from PIL import Image

from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass
from tests.documents import hostile
from tests.processors.pdf.papers import (
    PDF,
    Put,
    add,
    call,
    drawn,
    fonts,
    paper,
    paragraph,
    picture,
    read,
    saved,
    scanned,
    shown,
    split,
)


def numbered(count: int) -> bytes:
    return paper(*([Put(60, 700, f"Page number {number}")] for number in range(1, count + 1)))


def test_chunks_have_all_pages_once_and_in_order() -> None:
    answer, chunks = split(numbered(7), max_pages=3)
    assert [(chunk["page_start"], chunk["page_end"]) for chunk in answer["chunks"]] == [(1, 3), (4, 6), (7, 7)]
    assert (answer["pages"], answer["repaired"], answer["notes"]) == (7, False, [])
    found = [page["text"] for chunk in chunks for page in read(chunk)]
    assert found == [f"Page number {number}" for number in range(1, 8)]


def test_the_same_document_gives_the_same_bytes() -> None:
    assert split(numbered(5), max_pages=2) == split(numbered(5), max_pages=2)


def test_a_chunk_that_is_split_again_keeps_its_page_numbers() -> None:
    _, chunks = split(numbered(9), max_pages=4)
    answer, parts = split(chunks[1], first=5, max_pages=2)
    assert [(chunk["page_start"], chunk["page_end"]) for chunk in answer["chunks"]] == [(5, 6), (7, 8)]
    assert [page["text"] for part in parts for page in read(part)] == [f"Page number {n}" for n in (5, 6, 7, 8)]


def shared_pictures(count: int) -> bytes:
    """Each page shows one picture, and all have all of them in the resources that they share."""
    with Pdf.new() as pdf:
        pictures = Dictionary()
        for number in range(count):
            pictures[f"/Im{number}"] = picture(pdf, Image.effect_noise((500, 400), 20 + number))
        resources = pdf.make_indirect(Dictionary(XObject=pictures, Font=fonts()))
        for number in range(count):
            page = add(pdf, b"q 500 0 0 400 40 300 cm /Im%d Do Q" % number)
            page["/Resources"] = resources
        return saved(pdf)


def test_a_chunk_has_of_shared_resources_only_what_its_pages_show() -> None:
    document = shared_pictures(8)
    _, chunks = split(document, max_pages=2)
    assert sum(map(len, chunks)) < 1.1 * len(document)
    for number in range(8):
        assert drawn(chunks[number // 2], number % 2) == drawn(document, number)


def test_a_chunk_that_is_too_large_is_halved_down_to_a_page() -> None:
    answer, chunks = split(shared_pictures(5), max_bytes=450_000)
    assert [(chunk["page_start"], chunk["page_end"]) for chunk in answer["chunks"]] == [(1, 2), (3, 3), (4, 5)]
    assert max(map(len, chunks)) <= 450_000
    answer, _ = split(shared_pictures(2), max_bytes=100_000)
    assert [note.split(" has")[0] for note in answer["notes"]] == ["page 1 alone", "page 2 alone"]


def test_what_pages_inherit_from_their_tree_they_keep() -> None:
    with Pdf.new() as pdf:
        for number in (1, 2):
            page = add(pdf, shown([Put(60, 300, f"Page {number}")]))
            for key in ("/Resources", "/MediaBox"):
                del page[key]
        tree = pdf.Root["/Pages"]
        tree["/Resources"], tree["/MediaBox"] = Dictionary(Font=fonts()), Array([0, 0, 400, 500])
        tree["/Rotate"] = 90
        document = saved(pdf)
    _, chunks = split(document, max_pages=1)
    for number, chunk in enumerate(chunks):
        (page,) = read(chunk)
        assert (page["width"], page["height"], page["text"]) == (500, 400, f"Page {number + 1}")
        assert drawn(chunk) == drawn(document, number)


def test_a_layer_that_is_hidden_stays_hidden() -> None:
    with Pdf.new() as pdf:
        layer = pdf.make_indirect(Dictionary(Type=Name.OCG, Name=b"hidden"))
        page = add(pdf, b"/OC /L BDC 0 0 300 300 re f EMC")
        page["/Resources"]["/Properties"] = Dictionary(L=layer)
        pdf.Root["/OCProperties"] = Dictionary(OCGs=Array([layer]), D=Dictionary(OFF=Array([layer])))
        document = saved(pdf)
    _, chunks = split(document)
    assert drawn(document).getextrema() == drawn(chunks[0]).getextrema() == (255, 255)


def test_scripts_and_the_like_are_named_and_left_out() -> None:
    with Pdf.open(io.BytesIO(numbered(1))) as pdf:
        pdf.Root["/OpenAction"] = Dictionary(S=Name.JavaScript, JS=b"app.alert(1)")
        answer, chunks = split(saved(pdf))
    assert answer["notes"] == ["left out: an action on opening"]
    assert b"alert" not in chunks[0]


@pytest.mark.parametrize("name", ["truncated", "without xref", "wrong startxref", "garbage tail", "xref loop"])
def test_what_can_be_repaired_is_and_says_so(name: str) -> None:
    answer, (chunk,) = split(hostile.KINDS[name].made())
    assert answer["repaired"]
    assert read(chunk)[0]["text"] == "The gates were shut in time."
    assert not split(hostile.sound())[0]["repaired"]


def test_pages_whose_tree_is_lost_are_found_in_the_file() -> None:
    document = numbered(3)
    broken = document.replace(b"/Kids [", b"/Kidz [")
    assert broken != document
    answer, (chunk,) = split(broken)
    assert answer["notes"] == ["the tree of pages is lost: pages are in the order of the file"]
    assert [page["text"] for page in read(chunk)] == [f"Page number {number}" for number in (1, 2, 3)]


def test_a_count_that_lies_is_not_believed() -> None:
    assert split(hostile.lying_count())[0]["pages"] == 1
    assert len(split(hostile.owner_password())[1]) == 1


@pytest.mark.parametrize(
    ("name", "error_class"),
    [
        ("user password", ErrorClass.ENCRYPTED),
        ("zero pages", ErrorClass.INVALID_PDF),
        ("million pages", ErrorClass.TOO_MANY_PAGES),
        ("wide page", ErrorClass.PAGE_TOO_LARGE),
        ("page tree loop", ErrorClass.INVALID_PDF),
        ("only a header", ErrorClass.CORRUPTED_CONTENT),
        ("object stream bomb", ErrorClass.DECOMPRESSION_LIMIT),
        ("page in a bomb", ErrorClass.DECOMPRESSION_LIMIT),
    ],
)
def test_what_cannot_be_worked_on_is_refused_by_its_class(name: str, error_class: ErrorClass) -> None:
    document = hostile.KINDS[name].made()
    with pytest.raises(Refused) as refused:
        split(document)
    assert refused.value.error_class is error_class
    assert "BufferedReader" not in refused.value.text
    with pytest.raises(Refused):
        call("inspect", {"media_type": PDF, "max_pages": 1000}, document)


def test_inspect_counts_the_pages_that_would_have_to_be_recognized() -> None:
    text, scan = paper(paragraph()), scanned(Image.new("L", (60, 84), 90))
    with Pdf.new() as pdf:
        for document in (text, scan, scan):
            with Pdf.open(io.BytesIO(document)) as part:
                pdf.pages.extend(part.pages)
        document = saved(pdf)
    answer, _ = call("inspect", {"media_type": PDF, "max_pages": 10}, document)
    assert answer == {"pages": 3, "repaired": False, "notes": [], "scan_pages": 2, "sampled": 3}


def test_inspect_looks_at_a_sample_of_a_long_document_and_names_what_is_unreadable() -> None:
    with Pdf.new() as pdf:
        for _ in range(450):
            add(pdf, shown([Put(60, 700, "A page")]))
        pdf.pages[6].obj["/Contents"]["/Filter"] = Name.FlateDecode
        document = saved(pdf)
    answer, _ = call("inspect", {"media_type": PDF, "max_pages": 1000}, document)
    assert (answer["pages"], answer["sampled"], answer["scan_pages"]) == (450, 150, 0)
    assert [note.split(":")[0] for note in answer["notes"]] == ["page 7"]
