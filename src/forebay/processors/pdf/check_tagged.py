"""Checks the tags of a PDF from both sides: each page's marked content is in the tree, each leaf is on a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pikepdf
from pikepdf import Array, Dictionary, Name, Object, Pdf, Stream

from forebay.model.payload import Json
from forebay.processors.pdf.opening import opened, said
from forebay.processors.pdf.refused import Refused
from forebay.processors.pdf.tags import NOWHERE, Leaf, Place, elements, names, numbers, tree_of
from forebay.rules.verdict import ErrorClass

_TOLD: Final = 20
_MANY: Final = 1_000_000
_MAX_FORMS: Final = 100_000


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """Pages that are said to be `untagged` may hold marked content that nobody knows."""
    source = opened(files[0], max_pages=_MANY)
    untagged = {number for first, last in arguments["untagged"] for number in range(first, last + 1)}
    root = tree_of(source.pdf)
    answer: dict[str, Json] = {
        "page_count": len(source.pages),
        "tagged": root is not None,
        "element_count": 0,
        "mark_count": 0,
        "language": _language(source.pdf),
        "problem_count": 0,
        "problems": [],
    }
    if root is None:
        return answer
    try:
        checker = Checker(root, source.pages, untagged)
        found = checker.problems()
    except (pikepdf.PdfError, RuntimeError, ValueError, TypeError) as error:
        raise Refused(ErrorClass.CORRUPTED_CONTENT, f"The tags cannot be read: {said(error)}.") from None
    told: list[Json] = [*found[:_TOLD]]
    counts = {"element_count": checker.element_count, "mark_count": checker.mark_count, "problem_count": len(found)}
    return answer | counts | {"problems": told}


def _language(pdf: Pdf) -> str | None:
    language = pdf.Root.get("/Lang")
    return None if language is None else str(language)


class Checker:
    """What the tree says of each page, and of each stream with marks of its own, beside what is there."""

    def __init__(self, root: Object, pages: list[Object], untagged: set[int]) -> None:
        self._pages = {page.objgen: number for number, page in enumerate(pages, 1)}
        self._list = pages
        self._untagged = untagged
        self._marks: dict[Place, dict[int, Place]] = {}
        self._objects: dict[Place, Place] = {}
        self._parents = numbers(root.get("/ParentTree"))
        self._problems: list[str] = []
        self.mark_count = 0
        self.element_count = 0
        self._walk(root)

    def problems(self) -> list[str]:
        """All of them; a page is looked at, and let go of, at a time."""
        seen: set[Place] = set()
        for number, page in enumerate(self._list, 1):
            if number not in self._untagged:
                self._content(f"page {number}", page, _marked(page, page))
                self._annotations(number, page)
            for form in _forms(page):
                if form.objgen not in seen:
                    seen.add(form.objgen)
                    self._content(f"page {number}, a form on it", form, _marked(form, form))
        for holder, marks in self._marks.items():
            if holder not in seen and holder not in self._pages:
                self._problems.append(f"{len(marks)} marks of an element are on no page of the document")
        return self._problems

    def _walk(self, root: Object) -> None:
        met: set[Place] = set()
        ids: dict[bytes, Place] = {}
        for node, parent, leaves in elements(root):
            self.element_count += 1
            place = node.objgen
            if place in met and place != NOWHERE:
                self._problems.append(f"element {place[0]} is in the tree twice")
                continue
            met.add(place)
            up = node.get("/P")
            if not isinstance(up, Dictionary) or up.objgen != parent:
                self._problems.append(f"element {place[0]} does not lead to the one above it")
            if "/ID" in node:
                identifier = bytes(node["/ID"])
                if identifier in ids:
                    self._problems.append(f"two elements are called {identifier!r}")
                ids[identifier] = place
            for leaf in leaves:
                self._take(leaf, place)
        for identifier, node in names(root.get("/IDTree")):
            if not isinstance(node, Dictionary) or ids.get(identifier) != node.objgen:
                self._problems.append(f"the tree of names leads from {identifier!r} to no element of that name")

    def _take(self, leaf: Leaf, place: Place) -> None:
        if leaf.page not in self._pages:
            self._problems.append(f"element {place[0]} is on a page that is not in the document")
        elif leaf.mark is None:
            self._objects[leaf.holder] = place
        elif leaf.mark in self._marks.setdefault(leaf.holder, {}):
            number = self._pages[leaf.page]
            self._problems.append(f"page {number}: marked content {leaf.mark} is in two elements")
        else:
            self._marks[leaf.holder][leaf.mark] = place

    def _content(self, where: str, holder: Object, there: set[int]) -> None:
        self.mark_count += len(there)
        told = self._marks.get(holder.objgen, {})
        parents = self._listed(holder.get("/StructParents"))
        for mark in sorted(there | told.keys() | parents.keys()):
            if mark not in told:
                known = "the parent tree alone knows" if mark not in there else "no element has"
                self._problems.append(f"{where}: {known} marked content {mark}")
            elif mark not in there:
                self._problems.append(f"{where}: an element has marked content {mark}, which is not there")
            elif parents.get(mark) != told[mark]:
                self._problems.append(f"{where}: the parent tree does not lead from {mark} to its element")

    def _listed(self, key: object) -> dict[int, Place]:
        found = self._parents.get(key) if isinstance(key, int) else None
        if not isinstance(found, Array):
            return {}
        return {mark: node.objgen for mark, node in enumerate(found) if isinstance(node, Dictionary)}

    def _annotations(self, number: int, page: Object) -> None:
        notes = page.get("/Annots")
        for note in notes if isinstance(notes, Array) else ():
            if not isinstance(note, Dictionary) or not ("/StructParent" in note or note.objgen in self._objects):
                continue
            key: Any = note.get("/StructParent")
            element = self._parents.get(key)
            place = element.objgen if isinstance(element, Dictionary) else NOWHERE
            if place == NOWHERE or self._objects.get(note.objgen) != place:
                self._problems.append(f"page {number}: an annotation and its element do not lead to each other")


def _marked(holder: Object, content: Object) -> set[int]:
    properties = _entry(holder, "/Resources", "/Properties")
    found: set[int] = set()
    for step in pikepdf.parse_content_stream(content, "BDC"):
        given = step.operands[1] if len(step.operands) > 1 else None
        if isinstance(given, Name) and isinstance(properties, Dictionary):
            given = properties.get(str(given))
        mark = given.get("/MCID") if isinstance(given, Dictionary) else None
        if isinstance(mark, int):
            found.add(mark)
    return found


def _forms(page: Object) -> Iterator[Object]:
    """Those drawn on a page, or in another of them, that have marks of their own."""
    stack = [page]
    met: set[Place] = set()
    while stack and len(met) < _MAX_FORMS:
        drawn = _entry(stack.pop(), "/Resources", "/XObject")
        for item in drawn.values() if isinstance(drawn, Dictionary) else ():
            if not isinstance(item, Stream) or item.get("/Subtype") != Name.Form or item.objgen in met:
                continue
            met.add(item.objgen)
            stack.append(item)
            if "/StructParents" in item:
                yield item


def _entry(node: Object, *path: str) -> Any:  # noqa: ANN401 - whatever is in the file
    found: Any = node
    for key in path:
        found = found.get(key) if isinstance(found, (Dictionary, Stream)) else None
    return found
