"""Tells text from other bytes, and which marks make Markdown or HTML of it."""

from __future__ import annotations

import codecs
import re
from typing import Final

_NOT_IN_TEXT: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_LETTERS: Final = 0.5  # of the characters, below which bytes in an old encoding are taken for something else
_BEFORE_HTML: Final = re.compile(r"\s+|<!--.*?-->|<\?xml[^>]{0,200}\?>", re.DOTALL)
_HTML: Final = re.compile(
    r"<(?:!doctype\s+html|(?:html|head|body|title|meta|article|section|main|div|table|ul|ol|h[1-6]|p)\b[^<>]*>)",
    re.IGNORECASE,
)
_MARKDOWN: Final = re.compile(
    r"^[ ]{0,3}#{1,6}[ \t]+\S"
    r"|^[ ]{0,3}(?:```|~~~)"
    r"|^[ ]{0,3}\S.*\n[ ]{0,3}=+[ \t]*$"
    r"|^[ ]{0,3}\|?[ ]*:?-{3,}:?[ ]*\|[-:| ]*$"
    r"|\[[^\]\n]{1,200}\]\([^)\s]{1,500}\)"
    r"|(?<!\w)\*\*[^\s*][^*\n]{0,200}\*\*(?!\w)",
    re.MULTILINE,
)


def encoding_of(head: bytes) -> str | None:
    """Of text that begins so; None for what is none."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
        text = head[: len(head) // 2 * 2].decode(encoding, "replace")
    elif (text_8 := _utf8(head)) is not None:
        encoding, text = "utf-8-sig", text_8
    else:
        encoding, text = "cp1252", head.decode("cp1252", "replace")
        if "\N{REPLACEMENT CHARACTER}" in text or _letters(text) < _LETTERS:
            return None
    return None if _NOT_IN_TEXT.search(text) else encoding


def _utf8(head: bytes) -> str | None:
    """A character that the end of the look cuts through is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None


def _letters(text: str) -> float:
    return sum(each.isalpha() or each == " " for each in text) / max(1, len(text))


def is_html(text: str) -> bool:
    at = 0
    text = text.removeprefix("\ufeff")
    while found := _BEFORE_HTML.match(text, at):
        at = found.end()
    return _HTML.match(text, at) is not None


def is_markdown(text: str) -> bool:
    return _MARKDOWN.search(text) is not None
