"""Walks what makes a PDF a tagged one: structure elements, their leaves, and the trees of numbers and names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pikepdf import Array, Dictionary, Name, Object, Pdf

Place = tuple[int, int]
"""Where an object lies in its file: (0, 0) for one that lies within another."""
NOWHERE: Place = (0, 0)
_MAX_DEPTH = 64


class Leaf(NamedTuple):
    """What an element holds: marked content of a page or of a stream, or, with `mark` None, an object."""

    holder: Place
    mark: int | None
    page: Place


class Element(NamedTuple):
    node: Object
    parent: Place
    leaves: list[Leaf]


def tree_of(pdf: Pdf) -> Object | None:
    root = pdf.Root.get("/StructTreeRoot")
    return root if isinstance(root, Dictionary) else None


def elements(root: Object) -> Iterator[Element]:
    """Every element from the root on, each time that it is met; what is below one is walked once."""
    met: set[Place] = set()
    stack = [(kid, root.objgen) for kid in reversed(kids(root)) if is_element(kid)]
    while stack:
        node, parent = stack.pop()
        own = kids(node)
        page = _place(node.get("/Pg"))
        yield Element(node, parent, [leaf for kid in own if (leaf := _leaf(kid, page)) is not None])
        if node.is_indirect:
            if node.objgen in met:
                continue
            met.add(node.objgen)
        stack.extend((kid, node.objgen) for kid in reversed(own) if is_element(kid))


def kids(node: Object) -> list[Any]:
    found = node.get("/K")
    if isinstance(found, Array):
        return list(found)
    return [] if found is None else [found]


def is_element(kid: object) -> bool:
    return isinstance(kid, Dictionary) and "/S" in kid and kid.get("/Type") not in (Name.MCR, Name.OBJR)


def _leaf(kid: object, page: Place) -> Leaf | None:
    if isinstance(kid, int):
        return Leaf(page, kid, page)
    if not isinstance(kid, Dictionary):
        return None
    own = _place(kid.get("/Pg")) if "/Pg" in kid else page
    if kid.get("/Type") == Name.MCR:
        mark = kid.get("/MCID")
        stream = kid.get("/Stm")
        return Leaf(own if stream is None else _place(stream), mark if isinstance(mark, int) else -1, own)
    if kid.get("/Type") == Name.OBJR:
        return Leaf(_place(kid.get("/Obj")), None, own)
    return None


def _place(found: Any) -> Place:  # noqa: ANN401 - whatever is in the file
    return found.objgen if isinstance(found, Object) else NOWHERE


def numbers(tree: object) -> dict[int, Any]:
    """A tree of numbers, flat; of one that is there twice the first."""
    found: dict[int, Any] = {}
    for key, value in _pairs(tree, "/Nums"):
        if isinstance(key, int):
            found.setdefault(key, value)
    return found


def names(tree: object) -> Iterator[tuple[bytes, Any]]:
    """A tree of names, flat."""
    for key, value in _pairs(tree, "/Names"):
        yield bytes(key), value


def _pairs(tree: object, entries: str) -> Iterator[tuple[Any, Any]]:
    stack: list[tuple[Any, int]] = [(tree, 0)]
    met: set[Place] = set()
    while stack:
        node, depth = stack.pop()
        if not isinstance(node, Dictionary) or depth > _MAX_DEPTH or node.objgen in met:
            continue
        if node.is_indirect:
            met.add(node.objgen)
        listed = list(node.get(entries, Array()))
        yield from zip(listed[::2], listed[1::2], strict=False)
        below = node.get("/Kids")
        if isinstance(below, Array):
            stack.extend((kid, depth + 1) for kid in reversed(list(below)))
