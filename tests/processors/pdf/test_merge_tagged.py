"""Tagged parts as one document: nothing of their structure is lost, and nothing of one becomes another's."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pikepdf
import pytest
from pikepdf import Array, Dictionary, Name, String

from forebay.simulate.tagging import tagged
from tests.autotag.ground import changed, checked, merged, words
from tests.pipelines.ground import pdf


def part(pages: int = 2, text: str = "Page {}", language: str = "en") -> bytes:
    return tagged(pdf(pages, text), language=language)


def opened(data: bytes) -> pikepdf.Pdf:
    return pikepdf.open(io.BytesIO(data))


def test_every_element_still_leads_to_its_own_text() -> None:
    whole = merged(part(2, "a{}"), part(1, "b{}"), part(3, "c{}"))
    assert [text for _, text in words(whole)] == ["a1", "a2", "b1", "c1", "c2", "c3"]
    said = checked(whole)
    assert said == {
        "page_count": 6,
        "tagged": True,
        "element_count": 7,
        "mark_count": 6,
        "language": "en",
        "problem_count": 0,
        "problems": [],
    }
    with opened(whole) as made:
        root = made.Root.StructTreeRoot
        assert str(root.K.S) == "/Document"
        assert [page.StructParents for page in made.pages] == list(range(6))
        assert root.ParentTreeNextKey == 6
        assert made.Root.MarkInfo.Marked
        assert not made.Root.MarkInfo.Suspects
        assert made.check_pdf_syntax() == []


def test_the_same_parts_give_the_same_bytes() -> None:
    parts = [part(2), part(3)]
    assert merged(*parts) == merged(*parts)


def test_a_merge_of_merges_is_the_same_tree() -> None:
    parts = [part(1, "a{}"), part(1, "b{}"), part(1, "c{}")]
    assert words(merged(merged(*parts[:2]), parts[2])) == words(merged(*parts))


def test_pages_without_tags_lie_in_their_place_and_lead_nowhere() -> None:
    untagged = part(2, "b{}")  # with marks and numbers of a tree that does not come along
    whole = merged(part(2, "a{}"), untagged, part(1, "c{}"), untagged=(1,))
    assert [text for _, text in words(whole)] == ["a1", "a2", "c1"]
    assert checked(whole, (3, 4))["problem_count"] == 0
    assert checked(whole)["problem_count"] == 2
    with opened(whole) as made:
        assert ["/StructParents" in page for page in made.pages] == [True, True, False, False, True]
        assert made.Root.MarkInfo.Suspects


def test_the_language_of_a_part_that_is_not_the_documents_stays_with_its_elements() -> None:
    with opened(merged(part(3), part(1, language="de"))) as made:
        assert str(made.Root.Lang) == "en"
        assert ["/Lang" in each for each in made.Root.StructTreeRoot.K.K] == [False, False, False, True]


def with_names(role: str, *, identifier: bytes, width: int) -> bytes:
    """A part with kinds, classes and names of its own, and a cell that names its header."""
    with changed(part(2)) as (made, done):
        root = made.Root.StructTreeRoot
        root.RoleMap = Dictionary(Chapter=Name(role))
        root.ClassMap = Dictionary(Wide=Dictionary(O=Name.Layout, Width=width))
        first, second = root.K.K
        first.S = Name.Chapter
        first.C = Name.Wide
        first.ID = String(identifier)
        second.A = Dictionary(O=Name.Table, Headers=Array([String(identifier)]))
        root.IDTree = Dictionary(Names=Array([String(identifier), first]))
    return done[0]


def test_names_that_mean_the_same_are_kept_and_those_that_do_not_are_told_apart() -> None:
    whole = merged(
        with_names("/Sect", identifier=b"one", width=1),
        with_names("/Sect", identifier=b"two", width=1),
        with_names("/Div", identifier=b"one", width=2),
    )
    assert checked(whole)["problems"] == []
    with opened(whole) as made:
        root = made.Root.StructTreeRoot
        assert dict(root.RoleMap.items()) == {"/Chapter": Name.Sect, "/Chapter-2": Name.Div}
        assert {name: each.Width for name, each in root.ClassMap.items()} == {"/Wide": 1, "/Wide-2": 2}
        chapters = root.K.K[::2]
        assert [str(each.S) for each in chapters] == ["/Chapter", "/Chapter", "/Chapter-2"]
        assert [str(each.C) for each in chapters] == ["/Wide", "/Wide", "/Wide-2"]
        assert [bytes(each.ID) for each in chapters] == [b"one", b"two", b"one-2"]
        cells = root.K.K[1::2]
        assert [bytes(each.A.Headers[0]) for each in cells] == [b"one", b"two", b"one-2"]
        assert [bytes(key) for key in root.IDTree.Names[::2]] == [b"one", b"one-2", b"two"]


def test_a_document_element_that_says_more_stays_as_a_part_of_the_document() -> None:
    with changed(part(1, "a{}")) as (made, done):
        made.Root.StructTreeRoot.K.T = String("A title of its own")
    whole = merged(done[0], part(1, "b{}"))
    assert checked(whole)["problems"] == []
    with opened(whole) as made:
        assert [str(each.S) for each in made.Root.StructTreeRoot.K.K] == ["/Part", "/P"]


def linked(pages: int) -> bytes:
    """A document with a link on every page."""
    with changed(pdf(pages)) as (made, done):
        for page in made.pages:
            link = Dictionary(Type=Name.Annot, Subtype=Name.Link, Rect=Array([0, 0, 9, 9]), Border=Array([0, 0, 0]))
            page.Annots = Array([made.make_indirect(link)])
    return tagged(done[0], language="en")


def test_annotations_keep_their_elements_however_many_there_are() -> None:
    whole = merged(linked(200), linked(3))
    assert checked(whole)["problems"] == []
    with opened(whole) as made:
        tree = made.Root.StructTreeRoot.ParentTree
        assert [list(map(int, leaf.Limits)) for leaf in tree.Kids] == [[0, 255], [256, 405]]
        assert sum(len(leaf.Nums) for leaf in tree.Kids) == 2 * 406


def with_form() -> bytes:
    """A page whose form has marked content of its own."""
    with changed(part(1)) as (made, done):
        root, page = made.Root.StructTreeRoot, made.pages[0]
        form = made.make_stream(b"/Span <</MCID 0>> BDC EMC")
        form.Type, form.Subtype, form.BBox = Name.XObject, Name.Form, Array([0, 0, 9, 9])
        form.StructParents = 1
        page.Resources.XObject = Dictionary(F=form)
        leaf = Dictionary(Type=Name.MCR, Pg=page.obj, Stm=form, MCID=0)
        element = made.make_indirect(Dictionary(Type=Name.StructElem, S=Name.Span, P=root.K, K=leaf))
        root.K.K.append(element)
        root.ParentTree.Nums = Array([*root.ParentTree.Nums, 1, Array([element])])
    return done[0]


def test_marked_content_of_forms_is_followed_too() -> None:
    one = with_form()
    assert (checked(one)["mark_count"], checked(one)["problems"]) == (2, [])
    whole = merged(one, one)
    assert (checked(whole)["mark_count"], checked(whole)["problems"]) == (4, [])


def test_layers_of_all_parts_are_the_documents() -> None:
    def layered() -> bytes:
        with changed(part(1)) as (made, done):
            group = made.make_indirect(Dictionary(Type=Name.OCG, Name=String("Stamp")))
            made.pages[0].Resources.Properties = Dictionary(Stamp=group)
            made.Root.OCProperties = Dictionary(OCGs=Array([group]), D=Dictionary(OFF=Array([group])))
        return done[0]

    with opened(merged(layered(), layered())) as made:
        groups = made.Root.OCProperties
        assert len(groups.OCGs) == len(groups.D.OFF) == 2
        assert {page.Resources.Properties.Stamp.objgen for page in made.pages} == {each.objgen for each in groups.OCGs}


def _shift(made: Any) -> None:  # noqa: ANN401 - of pikepdf, here and below
    """As if the second part's numbers had not been changed."""
    made.pages[2].StructParents = 0


def _swap(made: Any) -> None:  # noqa: ANN401
    numbers = made.Root.StructTreeRoot.ParentTree.Nums
    numbers[1], numbers[3] = numbers[3], numbers[1]


def _no_number(made: Any) -> None:  # noqa: ANN401
    del made.pages[1].StructParents


def _no_leaf(made: Any) -> None:  # noqa: ANN401
    del made.Root.StructTreeRoot.K.K[0]


def _no_mark(made: Any) -> None:  # noqa: ANN401
    made.pages[0].Contents = made.make_stream(b"BT ET")


def _wrong_page(made: Any) -> None:  # noqa: ANN401
    made.Root.StructTreeRoot.K.K[0].Pg = made.pages[1].obj


def _lost_page(made: Any) -> None:  # noqa: ANN401
    del made.pages[0]


def _lost_parent(made: Any) -> None:  # noqa: ANN401
    made.Root.StructTreeRoot.K.K[0].P = made.Root.StructTreeRoot


def _lost_name(made: Any) -> None:  # noqa: ANN401
    made.Root.StructTreeRoot.IDTree = Dictionary(Names=Array([String("x"), made.Root.StructTreeRoot.K.K[0]]))


def _twice(made: Any) -> None:  # noqa: ANN401
    kids = made.Root.StructTreeRoot.K.K
    kids.append(kids[0])


@pytest.mark.parametrize(
    ("breaks", "found"),
    [
        (_shift, "page 3: the parent tree does not lead from 0 to its element"),
        (_swap, "page 1: the parent tree does not lead from 0 to its element"),
        (_no_number, "page 2: the parent tree does not lead from 0 to its element"),
        (_no_leaf, "page 1: no element has marked content 0"),
        (_no_mark, "page 1: an element has marked content 0, which is not there"),
        (_wrong_page, "page 1: no element has marked content 0"),
        (_lost_page, "is on a page that is not in the document"),
        (_lost_parent, "does not lead to the one above it"),
        (_lost_name, "the tree of names leads from b'x' to no element of that name"),
        (_twice, "is in the tree twice"),
    ],
)
def test_the_checker_finds_tags_that_are_broken(breaks: Callable[[Any], None], found: str) -> None:
    """Negative control: the same document, broken in one place."""
    whole = merged(part(2), part(2))
    assert checked(whole)["problems"] == []
    with changed(whole) as (made, done):
        breaks(made)
    assert any(found in problem for problem in checked(done[0])["problems"])


def test_what_a_provider_did_wrong_is_neither_mended_nor_made_worse() -> None:
    with changed(part(2)) as (made, done):
        _swap(made)
    before = checked(done[0])["problem_count"]
    assert before == 2
    assert checked(merged(part(2), done[0], part(1)))["problem_count"] == before


def test_a_tree_with_a_loop_ends() -> None:
    with changed(part(1)) as (made, done):
        element = made.Root.StructTreeRoot.K.K[0]
        element.K = Array([0, made.Root.StructTreeRoot.K])
    assert checked(done[0])["problem_count"] > 0
    merged(done[0], part(1))
