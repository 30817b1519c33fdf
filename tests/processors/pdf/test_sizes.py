from __future__ import annotations

import pytest

from forebay.processors.pdf.refused import Refused
from tests.processors.pdf.papers import Put, call, paper


@pytest.mark.parametrize(("turn", "size"), [(0, [595.0, 842.0]), (90, [842.0, 595.0])])
def test_pages_are_as_large_as_a_reader_sees_them(turn: int, size: list[float]) -> None:
    answer, _ = call("sizes", {"first": 1}, paper([Put(100, 600, "HARBOUR", 40)], Rotate=turn))
    assert answer == [size]


def test_what_is_no_document_is_refused() -> None:
    with pytest.raises(Refused):
        call("sizes", {"first": 1}, b"no PDF")
