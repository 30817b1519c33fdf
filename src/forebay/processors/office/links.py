"""Takes the target from links of Markdown that lead elsewhere than to the web or to mail."""

from __future__ import annotations

import re
from html import unescape
from typing import Final

_ALLOWED: Final = frozenset({"http", "https", "mailto"})
_IGNORED: Final = re.compile(r"[\x00-\x20\x7f\u00ad\u200b-\u200f\u2028-\u202e\u2060\ufeff\\<]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOOKED_AT: Final = 500
_INLINE: Final = re.compile(rf"(?<!\\)\]\(\s*(?=(<[^<>\n]{{0,{_LOOKED_AT}}}|[^\s]{{0,{_LOOKED_AT}}}))")
_DEFINED: Final = re.compile(r"^([ >]{0,12}\[[^\[\]\n]{1,999}\]:[ \t]*\n?[ \t]*)(\S+)", re.MULTILINE)
_BETWEEN: Final = re.compile(r"(?<!\\)<(?=[A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\s]*>)")
_LONGEST_TEXT: Final = 2000


def without_unsafe_links(markdown: str) -> str:
    """The Markdown with links to http, https and mailto, and those without a scheme; of all others their text."""
    found = _BETWEEN.sub(lambda match: "<" if is_safe(markdown[match.end() : match.end() + 40]) else r"\<", markdown)
    found = _DEFINED.sub(lambda match: match[0] if is_safe(match[2]) else f"{match[1]}#", found)
    parts: list[str] = []
    at = 0
    for match in _INLINE.finditer(found):
        if match.start() < at or is_safe(match[1]):
            continue
        end = _end_of_target(found, match.start() + 2)
        start = _start_of_text(found, at, match.start())
        parts += [found[at:start].removesuffix("!"), found[start + 1 : match.start()]]
        at = end
    return "".join([*parts, found[at:]])


def is_safe(target: str) -> bool:
    """By the scheme that a browser would see, whatever is written between its letters."""
    scheme = _SCHEME.match(_IGNORED.sub("", unescape(target)))
    if scheme is None:
        # What goes on may have been padded, so that its scheme comes later.
        return len(target) < _LOOKED_AT
    return scheme[1].lower() in _ALLOWED


def _end_of_target(text: str, at: int) -> int:
    """Behind the bracket that closes a target which begins at `at`; the end of the line if there is none."""
    depth = 1
    while at < len(text) and text[at] != "\n":
        if text[at] == "\\":
            at += 1
        elif text[at] in "()":
            depth += 1 if text[at] == "(" else -1
            if not depth:
                return at + 1
        at += 1
    return min(at, len(text))


def _start_of_text(text: str, least: int, at: int) -> int:
    """The bracket that opens the text of a link whose closing one is at `at`."""
    depth = 0
    for place in range(at, max(least, at - _LONGEST_TEXT) - 1, -1):
        if place and text[place - 1] == "\\":
            continue
        if text[place] == "]":
            depth += 1
        elif text[place] == "[":
            depth -= 1
            if not depth:
                return place
    return at
