from __future__ import annotations

import pytest

from forebay.server.problems import Refused
from forebay.server.ranges import piece_of


@pytest.mark.parametrize(
    ("wanted", "start", "end", "status"),
    [
        ("bytes=0-99999999999999999999999", 0, 100, 206),
        ("bytes=10-" + "9" * 900, 10, 100, 206),
        ("bytes=-99999999999999999999999", 0, 100, 206),
        ("bytes=" + "0" * 30 + "5-9", 5, 10, 206),
        ("bytes=0-" + "9" * 1000, 0, 100, 200),
        ("bytes=-", 0, 100, 200),
        ("pages=1-2", 0, 100, 200),
        (None, 0, 100, 200),
    ],
)
def test_a_range_is_clamped_and_one_that_is_too_long_is_ignored(
    wanted: str | None, start: int, end: int, status: int
) -> None:
    assert piece_of(wanted, 100)[:3] == (start, end, status)


@pytest.mark.parametrize("wanted", ["bytes=100-", "bytes=99999999999999999999999-", "bytes=-0"])
def test_a_range_beyond_the_end_is_a_416(wanted: str) -> None:
    with pytest.raises(Refused) as caught:
        piece_of(wanted, 100)
    assert caught.value.status == 416
