"""Keeps docs/reference/outputs.md equal to the code: its example is a result, and every field of it is explained."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from forebay.app.exporting import SUFFIXES
from forebay.model.document import Block, BlockKind, Box, Line, Method, Page, Word
from forebay.pipelines.exports import EXPORTS
from forebay.pipelines.merging import Hole, merged
from tests.unit.pipelines.pages import SHA256, split

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "outputs.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
SCANNED = Page(
    width=595.2,
    height=841.68,
    blocks=(
        Block(
            (Line((Word("Die", Box(0.1, 0.08, 0.15, 0.1), 0.98), Word("Mühle", Box(0.16, 0.08, 0.27, 0.1), 0.94))),),
            BlockKind.HEADING,
            1,
        ),
    ),
    processor="local",
    version="1",
    method=Method.OCR,
    language="de",
)
HOLE = Hole("parser_crashed", "The child that read page 2 ended by SIGSEGV.")


def result() -> IO[bytes]:
    pages: list[Page | Hole] = [SCANNED, HOLE]
    return io.BytesIO(b"".join(merged({"sha256": SHA256, "media_type": "application/pdf"}, 2, split(pages))))


def fields(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            if name not in {"languages", "processors"}:
                yield from fields(each)
    elif isinstance(value, list):
        for each in value:
            yield from fields(each)


def test_the_example_is_a_result() -> None:
    assert json.loads(BLOCKS["json"]) == json.loads(result().read())


def test_every_field_is_explained_and_no_other() -> None:
    rows = {
        name
        for line in PAGE.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert rows == set(fields(json.loads(result().read()))) | set(SUFFIXES)


def test_every_kind_of_block_and_every_method_is_named() -> None:
    for word in (*BlockKind, *Method):
        assert f"`{word}`" in PAGE


@pytest.mark.parametrize("name", SUFFIXES)
def test_every_format_has_a_row_with_its_suffix(name: str) -> None:
    assert re.search(rf"^\| `{name}` \| `scan{re.escape(SUFFIXES[name])}` \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("name", "language"), [("md", "markdown"), ("txt", "text")])
def test_the_example_as_a_file_is_what_the_format_gives(name: str, language: str) -> None:
    output = io.BytesIO()
    EXPORTS[name].write(result(), output)
    assert BLOCKS[language] == output.getvalue().decode().replace("\f", "\N{SYMBOL FOR FORM FEED}")
