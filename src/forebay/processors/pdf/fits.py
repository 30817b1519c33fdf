"""Decides whether pages are of a size that a provider takes, before they are sent."""

from __future__ import annotations

from typing import Any, Final

from pikepdf import Object

from forebay.model.payload import Json
from forebay.processors.pdf.opening import named, opened, size
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

_A_UNIT: Final = 1.0
_INCH: Final = 72.0
_MANY: Final = 1_000_000


def run(arguments: dict[str, Any], files: list[int]) -> Json:
    """Refused, with the number of the first page, unless all of a chunk's pages are."""
    source = opened(files[0], max_pages=_MANY)
    check_sizes(source.pages, arguments["page_units"], arguments["first"])
    return True


def check_sizes(pages: list[Object], units: list[float], first: int) -> None:
    """Refused for pages that measure less or more than so many units, either way."""
    least, most = units
    unfit = [
        number
        for number, page in enumerate(pages, first)
        if min(size(page)) < least - _A_UNIT or max(size(page)) > most + _A_UNIT
    ]
    if unfit:
        width, height = (each / _INCH for each in size(pages[unfit[0] - first]))
        raise Refused(
            ErrorClass.PAGE_TOO_LARGE,
            f"{named(unfit)} not of a size that is taken: page {unfit[0]} has {width:.1f} by {height:.1f} inches, "
            f"{least / _INCH:g} to {most / _INCH:g} are allowed.",
        )
