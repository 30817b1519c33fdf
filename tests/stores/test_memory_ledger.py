"""The memory ledger keeps the contract."""

from __future__ import annotations

from forebay.clock import Clock
from forebay.stores.memory.ledger import MemoryLedger
from forebay.testing.conformance import LedgerSuite


class TestMemoryLedger(LedgerSuite):
    def make_ledger(self, clock: Clock) -> MemoryLedger:
        return MemoryLedger(clock)
