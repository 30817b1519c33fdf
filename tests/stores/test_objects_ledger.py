"""The ledger over objects keeps the contract."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore

from forebay.clock import Clock
from forebay.errors import StoreUnreachable
from forebay.stores.base import Ledger
from forebay.stores.objects.ledger import ObjectsLedger
from forebay.testing.conformance import LedgerSuite
from forebay.testing.workers import action


@pytest.mark.slow
class TestObjectsLedger(LedgerSuite):
    many = 120
    tags_at_submit = False

    @pytest.fixture(autouse=True)
    def _bucket(self) -> None:
        self._store = MemoryStore()

    def make_ledger(self, clock: Clock) -> ObjectsLedger:
        return ObjectsLedger(self._store, clock=clock)

    def reopen(self, ledger: Ledger, clock: Clock) -> ObjectsLedger:
        ledger.close()
        return self.make_ledger(clock)


def test_a_pause_that_broke_off_before_it_was_recorded_does_not_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ObjectsLedger(MemoryStore())
    pausing = action()

    def fails(*_: object) -> None:
        raise StoreUnreachable("The bucket is gone.")

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "_record", fails)
        with pytest.raises(StoreUnreachable):
            ledger.pause("work", pausing)
    assert [lane.name for lane in ledger.lanes()] == ["work"]
    ledger.resume("work", action())
    assert ledger.pause("work", pausing).done
    assert ledger.lanes() == []
    assert [line.verb for line in ledger.audit()] == ["pause", "resume"]
