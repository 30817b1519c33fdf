"""What a document is, before any work is spent on it."""

from __future__ import annotations

import io
from typing import Any, Final

from pikepdf import Pdf

from forebay.model.payload import Json
from forebay.processors.pdf.opening import Opened
from forebay.processors.pdf.pdfium import document, leaf
from forebay.processors.pdf.read import page_line
from forebay.processors.pdf.refused import Refused
from forebay.processors.pdf.split import PDF, loaded, made
from forebay.processors.pdf.streams import damaged

_SAMPLE: Final = 200
_PART: Final = 20


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """How many pages, and how many of those looked at have no text layer of use."""
    media_type = arguments["media_type"]
    source = loaded(files[0], media_type, max_pages=arguments["max_pages"])
    count = len(source.pages)
    step = max(1, -(-count // _SAMPLE))
    sample = range(0, count, step)
    notes = list(source.notes)
    scans = len(sample) if media_type != PDF else _scans(source, sample, notes)
    return {
        "pages": count,
        "repaired": source.repaired,
        "notes": [*notes],
        "scan_pages": scans,
        "sampled": len(sample),
    }


def _scans(source: Opened, sample: range, notes: list[str]) -> int:
    scans = 0
    for start in range(0, len(sample), _PART):
        part = sample[start : start + _PART]
        try:
            scans += _in_part(made(source, part))
        except Refused:
            for number in part:
                try:
                    scans += _in_part(made(source, range(number, number + 1)))
                except Refused as refused:
                    notes.append(f"page {number + 1}: {refused.text}")
    return scans


def _in_part(data: bytes) -> int:
    with Pdf.open(io.BytesIO(data)) as pdf:
        damaged(pdf, [page.obj for page in pdf.pages])
    found = 0
    with document(data) as (handle, count):
        for index in range(count):
            with leaf(handle, index) as page:
                found += page_line(page, "auto", None) is None
    return found
