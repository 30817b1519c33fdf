from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.callbacks.receiver import Receiver


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Callable[..., Receiver]]:
    made: list[Receiver] = []

    def make(name: str = "receiver", **options: object) -> Receiver:
        made.append(Receiver(tmp_path / f"{name}.jsonl", **options))  # type: ignore[arg-type]  # of its own
        return made[-1]

    yield make
    for each in made:
        each.close()
