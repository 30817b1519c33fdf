"""Cuts a document into chunks: PDFs of some pages each, with only what these pages need."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator
from typing import Any, Final

import pikepdf
from pikepdf import Array, Dictionary, Name, Object, Page, Pdf

from forebay.model.payload import Json
from forebay.processors.pdf import image
from forebay.processors.pdf.files import write
from forebay.processors.pdf.fits import check_sizes
from forebay.processors.pdf.lost import lost
from forebay.processors.pdf.opening import Opened, opened, said
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

PDF: Final = "application/pdf"
_FAIR: Final = 1.5  # times what would be a page's share: more, and pruning is worth its time
_SLACK: Final = 256 * 1024
_LEFT_OUT: Final = ("/Parent", "/B", "/Thumb", "/PieceInfo", "/AA")


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """Write the chunks one after the other, of all pages or of those from one to another."""
    document, output = files
    max_pages, max_bytes, first = arguments["max_pages"], arguments["max_bytes"], arguments["first"]
    source = loaded(document, arguments["media_type"], max_pages=arguments["max_document_pages"])
    if arguments.get("page_units"):
        check_sizes(source.pages, arguments["page_units"], first)
    share = os.fstat(document).st_size / len(source.pages)
    begin_at, end_at = arguments.get("pages") or (1, len(source.pages))
    listed: list[Json] = []
    notes = [*source.notes, *_remarks(source.pdf)]
    offset = 0
    try:
        for start in range(begin_at - 1, min(end_at, len(source.pages)), max_pages):
            end = min(start + max_pages, end_at, len(source.pages))
            for begin, stop, data in _fitting(source, start, end, max_bytes, share):
                if len(data) > max_bytes:
                    notes.append(f"page {first + begin} alone has {len(data)} bytes, more than {max_bytes}")
                write(output, data, offset)
                listed.append(
                    {"page_start": first + begin, "page_end": first + stop - 1, "offset": offset, "size": len(data)}
                )
                offset += len(data)
    except MemoryError:
        raise Refused(ErrorClass.DECOMPRESSION_LIMIT, "The document needs more memory than a parser may use.") from None
    except (pikepdf.PdfError, RuntimeError) as error:
        raise Refused(ErrorClass.CORRUPTED_CONTENT, f"The document cannot be split: {said(error)}.") from None
    repaired = source.repaired
    lacking = lost(source.pages, first) if repaired and arguments["media_type"] == PDF else {}
    return {
        "pages": len(source.pages),
        "repaired": repaired,
        "notes": [*notes],
        "chunks": listed,
        "lacking": {what: [*numbers] for what, numbers in lacking.items()},
    }


def loaded(document: int, media_type: str, *, max_pages: int) -> Opened:
    """A document of any accepted type as a PDF."""
    if media_type == PDF:
        return opened(document, max_pages=max_pages)
    return Opened(*image.as_pdf(document, media_type, max_pages=max_pages))


class _TooLarge(Exception):
    pass


class _Bounded(io.BytesIO):
    """Takes no more than `most`: a document whose pages share all they have must not be held once for each chunk."""

    def __init__(self, most: float) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:  # noqa: ANN401 - whatever bytes qpdf writes
        if self.tell() + len(data) > self._most:
            raise _TooLarge
        return super().write(data)


def made(source: Opened, numbers: range, *, pruned: bool = False, most: float = math.inf) -> bytes:
    """A PDF of these pages, counted from 0; the same bytes whenever it is made."""
    with Pdf.new() as target:
        for number in numbers:
            page = source.pages[number]
            for key in _LEFT_OUT:
                if key in page:
                    del page[key]
            _part_from_form(page)
            target.pages.append(Page(target.copy_foreign(page)))
        layers = source.pdf.Root.get("/OCProperties")
        if isinstance(layers, Dictionary):
            indirect = layers if layers.is_indirect else source.pdf.make_indirect(layers)
            target.Root["/OCProperties"] = target.copy_foreign(indirect)
        if pruned:
            target.remove_unreferenced_resources()
        data = _Bounded(most)
        target.save(data, static_id=True, compress_streams=False, stream_decode_level=pikepdf.StreamDecodeLevel.none)
        return data.getvalue()


def _fitting(source: Opened, start: int, end: int, max_bytes: int, share: float) -> Iterator[tuple[int, int, bytes]]:
    """The pages from start to before end, halved until each part fits; a single page is given as it is."""
    pages = range(start, end)
    try:
        data = made(source, pages, most=_FAIR * share * len(pages) + _SLACK)
    except _TooLarge:
        data = made(source, pages, pruned=True)
    if len(data) <= max_bytes or len(pages) == 1:
        yield start, end, data
        return
    del data
    middle = (start + end) // 2
    yield from _fitting(source, start, middle, max_bytes, share)
    yield from _fitting(source, middle, end, max_bytes, share)


def _part_from_form(page: Object) -> None:
    """A form's field leads to the fields of all other pages; what is drawn needs none of them."""
    notes = page.get("/Annots")
    if isinstance(notes, Array):
        for note in notes:
            if isinstance(note, Dictionary) and note.get("/Subtype") == Name.Widget and "/Parent" in note:
                del note["/Parent"]


def _remarks(pdf: Pdf) -> list[str]:
    """What a document has beside its pages, and is left out."""
    root = pdf.Root
    names, form = root.get("/Names"), root.get("/AcroForm")
    there = {
        "scripts": isinstance(names, Dictionary) and "/JavaScript" in names,
        "embedded files": isinstance(names, Dictionary) and "/EmbeddedFiles" in names,
        "an action on opening": isinstance(root.get("/OpenAction"), Dictionary),
        "an XFA form": isinstance(form, Dictionary) and "/XFA" in form,
    }
    return [f"left out: {what}" for what, so in there.items() if so]
