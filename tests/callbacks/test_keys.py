"""The key that secrets follow from: one for all processes of a ledger, readable by its owner alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forebay.callbacks.keys import key_beside
from forebay.errors import StoreUnreachable


def test_whoever_comes_at_the_same_time_gets_the_same_key(tmp_path: Path) -> None:
    ledger = tmp_path / "new" / "forebay.db"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: key_beside(ledger), range(32)))
    assert len(keys) == 1
    assert len(keys.pop()) == 64
    assert [each.name for each in ledger.parent.iterdir()] == ["forebay.db-callback.key"]


@pytest.mark.parametrize("content", [b"", b"short\n", b"\xff" * 40])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "forebay.db-callback.key").write_bytes(content)
    with pytest.raises(StoreUnreachable, match=r"forebay\.db-callback\.key"):
        key_beside(tmp_path / "forebay.db")


def test_a_place_where_no_file_can_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreUnreachable, match=r"FOREBAY_CALLBACK_KEY|cannot be read"):
        key_beside(tmp_path / "file" / "forebay.db")
