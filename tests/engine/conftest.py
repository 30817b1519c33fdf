from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.ground import HANDLERS, Ground


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Ground]]:
    monkeypatch.setenv("TEST_LEDGER", f"sqlite:///{tmp_path}/ledger.db")
    monkeypatch.setenv("TEST_BLOBS", f"file://{tmp_path}/blobs")
    monkeypatch.setenv("TEST_NOTES", str(tmp_path / "notes"))
    made: list[Ground] = []

    def make(handlers: str = HANDLERS, **settings: object) -> Ground:
        made.append(Ground(tmp_path, handlers, **settings))
        return made[-1]

    yield make
    for each in made:
        each.app.close()
