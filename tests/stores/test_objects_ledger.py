"""The ledger over objects keeps the contract."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore

from forebay.clock import Clock
from forebay.stores.base import Ledger
from forebay.stores.objects.ledger import ObjectsLedger
from forebay.testing.conformance import LedgerSuite


class TestObjectsLedger(LedgerSuite):
    many = 120

    @pytest.fixture(autouse=True)
    def _bucket(self) -> None:
        self._store = MemoryStore()

    def make_ledger(self, clock: Clock) -> ObjectsLedger:
        return ObjectsLedger(self._store, clock=clock)

    def reopen(self, ledger: Ledger, clock: Clock) -> ObjectsLedger:
        ledger.close()
        return self.make_ledger(clock)
