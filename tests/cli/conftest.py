from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.documents import Desk
from tests.cli.ground import Ground


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ground:
    for name in [name for name in os.environ if name.startswith("FOREBAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FOREBAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Ground(tmp_path / "home", monkeypatch, capsys)


@pytest.fixture
def desk(here: Ground) -> Desk:
    return Desk(here)
