from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.app.forebay import Forebay
from tests.server.ground import Service, serving


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forebay]:
    monkeypatch.setenv("FOREBAY_HOME", str(tmp_path / "home"))
    with Forebay(f"sqlite:///{tmp_path}/forebay.db", blobs=f"file://{tmp_path}/blobs") as app:
        yield app


@pytest.fixture
def service(app: Forebay) -> Iterator[Service]:
    with serving(app) as service:
        yield service
