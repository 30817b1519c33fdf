"""Links of Markdown lead to the web or to mail, or nowhere."""

from __future__ import annotations

import pytest

from forebay.processors.office.links import without_unsafe_links


@pytest.mark.parametrize(
    "kept",
    [
        "[a](https://example.org/x?y=(1)) and [b](HTTP://example.org)",
        "[a](mailto:ann@example.org)",
        "[a](/there) [b](#here) [c](there.md)",
        "<https://example.org>",
        "[a]: https://example.org 'title'",
        r"\[x\](javascript:alert(9\))",
        r"\<javascript:alert(1)\>",
        "a: b [c] (d:e)",
    ],
)
def test_what_is_safe_stays_as_it_is(kept: str) -> None:
    assert without_unsafe_links(kept) == kept


@pytest.mark.parametrize(
    ("unsafe", "left"),
    [
        ("see [l](javascript:alert(3)), then", "see l, then"),
        ("![l](javascript:x)", "l"),
        ("[l](<java\tscript:x>)", "l"),
        ('[l]( JaVaScript:x "title") z', "l z"),
        ("[l](&#106;avascript:x)", "l"),
        ("[l](jav&#x0A;ascript:x)", "l"),
        ("[l](jav&Tab;ascript:x)", "l"),
        (r"[l](javascript\:x)", "l"),
        ("[l](data:text/html,x) [m](vbscript:y) [n](file:///etc/passwd)", "l m n"),
        ("[o [i](javascript:x) p](https://q)", "[o i p](https://q)"),
        ("[l](javascript:x", "l"),
        ("[l]: javascript:x", "[l]: #"),
        ("> [l]:\n  javascript:x", "> [l]:\n  #"),
        ("<javascript:x>", r"\<javascript:x>"),
        (f"[l]({'&Tab;' * 200}javascript:x)", "l"),
    ],
)
def test_of_other_links_the_text_stays(unsafe: str, left: str) -> None:
    assert without_unsafe_links(unsafe) == left


@pytest.mark.parametrize("piece", ["[a](javascript:", "[", "](", "[a]:", "<a", "\\", "(", "[a](x"])
def test_text_that_looks_like_many_links_takes_no_time(piece: str) -> None:
    # By the square of its length this would take minutes, and the test would run out of time.
    without_unsafe_links(piece * 30_000 + "](javascript:x)" * 100)
