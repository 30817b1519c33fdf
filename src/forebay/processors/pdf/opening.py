"""Opens a PDF of unknown worth, and finds its pages without trusting what it says of itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pikepdf
from pikepdf import Array, Dictionary, Name, Object, Pdf

from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

MAX_UNITS: Final = 14_400
MAX_PIXELS: Final = 100_000_000
MAX_STREAM: Final = 128 * 1024 * 1024
_MAPPED_AT_MOST: Final = 256 * 1024 * 1024
_MAX_DEPTH: Final = 256
_FILE: Final = re.compile(r"^stream <[^>]*>( \([^)]*\))?: ")
_INHERITED: Final = ("/Resources", "/MediaBox", "/CropBox", "/Rotate")
_A4: Final = (0, 0, 595, 842)

pikepdf.settings.set_qpdf_limits(flate_max_memory=MAX_STREAM, run_length_max_memory=MAX_STREAM)


@dataclass(slots=True)
class Opened:
    """A document and its pages, each complete in itself: nothing is inherited any more."""

    pdf: Pdf
    pages: list[Object]
    notes: list[str]
    warnings: list[str] = field(default_factory=list)

    @property
    def repaired(self) -> bool:
        """Whether anything was mended to read what was read so far."""
        self.warnings += map(str, self.pdf.get_warnings())  # which forgets them
        return bool(self.notes) or any("reconstruct" in text or "damaged" in text for text in self.warnings)


def opened(fd: int, *, max_pages: int, first: int = 1) -> Opened:
    """The document in a file, its pages counted one by one from `first`; Refused for what cannot be worked on."""
    pdf = _open(fd)
    try:
        pages, notes = _pages(pdf, max_pages)
    except (pikepdf.PdfError, RuntimeError, ValueError, TypeError) as error:
        raise Refused(ErrorClass.CORRUPTED_CONTENT, f"The tree of pages is damaged: {said(error)}.") from None
    warnings = [str(warning) for warning in pdf.get_warnings()]
    if any("limit exceeded" in text for text in warnings):
        # What was too large is gone, and pages may be with it.
        raise Refused(ErrorClass.DECOMPRESSION_LIMIT, f"The document unpacks to more than {MAX_STREAM // 1024**2} MiB.")
    if not pages:
        raise Refused(ErrorClass.INVALID_PDF, "The document has no pages.")
    too_large = [number for number, page in enumerate(pages, first) if max(size(page)) > MAX_UNITS]
    if too_large:
        width, height = size(pages[too_large[0] - first])
        raise Refused(
            ErrorClass.PAGE_TOO_LARGE,
            f"{named(too_large)} larger than a PDF page may be: page {too_large[0]} has {width:.0f} by {height:.0f} "
            f"units, {MAX_UNITS} are allowed.",
        )
    if notes:
        _plant(pdf, pages)
    return Opened(pdf, pages, list(dict.fromkeys(notes)), warnings)


def size(page: Object) -> tuple[float, float]:
    """Width and height of what is shown of a page, in units, before it is turned."""
    left, bottom, right, top = bounds(page)
    return right - left, top - bottom


def bounds(page: Object) -> tuple[float, float, float, float]:
    """What is shown of a page: its left, bottom, right and top edge."""
    left, bottom, right, top = _box(page, "/MediaBox") or _A4
    crop = _box(page, "/CropBox")
    if crop:
        inner = max(left, crop[0]), max(bottom, crop[1]), min(right, crop[2]), min(top, crop[3])
        if inner[0] < inner[2] and inner[1] < inner[3]:
            return inner
    return left, bottom, right, top


def turn(page: Object) -> int:
    """By how many degrees a reader turns the page clockwise."""
    try:
        return int(page.get("/Rotate", 0)) // 90 * 90 % 360
    except (TypeError, ValueError):
        return 0


def named(numbers: list[int]) -> str:
    """The pages as a sentence begins with them: "Page 7 is", "Pages 7, 9 are"."""
    if len(numbers) == 1:
        return f"Page {numbers[0]} is"
    shown = ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")  # noqa: PLR2004 - as many as fit a line
    return f"Pages {shown} are"


def _open(fd: int) -> Pdf:
    big = os.fstat(fd).st_size > _MAPPED_AT_MOST
    mode = pikepdf.AccessMode.stream if big else pikepdf.AccessMode.default
    file = os.fdopen(fd, "rb", closefd=False)
    try:
        pdf = Pdf.open(file, access_mode=mode, inherit_page_attributes=False)
        _ = pdf.Root
    except pikepdf.PasswordError:
        raise Refused(ErrorClass.ENCRYPTED, "The document opens with a password only.") from None
    except MemoryError:
        raise Refused(ErrorClass.DECOMPRESSION_LIMIT, "The document unpacks to more than a parser may hold.") from None
    except (pikepdf.PdfError, RuntimeError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise _unreadable(error) from None
    return pdf


def _unreadable(error: Exception) -> Refused:
    if "limit" in str(error):
        return Refused(ErrorClass.DECOMPRESSION_LIMIT, f"The document unpacks to more than allowed: {said(error)}.")
    return Refused(ErrorClass.CORRUPTED_CONTENT, f"The document is damaged beyond repair: {said(error)}.")


def said(error: Exception) -> str:
    """The first line of what qpdf says, without its name for the file."""
    return _FILE.sub("", str(error).strip().split("\n")[0])[:200].rstrip(".")


def _pages(pdf: Pdf, max_pages: int) -> tuple[list[Object], list[str]]:
    notes: list[str] = []
    pages: list[Object] = []
    for page in _leaves(pdf.Root.get("/Pages"), notes, most=4 * max_pages + 1000):
        pages.append(page)
        if len(pages) > max_pages:
            raise Refused(
                ErrorClass.TOO_MANY_PAGES,
                f"The document has more than {max_pages} pages.",
            )
    if not pages:
        pages = [item for item in pdf.objects if isinstance(item, Dictionary) and item.get("/Type") == Name.Page]
        if pages:
            notes.append("the tree of pages is lost: pages are in the order of the file")
        if len(pages) > max_pages:
            raise Refused(ErrorClass.TOO_MANY_PAGES, f"The document has more than {max_pages} pages.")
    return pages, notes


def _leaves(root: Object | None, notes: list[str], *, most: int) -> Iterator[Object]:
    """The pages in order, by a walk that ends on any tree: loops are cut, and nodes are counted, not only pages."""
    stack: list[tuple[Object | None, dict[str, Object], tuple[tuple[int, int], ...]]] = [(root, {}, ())]
    visited = 0
    while stack:
        node, inherited, above = stack.pop()
        visited += 1
        if visited > most:
            raise Refused(ErrorClass.TOO_MANY_PAGES, f"The tree of pages has more than {most} nodes.")
        if not isinstance(node, Dictionary):
            notes.append("pages are missing from the tree of pages")
            continue
        kids = node.get("/Kids")
        if not isinstance(kids, Array):
            if node.get("/Type") != Name.Pages:
                _complete(node, inherited)
                yield node
            continue
        if node.objgen in above or len(above) > _MAX_DEPTH:
            notes.append("the tree of pages has a loop, which was cut")
            continue
        if visited + len(stack) + len(kids) > most:
            raise Refused(ErrorClass.TOO_MANY_PAGES, f"The tree of pages has more than {most} nodes.")
        own = {**inherited, **{key: node[key] for key in _INHERITED if key in node}}
        path = (*above, node.objgen)
        stack.extend((kid, own, path) for kid in reversed(list(kids)))


def _plant(pdf: Pdf, pages: list[Object]) -> None:
    """A tree of its own for the pages that were found: qpdf looks at it, too."""
    tree = pdf.make_indirect(Dictionary(Type=Name.Pages, Kids=Array(pages), Count=len(pages)))
    for page in pages:
        page["/Parent"] = tree
    pdf.Root["/Pages"] = tree


def _complete(page: Object, inherited: dict[str, Object]) -> None:
    for key, value in inherited.items():
        if key not in page:
            page[key] = value
    if page.get("/Type") != Name.Page:
        page["/Type"] = Name.Page
    if _box(page, "/MediaBox") is None:
        page["/MediaBox"] = Array(_A4)


def _box(page: Object, key: str) -> tuple[float, float, float, float] | None:
    value = page.get(key)
    try:
        one, two, three, four = (float(edge) for edge in value)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        return None
    if one == three or two == four:
        return None
    return min(one, three), min(two, four), max(one, three), max(two, four)
