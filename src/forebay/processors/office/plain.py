"""Makes Markdown of text: as it stands, where it is Markdown; without what would be taken for markup, where not."""

from __future__ import annotations

import re
from typing import Final

from forebay.processors.office.texts import encoding_of
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

_BETWEEN_PAGES: Final = "\f"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_NEWLINE: Final = re.compile(r"\r\n?|[\u2028\u2029\x85]")
_TAKEN_FOR_HTML: Final = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w{1,32};)")
_AT_FIRST: Final = re.compile(r"^(?=#{1,6}(?:\s|$)|[-+*>](?:\s|$)|[-=]{3,}$)")


def decoded(raw: bytes) -> str:
    encoding = encoding_of(raw)
    if encoding is None:
        raise Refused(ErrorClass.UNSUPPORTED_FORMAT, "The document is not plain text.")
    try:
        return _CONTROL.sub("", _NEWLINE.sub("\n", raw.decode(encoding)))
    except UnicodeDecodeError as error:
        raise Refused(ErrorClass.CORRUPTED_CONTENT, f"The document's text cannot be read: {error.reason}.") from None


def markdown(raw: bytes) -> list[str]:
    return _pages(decoded(raw))


def text(raw: bytes) -> list[str]:
    return [literal(page) for page in _pages(decoded(raw))]


def literal(said: str) -> str:
    """Text in which nothing is taken for a tag or an entity."""
    return _TAKEN_FOR_HTML.sub(r"\\\g<0>", said)


def line(said: str) -> str:
    """The same on one line, and not taken for a heading, a list or a quotation either."""
    return _AT_FIRST.sub(r"\\\g<0>", literal(" ".join(said.split())))


def _pages(said: str) -> list[str]:
    return said.split(_BETWEEN_PAGES)
