"""Runs a state machine for as long as the profile says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from obstore.store import MemoryStore

from forebay.clock import Clock
from forebay.stores.base import Ledger
from forebay.stores.objects.ledger import ObjectsLedger
from forebay.stores.postgres.ledger import PostgresLedger
from forebay.stores.sqlite.ledger import SqliteLedger
from forebay.testing.machine import LedgerMachine, ledger_machine
from tests.servers.fresh import empty_schema

FUZZ = bool(os.environ.get("FOREBAY_FUZZ"))
SHORT = [] if FUZZ else [pytest.param(0.25, id="short")]
# The share of a state machine's examples: the short run belongs to the default tests.
short_and_long = pytest.mark.parametrize("share", [*SHORT, pytest.param(1.0, id="long", marks=pytest.mark.slow)])


def run(machine: type[RuleBasedStateMachine], *, examples: float) -> None:
    """Run so many examples, unless `./dev fuzz` has a number of its own."""
    run_state_machine_as_test(machine, settings=settings() if FUZZ else settings(max_examples=round(examples)))


def run_until_failure(machine: type[RuleBasedStateMachine], *, examples: int) -> None:
    """The same way each time, and without making the failing example small: it only has to be found."""
    unshrunk = settings(settings.get_profile("test"), max_examples=examples, phases=[Phase.generate])
    run_state_machine_as_test(machine, settings=unshrunk)


def sqlite_machine(folder: Path) -> type[LedgerMachine]:
    path = folder / "ledger.db"

    def make_ledger(clock: Clock) -> Ledger:
        for old in folder.iterdir():
            old.unlink()
        return SqliteLedger(path, clock=clock)

    def reopen(ledger: Ledger, clock: Clock) -> Ledger:
        ledger.close()
        return SqliteLedger(path, clock=clock)

    return ledger_machine(make_ledger, reopen)


def postgres_machine(address: str) -> type[LedgerMachine]:
    def make_ledger(clock: Clock) -> Ledger:
        empty_schema(address)
        return PostgresLedger(address, clock=clock)

    def reopen(ledger: Ledger, clock: Clock) -> Ledger:
        ledger.close()
        return PostgresLedger(address, clock=clock)

    return ledger_machine(make_ledger, reopen)


def objects_machine() -> type[LedgerMachine]:
    return ledger_machine(lambda clock: ObjectsLedger(MemoryStore(), clock=clock))
