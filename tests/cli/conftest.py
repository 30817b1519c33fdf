from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.documents import Desk
from tests.cli.ground import Ground


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Ground]:
    root, own = logging.getLogger(), logging.getLogger("forebay")
    before = root.handlers[:], root.level, own.level
    for name in [name for name in os.environ if name.startswith("FOREBAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FOREBAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield Ground(tmp_path / "home", monkeypatch, capsys)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])


@pytest.fixture
def desk(here: Ground) -> Desk:
    return Desk(here)
