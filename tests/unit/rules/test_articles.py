from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadInput, TooLarge
from forebay.rules import headings
from forebay.rules.articles import LEAST_SIZE, Article, articles

LINES = st.one_of(
    st.sampled_from(
        ["", "", " ", "# One", "## Two", "### Three ###", "#", "Title", "=====", "---", "```", "~~~", "- item", "| a |"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=40),
    st.text("ab .!?\t。", min_size=150, max_size=900),
)
TEXTS = st.lists(LINES, max_size=30).map("\n".join)
SIZES = st.integers(LEAST_SIZE, 600)


def texts(text: str, found: list[Article]) -> list[str]:
    return [text[each.start : each.end] for each in found]


def whole(text: str, found: list[Article]) -> bool:
    """Whether nothing of a text is lost or doubled in its articles."""
    return "".join(texts(text, found)) == (text if text.strip() else "")


@given(TEXTS, SIZES)
def test_the_articles_one_after_the_other_are_the_text(text: str, max_size: int) -> None:
    found = articles(text, max_size=max_size)
    assert whole(text, found)
    assert all(each.strip() for each in texts(text, found))


def test_an_article_that_is_lost_doubled_or_moved_is_noticed() -> None:
    """Negative control."""
    text = "# One\n\nfirst\n\n# Two\n\nsecond\n"
    one, two = articles(text)
    assert whole(text, [one, two])
    for wrong in ([one], [one, one, two], [two, one], [replace(one, end=one.end - 1), two]):
        assert not whole(text, wrong)


@given(TEXTS, SIZES)
def test_no_article_is_longer_than_it_may_be_and_they_are_counted_from_one(text: str, max_size: int) -> None:
    found = articles(text, max_size=max_size)
    assert all(len(each.strip()) <= max_size for each in texts(text, found))
    assert [each.ordinal for each in found] == [*range(1, len(found) + 1)]
    assert found == articles(text, max_size=max_size)


@given(TEXTS, SIZES)
def test_what_is_added_at_the_end_leaves_the_articles_before_it_as_they_are(text: str, max_size: int) -> None:
    assume_closed = text + "\n\nlast\n"
    if any(end == len(assume_closed) for _, end in headings.marks(assume_closed).code):
        return  # an open fence takes in whatever comes
    before = articles(assume_closed, max_size=max_size)
    after = articles(assume_closed + "# New\n\nAnd more.\n", max_size=max_size)
    assert after[: len(before)] == before
    assert after[-1].title == "New"


@pytest.mark.slow
@given(st.lists(TEXTS, min_size=1, max_size=6), SIZES)
def test_an_article_knows_the_pages_of_its_first_and_last_letters(pages: list[str], max_size: int) -> None:
    text, starts = "", []
    for page in pages:
        starts.append(len(text))
        text += page + "\n\n"
    owner = [number for number, page in enumerate(pages, 1) for _ in page + "\n\n"]
    for each in articles(text, max_size=max_size, page_starts=starts):
        seen = [at for at in range(each.start, each.end) if not text[at].isspace()]
        assert (each.page, each.page_end) == (owner[seen[0]], owner[seen[-1]])
        assert owner[seen[0]] == bisect_right(starts, seen[0])


def test_an_article_ends_on_the_page_of_its_last_letter_however_little_follows_before_the_next_page() -> None:
    found = articles("one two\n# H\nthree", page_starts=[0, 6, 8])
    assert [(each.page, each.page_end) for each in found] == [(1, 2), (3, 3)]


def test_a_text_without_headings_is_named_by_its_first_words() -> None:
    (only,) = articles("> - *The river* fills the basin.\n\nMore.\n")
    assert (only.title, only.group, only.page) == ("The river fills the basin.", None, None)


def test_every_heading_begins_an_article_and_knows_the_one_above() -> None:
    text = (
        "Intro\n\n# River\n\nWater.\n\n## Weir\n\nStones.\n\n### Gate\n\nIron.\n\n## Lock\n\nOak.\n\n# Sea\n\nSalt.\n"
    )
    assert [(each.title, each.group) for each in articles(text)] == [
        ("Intro", None), ("River", None), ("Weir", "River"), ("Gate", "Weir"), ("Lock", "River"), ("Sea", None)
    ]  # fmt: skip


def test_a_heading_without_text_of_its_own_stays_with_the_next() -> None:
    text = "# Report\n\n## Summary\n\nAll well.\n\n## Appendix\n"
    found = articles(text)
    assert [(each.title, each.group) for each in found] == [("Summary", "Report"), ("Appendix", "Report")]
    assert texts(text, found)[0].startswith("# Report")


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("River\n=====\n\nWater.\n\nWeir\n---\n\nStones.", ["River", "Weir"]),
        ("# A *bold* [link](http://x) `code` ##\n\ntext", ["A bold link code"]),
        ("# my_name C#\n\ntext", ["my_name C#"]),
        ("Text\n\n```\n# no heading\n```\n\n# Yes\n\ntext", ["Text", "Yes"]),
        ("Text\n\n~~~\n# no\n```\n# no\n~~~\n\n# Yes\n\ntext", ["Text", "Yes"]),
        ("#nothing\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\nline one\nline two\n---\n", ["nothing"]),
        ("- item\n---\ntext", ["item"]),
        ("   \n\n \n", []),
        ("#\n\n#\n", ["#"]),
    ],
)
def test_what_is_a_heading_and_what_is_none(text: str, titles: list[str]) -> None:
    assert [each.title for each in articles(text)] == (titles if titles != ["#"] else [""])


def test_a_long_article_is_cut_between_its_paragraphs_and_not_in_its_code() -> None:
    words = " ".join(["word"] * 30)
    code = "```\n" + "\n\n".join(["x = 1"] * 12) + "\n```"
    text = f"# Long\n\n{words}\n\n{code}\n\n{words}\n\n{words}\n"
    found = articles(text, max_size=300)
    assert {each.title for each in found} == {"Long"}
    assert [each.strip() for each in texts(text, found)] == [
        f"# Long\n\n{words}\n\n{code}", words + "\n\n" + words
    ]  # fmt: skip


def test_without_a_better_place_it_is_cut_after_a_sentence_or_a_word_or_anywhere() -> None:
    for text, end in (("An end. " * 100, "."), ("word " * 100, "d"), ("x" * 500, "x")):
        first, *_ = texts(text, articles(text, max_size=LEAST_SIZE))
        assert LEAST_SIZE // 4 <= len(first.strip()) <= LEAST_SIZE
        assert first.strip().endswith(end)


@pytest.mark.parametrize("size", [0, LEAST_SIZE - 1, 10**9, True, "5000", 300.0])
def test_a_size_out_of_bounds_is_refused(size: object) -> None:
    with pytest.raises(BadInput, match="max_size"):
        articles("text", max_size=size)  # type: ignore[arg-type]


def test_too_many_headings_are_refused_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headings, "MAX_HEADINGS", 10)
    with pytest.raises(TooLarge):
        articles("# a\nb\n" * 11)


@pytest.mark.parametrize(
    "line", ["#" * 200_000, "# " + " " * 200_000 + "x", "[" * 200_000, "*" * 200_000, "=" * 200_000, ". " * 100_000]
)
def test_no_line_takes_more_than_its_length(line: str) -> None:
    assert "".join(texts(line, articles(line))) == line
