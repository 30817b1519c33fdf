from __future__ import annotations

import io

from forebay.model.document import Page
from forebay.pipelines.exports import EXPORTS
from forebay.pipelines.merging import Hole
from tests.unit.pipelines.pages import file_of, page


def text(*pages: Page | Hole) -> str:
    output = io.BytesIO()
    EXPORTS["txt"].write(file_of(*pages), output)
    return output.getvalue().decode()


def test_pages_are_parted_by_a_form_feed() -> None:
    assert text(page("Größe\n\n🗎"), page(""), page("Ende")) == "Größe\n\n🗎\f\fEnde\n"


def test_a_missing_page_is_named_with_its_reason_on_one_line() -> None:
    found = text(page("One"), Hole("parser_crashed", "It ended\nby \x1b[31mSIGSEGV."), page("Three"))
    assert found == "One\f[page 2 is missing: parser_crashed: It ended\\nby \\x1b[31mSIGSEGV.]\fThree\n"


def test_json_is_the_result_as_it_is() -> None:
    file = file_of(page("One"), Hole("refused", "No."))
    output = io.BytesIO()
    EXPORTS["json"].write(file, output)
    file.seek(0)
    assert output.getvalue() == file.read()


def test_every_format_has_a_suffix_of_its_own() -> None:
    assert {name: export.suffix for name, export in EXPORTS.items()} == {
        "md": ".md",
        "txt": ".txt",
        "json": ".json",
    }
