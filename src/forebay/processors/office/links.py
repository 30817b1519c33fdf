"""Takes out of Markdown the links that lead elsewhere than to http, https and mailto, and the raw HTML."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, autolink, image, link
from markdown_it.token import Token

_ALLOWED: Final = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_SUSPECT: Final = re.compile(r"<[A-Za-z/!?]|\]\(|\]:")
_TAG: Final = re.compile(r"<[A-Za-z/!?]")
_HTML_LINE: Final = re.compile(r"^[ \t>]*(<(?:[/!?]|[A-Za-z][A-Za-z0-9-]*(?=[\s/>]|$)))", re.MULTILINE)
"""A line that begins like this may be raw HTML, whatever was open before it: code, a title, an address."""
_BREAK: Final = re.compile(r"<br[ \t]*/?>", re.IGNORECASE)
_COMMENT: Final = ("<!--", "-->")
_LONGEST_COMMENT: Final = 10_000
_ENTITIES: Final = {"<": "&lt;", "[": "&#91;"}
_STRUCTURE: Final = re.compile(r"[<\[]")
_ROUNDS: Final = 6
_DEEPEST: Final = 50
_MOST_LINES: Final = 250_000
"""Lines that are parsed, each two to four times: some seconds. In what is longer, every link becomes text."""
_MOST_WORK: Final = 20_000_000
"""Characters that may be looked at for the ends of links: about a second. Only hostile text needs more."""


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


class _Exhausted(Exception):
    """Too many brackets without an end: following each of them would take the square of their number."""


def without_unsafe_links(markdown: str, starts: Sequence[int] = ()) -> tuple[str, list[int]]:
    """Return the Markdown with links to http, https and mailto only, and where each of its `starts` is now.

    Of other links the text stays. Outside code, raw HTML becomes text. Code stays as it is, but where a line of a code
    span begins as raw HTML does: for a reader the span ends there. Markdown has to be given as a whole: what is code in
    one page may be a link behind another.
    """
    text, places = markdown, list(starts)
    if _SUSPECT.search(text) is None:
        return text, places
    # An edit can make a link of what was none, so a text is done when there is nothing more to edit. Programs that
    # know no tables read some lines in another way: both ways have to be safe.
    lines = 0
    for _ in range(_ROUNDS):
        before = text
        for tables in (False, True) if "|" in text else (False,):
            lines += 1 + text.count("\n")
            if lines > _MOST_LINES:
                return _edited(text, places, [_blunt(found) for found in _STRUCTURE.finditer(text)])
            text, places = _edited(text, places, _Reader(text, tables=tables).edits())
        if text == before:
            return text, places
    return _edited(text, places, [_blunt(found) for found in _STRUCTURE.finditer(text)])


def is_safe(target: str) -> bool:
    return _ALLOWED.match(target) is not None


def _edited(text: str, places: list[int], edits: list[_Edit]) -> tuple[str, list[int]]:
    parts: list[str] = []
    at, grown = 0, 0
    ends, shifts = [0], [0]
    for edit in sorted(set(edits)):
        if edit.start >= at:
            parts += [text[at : edit.start], edit.text]
            at = edit.end
            grown += len(edit.text) - (edit.end - edit.start)
            ends.append(edit.end)
            shifts.append(grown)
    # What is put in at the very beginning of a page belongs to that page.
    moved = [place + shifts[bisect_left(ends, place, 1) - 1] for place in places]
    return "".join([*parts, text[at:]]), moved


def _blunt(found: re.Match[str], offset: int = 0) -> _Edit:
    """A reference to a character is text wherever it stands."""
    return _Edit(offset + found.start(), offset + found.end(), _ENTITIES[found[0]])


def _escaped(at: int) -> _Edit:
    return _Edit(at, at, "\\")


def _html_lines(text: str) -> Iterator[int]:
    """Where lines after the first one begin with what may be raw HTML."""
    second = text.find("\n") + 1
    return (found.start(1) for found in _HTML_LINE.finditer(text, second)) if second else iter(())


def _parser(*, tables: bool) -> MarkdownIt:
    """CommonMark without raw HTML, which is looked for by `_not_html`; only its blocks are parsed at once."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    parser.validateLink = lambda url: url is not None  # type: ignore[method-assign]  # all are looked at
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]  # as they are written
    parser.core.ruler.enableOnly(["block"])
    parser.disable(["html_block", "emphasis"])
    if tables:
        parser.enable("table")
    parser.inline.ruler.at("link", _link)
    parser.inline.ruler.at("image", _image)
    parser.inline.ruler.at("autolink", _autolink)
    parser.inline.ruler.at("html_inline", _not_html)
    parser.enable("html_inline")
    return parser


class _Reader:
    """Finds what has to be edited in one text."""

    def __init__(self, text: str, *, tables: bool) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._parser = _parser(tables=tables)
        self._env: dict[str, Any] = {"work": 0}

    def edits(self) -> list[_Edit]:
        found: list[_Edit] = []
        seen = bytearray(len(self._lines) + 1)
        blocks = self._parser.parse(self._text, self._env)
        for defined in (*self._env.get("references", {}).values(), *self._env.get("duplicate_refs", ())):
            first, end = defined["map"]
            seen[first:end] = b"\1" * (end - first)
            if not is_safe(defined["href"]):
                at = self._starts[first] + max(0, self._lines[first].find("["))
                found.append(_Edit(at, at, "\\"))
            if end - first > 1:
                text = "\n".join(self._lines[first:end])
                found += [_escaped(self._starts[first] + at) for at in _html_lines(text)]
        in_row = (-1, 0)
        for before, block in zip([None, *blocks], blocks, strict=False):
            if block.map is None or block.type not in {"inline", "fence", "code_block"}:
                continue
            first, end = block.map
            seen[first:end] = b"\1" * (end - first)
            if block.type == "inline" and before is not None and before.type in {"td_open", "th_open"}:
                in_row = (first, in_row[1] if in_row[0] == first else 0)
                edits, reached = self._in_cell(block.content, *in_row)
                in_row = (first, reached)
                found += edits
            elif block.type == "inline":
                found += self._in_lines(block)
        # Where the parser has gone too deep to follow.
        for number in range(len(self._lines)):
            if not seen[number]:
                found += self._blunted(number)
        return found

    def _in_cell(self, content: str, line: int, least: int) -> tuple[list[_Edit], int]:
        """In a table every bar of a cell's text is escaped."""
        at = self._lines[line].find(content.replace("|", "\\|"), least)
        if at < 0:
            return list(self._blunted(line)), least
        widths = (2 if char == "|" else 1 for char in content)
        places = [*accumulate(widths, initial=self._starts[line] + at)]
        return self._within(content, places, range(line, line + 1)), places[-1] - self._starts[line]

    def _in_lines(self, block: Token) -> list[_Edit]:
        """A block's lines without what stands before them: the marks of lists, quotations and headings."""
        lines = range(*block.map) if block.map else range(0)
        if _SUSPECT.search(block.content) is None:
            return []
        places: list[int] = []
        left = iter(lines)
        for line in block.content.split("\n"):
            text = line.strip()
            number = next((each for each in left if text in self._lines[each]), None)
            if number is None:
                return [edit for each in lines for edit in self._blunted(each)]
            whole = self._lines[number].rstrip()
            at = len(whole) - len(text) if whole.endswith(text) else whole.rfind(text)
            first = self._starts[number] + at - (len(line) - len(line.lstrip()))
            places += range(first, first + len(line) + 1)
        return self._within(block.content, places, lines)

    def _within(self, content: str, places: list[int], lines: range) -> list[_Edit]:
        """`places` has where each character of the content stands in the text."""
        if _SUSPECT.search(content) is None:
            return []
        edits: list[_Edit] = []
        state = StateInline(content, self._parser, self._env, [])
        self._env |= {"root": state, "edits": edits}
        try:
            self._parser.inline.tokenize(state)
        except _Exhausted:
            return [edit for each in lines for edit in self._blunted(each)]
        edited = {edit.start for edit in edits}
        edits += [_escaped(at) for at in _html_lines(content) if at not in edited]
        return [
            _Edit(places[start], places[end - 1] + 1 if end > start else places[start], text)
            for start, end, text in edits
        ]

    def _blunted(self, line: int) -> Iterator[_Edit]:
        return (_blunt(found, self._starts[line]) for found in _STRUCTURE.finditer(self._lines[line]))


def _link(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - as the parser calls it
    return _followed(state, link, silent=silent)


def _image(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - same
    return _followed(state, image, silent=silent)


def _followed(state: StateInline, rule: Any, *, silent: bool) -> bool:  # noqa: ANN401 - of the parser
    start, count = state.pos, len(state.tokens)
    matched: bool = rule(state, silent)
    if state.src[start] not in "![":
        return matched
    state.env["work"] += (state.pos if matched else state.posMax) - start
    if state.env["work"] > _MOST_WORK:
        raise _Exhausted
    if silent or not matched or state is not state.env["root"]:
        return matched
    opened = next(token for token in state.tokens[count:] if token.type in {"link_open", "image"})
    if is_safe(str(opened.attrs.get("href", opened.attrs.get("src", "")))):
        return True
    end = state.pos
    opening = start + (2 if rule is image else 1)
    closing = state.md.helpers.parseLinkLabel(state, opening - 1, rule is link)
    state.pos = end
    if end > closing + 1 and state.src[end - 1] == ")":
        # Otherwise it is a reference, and goes with what defines it.
        state.env["edits"] += [_Edit(start, opening, ""), _Edit(closing, end, "")]
    return True


def _autolink(state: StateInline, silent: bool) -> bool:  # noqa: ARG001, FBT001 - same
    start = state.pos
    if not autolink(state, silent=True):
        return False
    target = state.src[start + 1 : state.pos - 1]
    if is_safe(target) or ":" not in target:  # an address without a scheme is one of mail
        return True
    state.pos = start
    return False


def _not_html(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - same
    """Take what begins a tag as text, and have it escaped; a comment is not text, and a break is a space."""
    src, at = state.src, state.pos
    if _TAG.match(src, at) is None:
        return False
    end, text = at, "\\"
    if (found := _BREAK.match(src, at)) is not None:
        end, text = found.end(), " "
    elif src.startswith(_COMMENT[0], at):
        closed = src.find(_COMMENT[1], at + len(_COMMENT[0]), at + _LONGEST_COMMENT)
        end, text = (at, "\\") if closed < 0 else (closed + len(_COMMENT[1]), "")
    if end > state.posMax:
        end, text = at, "\\"
    if not silent and state is state.env["root"]:
        state.env["edits"].append(_Edit(at, end, text))
        if end > at:
            state.pos = end
            return True
    return False
