"""The SQLite ledger keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.clock import Clock
from forebay.stores.base import Ledger
from forebay.stores.sqlite.ledger import SqliteLedger
from forebay.testing.conformance import LedgerSuite


class TestSqliteLedger(LedgerSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self._path = tmp_path / "ledger.db"

    def make_ledger(self, clock: Clock) -> SqliteLedger:
        return SqliteLedger(self._path, clock=clock)

    def reopen(self, ledger: Ledger, clock: Clock) -> SqliteLedger:
        ledger.close()
        return self.make_ledger(clock)
