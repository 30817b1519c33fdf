from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.ground import Ground
from tests.servers.fresh import fresh_database
from tests.servers.server import Server


class Make:
    """Makes the ground of one test: PostgreSQL for its tasks, and for its limits what the test says."""

    def __init__(self, folder: Path, ledger: str, valkey: Server) -> None:
        self._folder = folder
        self._ledger = ledger
        self._valkey = valkey

    def __call__(self, *, limits: str = "", control: str = "", **terms: Any) -> Ground:  # noqa: ANN401 - of a limit
        return Ground(
            self._folder,
            ledger=self._ledger,
            limits=limits or self._valkey.url,
            terms=terms | ({"prefix": f"{self._folder.name}:"} if control else {}),
            redis=self._valkey.url,
            control=control,
        )


@pytest.fixture
def ground(tmp_path: Path, postgres_server: Server, valkey_server: Server) -> Iterator[Make]:
    with fresh_database(postgres_server) as ledger:
        yield Make(tmp_path, ledger, valkey_server)
