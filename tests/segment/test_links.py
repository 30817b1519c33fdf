"""Links of Markdown lead to the web or to mail, or nowhere; raw HTML is text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from forebay.processors.office.links import without_unsafe_links

_ALLOWED = re.compile(r"(?:https?|mailto):", re.IGNORECASE)


def cleaned(markdown: str) -> str:
    return without_unsafe_links(markdown)[0]


def renderer(*, tables: bool) -> MarkdownIt:
    """One that lets everything through."""
    made = MarkdownIt("commonmark", {"html": True, "maxNesting": 100})
    made.validateLink = lambda url: url is not None  # type: ignore[method-assign]
    made.normalizeLink = lambda url: url  # type: ignore[method-assign]
    return made.enable(["table", "strikethrough"]) if tables else made


def walked(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        if token.type != "image":  # its text is an attribute
            yield from walked(token.children or [])


def unsafe(markdown: str) -> list[str]:
    """What a reader of it could be led to or have run."""
    found = []
    for tables in (False, True):
        for token in walked(renderer(tables=tables).parse(markdown)):
            target = token.attrs.get("href", token.attrs.get("src"))
            if token.type in {"html_block", "html_inline"}:
                found.append(token.content)
            elif target is not None and not _ALLOWED.match(str(target)):
                found.append(str(target))
    return found


NASTY = [
    "[a\\\\](javascript:alert(1))",
    "\\\\<javascript:alert(1)>",
    "# [a\\\\](javascript:alert(1))",
    "> [a\\\\](javascript:alert(1))",
    "| a | b |\n| - | - |\n| [a\\\\](javascript:alert(1)) | x |",
    "| a | b |\n| - | - |\n| [a\\|b](javascript:alert(1)) | <b>x</b> |",
    "| ` | `<script>` |\n| - | - |",
    "- [l]: javascript:alert(1)\n\n[l]",
    "1. [l]: javascript:alert(1)\n\n[l]",
    "[a\\]]: javascript:alert(1)\n\n[x][a\\]]",
    "[a\nb]: javascript:alert(1)\n\n[x][a b]",
    ">\t[l]: javascript:alert(1)\n\n[l]",
    "[l]: <     javascript:alert(1)>\n\n[l]",
    '<a href="javascript:alert(1)">x</a>',
    '<a\nhref="javascript:alert(1)">x</a>',
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!-- <b> -->",
    "<!--\n\n<script>alert(1)</script>\n\n-->",
    "<div>\n```\n</div>\n<script>alert(1)</script>\n```",
    "<pre>\n\n    <script>alert(1)</script>\n</pre>",
    "[```](javascript:x)\n\n```\n<script>alert(1)</script>\n```",
    "[- a](javascript:x)\n\n      [b](javascript:y)",
    "[[[a](javascript:x)](javascript:y)](javascript:z)",
    "![[x](javascript:1)](javascript:2)",
    "[![a](javascript:1)](javascript:2)",
    '[o [i][l] p](http://q "<script>")\n\n[l]: http://a',
    '[o [i][l] p](http://q "[x](javascript:1)")\n\n[l]: http://a',
    '[a](http://x "`") <script> `',
    "a `\n<script>alert(1)</script>\n`",
    "> a `\n   <!-- <a href=x> `",
    "- a `\n  </div> <img src=x onerror=alert(1)>`",
    "[a](http://x '\n<script>alert(1)</script>\n')",
    "[a]: http://x '\n<script>alert(1)</script>\n'\n\n[a]",
    "> [a]: http://x '\n> <script>alert(1)</script>\n> '",
    "[a\n<div>]: http://x",
    "[a](/there) ![b](b.png) [c](#d) [e]()",
    "[a](\njavascript:alert(1)\n)",
    "> [a](\n> javascript:alert(1)\n> )",
    "[a](<java script:alert(1)>)",
    "[a](&#106;avascript:alert(1))",
    "\u00a0\n[x](javascript:1)",
    f"{'> ' * 80}[x](javascript:1) <b>",
    f"{'- ' * 40}[x](javascript:1) <b>",
    f"{'[' * 80}a{'](javascript:x)' * 80}",
    "\\`<b>` <i>`",
    "``<b>``` <i>` <u>```",
    "<a@b.c> <javascript:x@b.c> <http://a`b> `<i>",
]


@pytest.mark.parametrize("markdown", NASTY)
def test_nothing_leads_elsewhere_whatever_it_is_hidden_in(markdown: str) -> None:
    assert unsafe(markdown), "a control: without mending it would"
    assert unsafe(cleaned(markdown)) == []


_PIECES = [
    *("[", "]", "(", ")", "<", ">", "!", "\\", "`", "``", "```", "~~~", "|", ":", '"', "'", "*", "_", "&", "&lt;"),
    *(
        "\n",
        "\n\n",
        "\n    ",
        "\n> ",
        "\n- ",
        "\n1. ",
        "\n\t",
        "\n  ",
        "# ",
        "\n| - | - |\n",
        "\n---\n",
        " ",
        "\t",
        "\u00a0",
    ),
    *("a", "b", "[l]", "[l]: ", "](", "](javascript:x)", "](http://a)", "](/b 'c')", "![", "javascript:x", "http://a"),
    *("[l]: http://a\n[l]: javascript:alert(1)\n", "\u00a0"),
    *("<a>", "</a>", "<script>", "<!--", "-->", "<br>", "<?", "<![CDATA[", "<http://a>", "<javascript:x>", "<a@b.c>"),
]


@settings(max_examples=250, deadline=None)
@given(st.lists(st.sampled_from([*_PIECES, *NASTY]), max_size=24).map("".join))
@example("\n- a\n\n     [b](javascript:x)")
def test_nothing_leads_elsewhere_in_any_text(markdown: str) -> None:
    done = cleaned(markdown)
    assert unsafe(done) == []
    assert cleaned(done) == done


ORDINARY = [
    "Some text, 3 < 4 and a[0] (not a link); see [1] and [a note]: it says so.",
    "A [link](https://example.org/x?y=(1) 'title'), [mail](mailto:ann@example.org) and [b](HTTP://example.org).",
    "<https://example.org> and <ann@example.org> with `List<String>` and ``a ` <b>``.",
    "![picture](https://example.org/p.png) and [see][l] and ![p][l].",
    "[l]: https://example.org 'title'",
    "```html\n<a href='/x'>[x](y)</a>\n```",
    "~~~\n<script>\n\n[l]: javascript:x\n~~~",
    "    <b>indented</b> [x](javascript:y)",
    "| a | b |\n| - | - |\n| `x \\| <y>` | [c](http://d) |",
    "> quoted\n> - `<b>`\n>   [c](http://d)",
    "- a\n\n  ```\n  <b>\n  ```",
    r"\[x\](javascript:alert(9\)) \<javascript:alert(1)\> \<b> f(x)[y]",
    "# A heading & its *text* ##",
    "Setext\n===\n\n***\n\n1. one\n2. two\n",
]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(ORDINARY), min_size=1, max_size=8).map("\n\nBetween.\n\n".join))
def test_ordinary_text_stays_as_it_is(markdown: str) -> None:
    assert cleaned(markdown) == markdown


@pytest.mark.parametrize(
    ("markdown", "left"),
    [
        ("see [l](javascript:alert(3)), then", "see l, then"),
        ("![l](javascript:x)", "l"),
        ("[l](<java\tscript:x>)", "l"),
        ('[l]( JaVaScript:x "title") z', "l z"),
        ("[l](&#106;avascript:x)", "l"),
        (r"[l](javascript\:x)", "l"),
        ("[l](data:text/html,x) [m](vbscript:y) [n](file:///etc/passwd)", "l m n"),
        ("[a](/there) [b](#here) [c](there.md) [d](//example.org)", "a b c d"),
        ("[o [i](javascript:x) p](https://q)", "[o i p](https://q)"),
        ("[l]: javascript:x", "\\[l]: javascript:x"),
        ("> [l]:\n  javascript:x", "> \\[l]:\n  javascript:x"),
        ("<javascript:x>", r"\<javascript:x>"),
        ("a<br>b <i>c</i><!-- d -->", r"a b \<i>c\</i>"),
        (f"[l]({'&Tab;' * 200}javascript:x)", "l"),
    ],
)
def test_of_other_links_the_text_stays(markdown: str, left: str) -> None:
    assert cleaned(markdown) == left


def test_what_a_page_ends_in_is_known_to_the_next() -> None:
    first, second = "```\ncode\n\n", "```\n[x](javascript:1)\n```\n"
    third = "[y](javascript:2)\n"
    text, starts = without_unsafe_links(first + second + third, [0, len(first), len(first + second)])
    assert unsafe(text) == []
    assert [text[start:] for start in starts] == [text, "```\nx\n```\n[y](javascript:2)\n", "[y](javascript:2)\n"]


def test_each_page_begins_where_its_text_does() -> None:
    pages = ["[a](x)\n\n", "<b>\n\n", "", "[l]: y\n\n", "c\n\n"]
    starts = [sum(map(len, pages[:number])) for number in range(len(pages))]
    text, moved = without_unsafe_links("".join(pages), starts)
    parts = [text[start:end] for start, end in zip(moved, [*moved[1:], len(text)], strict=True)]
    assert parts == ["a\n\n", "\\<b>\n\n", "", "\\[l]: y\n\n", "c\n\n"]


def test_in_a_text_of_very_many_lines_all_links_are_text() -> None:
    text, starts = without_unsafe_links("a\n" * 300_000 + "[b](javascript:x)\n\n<b>\n", [0, 600_000])
    assert text[starts[1] :] == "&#91;b](javascript:x)\n\n&lt;b>\n"


@pytest.mark.parametrize("piece", ["[a](javascript:", "[", "](", "[a]:", "<a", "\\", "(", "[a](x", "![", "<!--", "`<"])
def test_text_that_looks_like_many_links_takes_no_time(piece: str) -> None:
    # By the square of its length this would take minutes, and the test would run out of time.
    assert unsafe(cleaned(piece * 300 + "](javascript:x)" * 100)) == []
    cleaned(piece * 15_000 + "](javascript:x)" * 100)
