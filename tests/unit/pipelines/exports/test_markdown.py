from __future__ import annotations

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from forebay.model.document import Block, BlockKind, Page
from forebay.pipelines.exports import EXPORTS
from forebay.pipelines.merging import Hole
from tests.unit.pipelines.pages import block, file_of, page

READER = MarkdownIt("gfm-like", {"linkify": False})
FIRST = "<!-- page 1 -->\n\n"


def markdown(*pages: Page | Hole) -> str:
    output = io.BytesIO()
    EXPORTS["md"].write(file_of(*pages), output)
    return output.getvalue().decode()


def of(*blocks: Block) -> str:
    return markdown(page(blocks=blocks))


def seen(source: str) -> list[tuple[str, str]]:
    """The blocks as a reader of Markdown sees them: their tags, and the text in each."""
    found = []
    path: list[str] = []
    for token in READER.parse(source):
        if token.type == "inline":
            parts = token.children or []
            assert {each.type for each in parts} <= {"text", "text_special", "hardbreak"}, source
            text = "".join("\n" if each.type == "hardbreak" else each.content for each in parts)
            found.append((" ".join(path), text))
        elif token.nesting:
            path = [*path, token.tag] if token.nesting > 0 else path[:-1]
        else:
            assert token.content.startswith("<!-- page "), source
    return found


lines = st.text(
    st.one_of(
        st.sampled_from(list("""\\`*_{}[]()<>#+-.!|~&;:=/"'$^%@0123 aZ""")),
        st.characters(codec="utf-8", exclude_categories=["Z", "C"]),
    ),
    min_size=1,
    max_size=16,
).map(lambda line: " ".join(line.split()) or "x")


@pytest.mark.parametrize(
    ("kind", "tags"),
    [
        (BlockKind.HEADING, "h3"),
        (BlockKind.PARAGRAPH, "p"),
        (BlockKind.TABLE, "p"),
    ],
)
def test_nothing_in_a_text_is_taken_for_markup(kind: BlockKind, tags: str) -> None:
    @given(lines)
    @example("---")
    @example("===")
    @example("# no heading")
    @example("a #")
    @example("1. no list")
    @example("1986) no list")
    @example("<b>&amp;[x](y)![z]")
    @example("[x]: y")
    @example("snake_case _not_ __init__")
    @example("C:\\")
    def check(line: str) -> None:
        assert seen(of(block(line, kind=kind, level=3))) == [(tags, line)]

    check()


@given(lines, lines)
@example("a | b", "--- | ---")
@example("a | b", "|---|---|")
@example("a", ":- | -:")
@example("a", "===")
@example("a", "- b")
@example("a", "1. b")
def test_the_rows_of_a_table_stay_lines(above: str, below: str) -> None:
    assert seen(of(block(above, below, kind=BlockKind.TABLE))) == [("p", f"{above}\n{below}")]


@given(lines.map(lambda line: f"x{line}"))
def test_a_list_item_keeps_its_text(line: str) -> None:
    assert seen(of(block(f"• {line}", kind=BlockKind.LIST_ITEM))) == [("ul li p", line)]
    assert seen(of(block(f"7) {line}", kind=BlockKind.LIST_ITEM))) == [("ol li p", line)]


def test_pages_headings_paragraphs_and_lists() -> None:
    first = page(
        blocks=(
            block("The Water", "of the Mill", kind=BlockKind.HEADING, level=1),
            block("It waits in the", "basin."),
            block("• one", kind=BlockKind.LIST_ITEM),
            block("• two, which", "is longer", kind=BlockKind.LIST_ITEM),
            block("2. three", kind=BlockKind.LIST_ITEM),
            block("3. four", kind=BlockKind.LIST_ITEM),
            block("Then it falls."),
        )
    )
    assert markdown(first, page(), page("Ende")) == (
        "<!-- page 1 -->\n\n# The Water of the Mill\n\nIt waits in the basin.\n\n- one\n- two, which is longer\n\n"
        "2. three\n3. four\n\nThen it falls.\n\n<!-- page 2 -->\n\n<!-- page 3 -->\n\nEnde\n"
    )


def test_a_missing_page_is_named_with_its_reason() -> None:
    found = markdown(page("One"), Hole("parser_crashed", "It ended by <b>*SIGSEGV*</b>\n# now."))
    assert found == (
        "<!-- page 1 -->\n\nOne\n\n<!-- page 2 -->\n\n"
        "> **Page 2 is missing** (parser_crashed: It ended by \\<b>\\*SIGSEGV\\*\\</b>\\\\n# now.)\n"
    )


@pytest.mark.parametrize(
    ("above", "below", "joined"),
    [
        ("the catch-", "ment area", "the catchment area"),
        ("die Wasser-", "straße", "die Wasserstraße"),
        ("soft\u00ad", "ened", "softened"),
        ("Nord-", "Ostsee", "Nord- Ostsee"),
        ("Ein-", "und Ausgabe", "Ein- und Ausgabe"),
        ("pages 3-", "5 of it", "pages 3- 5 of it"),
        ("so --", "he said", "so -- he said"),
        ("so –", "he said", "so – he said"),  # noqa: RUF001 - a dash of the text
        ("no hyphen", "here", "no hyphen here"),
    ],
)
def test_a_word_that_a_line_end_parted_is_closed(above: str, below: str, joined: str) -> None:
    assert of(block(above, below)) == f"{FIRST}{joined}\n"


def test_levels_go_from_one_to_six() -> None:
    for level, marks in ((None, "#"), (0, "#"), (2, "##"), (9, "######")):
        assert of(block("Title", kind=BlockKind.HEADING, level=level)) == f"{FIRST}{marks} Title\n"


def test_control_characters_are_left_out() -> None:
    assert of(block("a\x1b[2Jb\x00")) == f"{FIRST}a\\[2Jb\n"
