from __future__ import annotations

import io
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadInput
from forebay.model.document import Page
from forebay.pipelines import reading
from forebay.pipelines.merging import Hole, Piece, merged
from tests.unit.builders import assert_helpful
from tests.unit.pipelines.pages import SHA256, file_of, page

CRASHED = Hole("parser_crashed", 'Odd words: ],"summary":{} and\n],"summary":{}')


@given(st.lists(st.text(max_size=9).map(page) | st.just(CRASHED), min_size=1, max_size=5))
def test_what_is_read_page_by_page_is_what_is_read_at_once(pages: list[Page | Hole]) -> None:
    file = file_of(*pages)
    whole = json.loads(file.read())
    assert reading.document(file) == whole["document"]
    assert reading.summary(file) == whole["summary"]
    assert list(reading.pages(file)) == whole["pages"]
    assert [json.loads(line) for line in reading.lines(file)] == whole["pages"]


def test_a_summary_is_found_however_long_it_is() -> None:
    chunks = [
        Piece(document=SHA256, page_start=number, page_end=number, lines=Hole("refused", f"{number} {'no ' * 99}"))
        for number in range(1, 1001)
    ]
    file = io.BytesIO(b"".join(merged({"sha256": SHA256}, 1000, chunks)))
    assert len(reading.summary(file)["holes"]) == 1000


@pytest.mark.slow
def test_a_large_result_is_never_in_memory_whole() -> None:
    file = file_of(*(page("word " * 200) for _ in range(200)))
    size = len(file.read())
    tracemalloc.start()
    try:
        assert sum(found["word_count"] for found in reading.pages(file)) == 40_000
        reading.summary(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size / 10


@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b'{"forebay":2,"document":{},"pages":[\n', b"\x00\xff", b'{"forebay":1,\n']
)
def test_what_is_no_merged_result_is_refused(content: bytes) -> None:
    for read in (reading.document, reading.summary, lambda file: list(reading.pages(file))):
        with pytest.raises(BadInput) as caught:
            read(io.BytesIO(content))
        assert_helpful(caught.value)


def test_a_result_that_is_cut_off_is_refused() -> None:
    whole = file_of(page("One."), page("Two.")).read()
    for end in range(len(whole)):
        with pytest.raises(BadInput):
            reading.summary(io.BytesIO(whole[:end]))
    for end in range(whole.index(b'\n],"summary"')):
        with pytest.raises(BadInput):
            list(reading.pages(io.BytesIO(whole[:end])))
