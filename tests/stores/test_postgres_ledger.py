"""The PostgreSQL ledger keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.clock import Clock
from forebay.stores.base import Ledger
from forebay.stores.postgres.ledger import PostgresLedger
from forebay.testing.conformance import LedgerSuite
from tests.servers.fresh import empty_schema, fresh_schema
from tests.servers.server import Server


@pytest.fixture(scope="module")
def address(postgres_server: Server) -> Iterator[str]:
    with fresh_schema(postgres_server) as address:
        yield address


@pytest.fixture(scope="module")
def onlooker(address: str) -> Iterator[PostgresLedger]:
    with PostgresLedger(address) as ledger:
        yield ledger


class TestPostgresLedger(LedgerSuite):
    @pytest.fixture(autouse=True)
    def _empty(self, address: str, onlooker: PostgresLedger) -> Iterator[None]:
        empty_schema(address)
        self._address = address
        yield
        assert onlooker.check() == []

    def make_ledger(self, clock: Clock) -> PostgresLedger:
        return PostgresLedger(self._address, clock=clock)

    def reopen(self, ledger: Ledger, clock: Clock) -> PostgresLedger:
        ledger.close()
        return self.make_ledger(clock)
