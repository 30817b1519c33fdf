from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay import Forebay
from tests.pipelines.ground import Ground


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """An application on SQLite with its blobs beside it, and a processor that writes down every call."""
    app = Forebay(f"sqlite:///{tmp_path}/forebay.db", blobs=f"file://{tmp_path}/blobs")
    with app:
        yield Ground(app, tmp_path)
