"""Makes Markdown of HTML, without scripts, pictures and what is not shown."""

from __future__ import annotations

import re
from typing import Final

from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

from forebay.processors.office.plain import decoded
from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

_NAMED: Final = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_LOOKED_AT: Final = 4096
_DEEPEST: Final = 500


_NOT_TEXT: Final = (
    "script",
    "style",
    "noscript",
    "template",
    "iframe",
    "frame",
    "embed",
    "object",
    "audio",
    "video",
)


def markdown(raw: bytes) -> list[str]:
    return [converted(_text(raw))]


def converted(html: str) -> str:
    _check_depth(html)
    options = ConversionOptions(
        heading_style="atx",
        bullets="-",
        extract_metadata=False,
        skip_images=True,
        strip_tags=[*_NOT_TEXT],
        br_in_tables=True,
        escape_misc=True,
        escape_asterisks=True,
        # Whole pages stand in a form, or in what looks like a navigation.
        preprocessing=PreprocessingOptions(enabled=False, remove_navigation=False, remove_forms=False),
    )
    return convert(html, options).content or ""


_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)[^<>]*?(/?)>")
_EMPTY: Final = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "li", "link", "meta", "p", "source", "td", "th", "tr")
)


def _check_depth(html: str) -> None:
    """Refused for what nests so deeply that whoever follows it runs out of stack."""
    depth = 0
    for closing, name, closed in _TAG.findall(html):
        if closed or name.lower() in _EMPTY:
            continue
        depth = max(0, depth - 1) if closing else depth + 1
        if depth > _DEEPEST:
            raise Refused(ErrorClass.DECOMPRESSION_LIMIT, f"The document nests more than {_DEEPEST} levels deep.")


def _text(raw: bytes) -> str:
    """By the encoding that the page names, unless its bytes say more clearly what they are."""
    named = _NAMED.search(raw[:_LOOKED_AT])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    if named is not None:
        try:
            return raw.decode(named[1].decode())
        except (LookupError, UnicodeDecodeError):
            pass
    return decoded(raw)
