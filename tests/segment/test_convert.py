"""Documents of every kind become Markdown with their headings, lists and tables, in a child that is shut off."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import random
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from forebay.engine.signals import Permanent, Retry
from forebay.processors.office.types import DOCX, HTML, MARKDOWN, PPTX, TEXT, XLSX
from forebay.processors.parser_child import Bounds
from forebay.processors.parsers import Parsers
from tests.segment import written
from tests.segment.test_links import unsafe
from tests.segment.written import docx, paragraph, pptx, table, xlsx

Converted = tuple[str, list[int], bool]


class Converter:
    """One pool of children for all tests, so that each shows that those before it left it alive."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._parsers = Parsers(1, Bounds(memory_mb=768, cpu_s=10))

    def __call__(self, media_type: str, raw: bytes) -> Converted:
        with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as output:
            file.write(raw)
            file.flush()
            call = self._parsers.call(
                "convert", {"media_type": media_type}, files=[file.fileno(), output.fileno()], timeout_s=40
            )
            said: Any = self._loop.run_until_complete(call)
            output.seek(0)
            return output.read().decode(), said["starts"], said["paged"]

    def close(self) -> None:
        self._loop.run_until_complete(self._parsers.aclose())
        self._loop.close()


@pytest.fixture(scope="module")
def convert() -> Iterator[Converter]:
    made = Converter()
    yield made
    made.close()


def test_word_keeps_headings_paragraphs_and_tables(convert: Converter) -> None:
    raw = docx(
        paragraph("Report", heading=1),
        paragraph("All is &lt;well&gt; today."),
        paragraph("Figures", heading=2),
        table([["Name", "Sum"], ["Weir", "1|2"]]),
    )
    text, starts, paged = convert(DOCX, raw)
    assert text.startswith("# Report\n\nAll is")
    assert "\n## Figures\n" in text
    assert ["".join(line.split()) for line in text.splitlines() if "Weir" in line] == ["|Weir|1\\|2|"]
    assert (starts, paged) == ([0], False)


def test_html_keeps_headings_lists_and_tables_but_no_scripts(convert: Converter) -> None:
    text, _, paged = convert(
        HTML,
        "<!doctype html><meta charset=utf-8><script>alert(1)</script><style>p{}</style><h1>Fluß</h1><p>A <b>b</b>"
        "<ul><li>one<ol><li>two</ol></ul><table><tr><th>x<th>y<tr><td>1<td>2</table>"
        "<img src=data:x;base64,AAAA>".encode(),
    )
    assert text.startswith("# Fluß\n\nA **b**\n\n- one\n")
    assert "| 1 | 2 |" in text
    assert "alert" not in text
    assert "p{}" not in text
    assert "AAAA" not in text
    assert not paged


def test_html_loses_no_text_and_none_of_it_becomes_markup(convert: Converter) -> None:
    """Whole pages stand in a form; what is written as text must not be a tag, a heading or a link afterwards."""
    text, *_ = convert(
        HTML,
        b"<form><header>Head</header><nav>Menu</nav><h1>One</h1><p>a &lt;script&gt; &amp;amp; [x](y) *z*</p>"
        b"<p># no</p></form>",
    )
    assert text == "Head\n\nMenu\n\n# One\n\na \\<script\\> \\&amp; \\[x\\](y) \\*z\\*\n\n\\# no\n\n"


def test_links_lead_to_the_web_or_to_mail_and_frames_are_no_links(convert: Converter) -> None:
    page = (
        b'<p><a href="javascript:alert(3)">l</a> <a href="data:text/html,x">d</a> '
        b'<a href="https://example.org/">w</a> <a href="mailto:a@example.org">m</a></p>'
        b'<iframe src="http://127.0.0.1/x"></iframe><video src="http://127.0.0.1/y"></video><p>end</p>'
    )
    text = convert(HTML, page)[0]
    assert text == "l d [w](https://example.org/) [m](mailto:a@example.org)\n\nend\n\n"
    assert convert(MARKDOWN, b"[l](javascript:x) [w](https://example.org)\n")[0] == "l [w](https://example.org)\n\n"


@pytest.mark.parametrize(
    "page",
    [
        '<h1>T</h1><p><a href="javascript:alert(1)">click\\</a></p>',
        '<h1><a href="javascript:alert(1)">click\\</a></h1>',
        '<table><tr><td><a href="javascript:alert(1)">a\\</a>|</td><td>a<br>b</td></tr></table>',
        '<blockquote><a href="javascript:alert(1)">a\\</a></blockquote>',
        "<ul><li>[a]: javascript:1</li></ul><p>[a]</p>",
        '<p>x\\<a href="javascript:alert(1)">javascript:alert(1)</a></p>',
        '<a href="javascript:alert(1)"><code>a]b\\</code></a> <a href="/there">b</a>',
    ],
)
def test_no_backslash_of_a_page_lets_a_link_or_a_tag_through(convert: Converter, page: str) -> None:
    assert unsafe(convert(HTML, f"<html><body>{page}</body></html>".encode())[0]) == []


def test_a_fence_of_one_page_is_known_on_the_next(convert: Converter) -> None:
    text, starts, _ = convert(MARKDOWN, b"# T\n\n```\ncode\f```\n[x](javascript:1)\n```\n\f[y](javascript:2) end\n")
    assert unsafe(text) == []
    assert text[starts[2] :] == "[y](javascript:2) end\n\n"
    assert text[starts[1] :].startswith("```\nx\n```\n")


def test_text_of_slides_and_cells_is_no_markup_either(convert: Converter) -> None:
    text, *_ = convert(PPTX, pptx(("<b>T</b>", ["# no"]), cells=[["<i>", "a\\|b"]]))
    assert text == "# \\<b>T\\</b>\n\n\\# no\n\n| \\<i> | a\\\\\\|b |\n| --- | --- |\n\n"


def test_html_in_an_older_encoding_is_read_by_the_one_that_it_names(convert: Converter) -> None:
    assert "Größe" in convert(HTML, "<meta charset=iso-8859-1><p>Größe".encode("latin-1"))[0]


def test_a_workbook_is_a_table_for_each_sheet_and_its_sheets_are_pages(convert: Converter) -> None:
    when = dt.datetime(2024, 5, 1)  # noqa: DTZ001 - as workbooks have it
    sheets: dict[str, list[list[object]]] = {
        "Sales": [["Name", "Sum"], ["A|b\nc", 1.5], [], [True, when, None, None]],
        "Empty": [],
        "Two": [["x"]],
    }
    text, starts, paged = convert(XLSX, xlsx(sheets))
    first, second = text.split("# Two")
    assert first == "# Sales\n\n| Name | Sum |\n| --- | --- |\n| A\\|b c | 1.5 |\n| TRUE | 2024-05-01 |\n\n"
    assert second == "\n\n| x |\n| --- |\n\n"
    assert (starts, paged) == ([0, len(first), len(first)], True)


def test_slides_are_pages_with_their_titles_lists_tables_and_notes(convert: Converter) -> None:
    raw = pptx(("First", ["one", " deeper"]), ("Second", ["alone"]), notes="say this", cells=[["a", "b"], ["c", "d"]])
    text, starts, paged = convert(PPTX, raw)
    assert text[: starts[1]] == (
        "# First\n\n- one\n  - deeper\n\n| a | b |\n| --- | --- |\n| c | d |\n\n> say this\n\n"
    )
    assert text[starts[1] :].startswith("# Second\n\nalone\n\n")
    assert paged


def test_markdown_stays_as_it_is_and_form_feeds_part_pages(convert: Converter) -> None:
    text, starts, paged = convert(MARKDOWN, "\ufeff# One\r\n\r\n- a\r\n\f# Two\n\n\x1b[2Jx\n".encode())
    assert text == "# One\n\n- a\n\n# Two\n\n[2Jx\n\n"
    assert (starts, paged) == ([0, 12], True)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_plain_text_is_read_in_its_encoding_and_nothing_in_it_becomes_a_tag(convert: Converter, encoding: str) -> None:
    text, *_ = convert(TEXT, "Die Größe <b>x</b> &amp; 3 < 5\n".encode(encoding))
    assert text == "Die Größe \\<b>x\\</b> \\&amp; 3 < 5\n\n"


HARM: dict[str, tuple[str, Callable[[], bytes], set[str]]] = {
    "zip bomb": (DOCX, written.zip_bomb, {"decompression_limit"}),
    "a directory that lies": (DOCX, written.lying_zip, {"corrupted_content"}),
    "entity bomb": (DOCX, written.entity_bomb, {"corrupted_content"}),
    "deep nesting in Word": (DOCX, written.deep_docx, {"decompression_limit", "parser_crashed", "corrupted_content"}),
    "deep nesting in HTML": (HTML, written.deep_html, {"decompression_limit"}),
    "more cells than can be": (XLSX, written.wide_xlsx, {"decompression_limit"}),
    "more cells than can be read in time": (XLSX, written.full_xlsx, {"decompression_limit"}),
    "half a file": (DOCX, lambda: docx(paragraph("x"))[:-30], {"corrupted_content"}),
    "another document": (PPTX, lambda: docx(paragraph("x")), {"corrupted_content"}),
    "no text": (DOCX, lambda: docx(paragraph(" ")), {"corrupted_content"}),
    "no text but zeros": (TEXT, lambda: b"a" * 70_000 + bytes(9), {"unsupported_format"}),
}


@pytest.mark.parametrize("name", HARM)
def test_what_means_harm_ends_in_its_class_and_the_next_document_is_read(convert: Converter, name: str) -> None:
    media_type, made, classes = HARM[name]
    raw = made()
    try:
        convert(media_type, raw)
    except (Permanent, Retry) as error:
        ended, text = error.error_class, error.text
    else:
        pytest.fail("it was converted")
    assert ended in classes, text
    assert convert(DOCX, docx(paragraph("Sound")))[0] == "Sound\n\n"


def test_a_cell_in_the_last_row_is_no_harm(convert: Converter) -> None:
    assert "| 7 |" in convert(XLSX, written.tall_xlsx())[0]


@pytest.mark.slow
def test_a_sheet_of_several_pieces_is_read_whole(convert: Converter) -> None:
    assert convert(XLSX, written.full_xlsx(80))[0].count(" 1 ") == 80_000


def test_the_bombs_are_bombs() -> None:
    """Negative control: small to hand in, and far beyond the bound when they are unpacked."""
    with zipfile.ZipFile(io.BytesIO(written.zip_bomb())) as opened:
        assert sum(each.file_size for each in opened.infolist()) > 256 * 1024 * 1024
    assert len(written.zip_bomb()) < 2_000_000
    assert len(written.entity_bomb()) < 3000


SOUND: dict[str, tuple[str, bytes]] = {
    "docx": (DOCX, docx(paragraph("One", heading=1), paragraph("Some words."), table([["a", "b"]]))),
    "xlsx": (XLSX, xlsx({"One": [["a", 1], ["b", 2]]})),
    "pptx": (PPTX, pptx(("One", ["a", " b"]))),
    "html": (HTML, b"<html><h1>One</h1><table><tr><td>a<td>b</table><ul><li>x</ul></html>" * 3),
}
ENDS = {
    "corrupted_content",
    "decompression_limit",
    "encrypted",
    "unsupported_format",
    "parser_crashed",
    "parser_memory",
}


@pytest.mark.parametrize("name", SOUND)
def test_bytes_that_were_changed_anywhere_end_in_a_class_that_says_so(convert: Converter, name: str) -> None:
    media_type, raw = SOUND[name]
    dice = random.Random(name)
    ended = set()
    for _ in range(40):
        changed = bytearray(raw)
        for _ in range(dice.randint(1, 8)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        try:
            convert(media_type, bytes(changed))
        except (Permanent, Retry) as error:
            ended.add(str(error.error_class))
    assert ended <= ENDS
