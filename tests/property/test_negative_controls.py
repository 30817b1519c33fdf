"""The checks themselves work: each broken ledger is found out, and the sound one is not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import pytest

from forebay.clock import Clock, ManualClock
from forebay.stores.base import Ledger
from forebay.stores.memory.ledger import MemoryLedger
from forebay.testing.broken import (
    ForgetfulLedger,
    NumberlessLedger,
    RestlessLedger,
    RowCountingLedger,
    SilentLedger,
    UnfencedLedger,
)
from forebay.testing.conformance import LedgerSuite
from forebay.testing.invariants import problems
from forebay.testing.machine import ledger_machine
from forebay.testing.workers import Worker
from tests.property.machines import run_until_failure

pytestmark = pytest.mark.slow

BROKEN = [UnfencedLedger, RowCountingLedger, NumberlessLedger, ForgetfulLedger, RestlessLedger, SilentLedger]
EXAMPLES = 300  # it stops at the first that fails; the rarest flaw needs a callback, a cancel and an end in one run


def _suite() -> Iterator[tuple[str, Callable[..., None]]]:
    """The tests that need nothing but a ledger, a clock and workers; those with parameters are about bad input."""
    for name, test in inspect.getmembers(LedgerSuite, inspect.isfunction):
        if name.startswith("test_") and not hasattr(test, "pytestmark"):
            yield name, test


def _failures(make_ledger: Callable[[Clock], Ledger]) -> list[str]:
    class Suite(LedgerSuite):
        many = 60

        def make_ledger(self, clock: Clock) -> Ledger:
            return make_ledger(clock)

    failed = []
    for name, test in _suite():
        clock = ManualClock()
        ledger = make_ledger(clock)
        given: dict[str, object] = {"clock": clock, "ledger": ledger}
        for role, lease_s in (("worker", 15.0), ("other", 100_000.0)):
            if role in inspect.signature(test).parameters:
                given[role] = Worker(ledger, clock, f"{role}-1", lease_s=lease_s)
        try:
            test(Suite(), **{key: value for key, value in given.items() if key in inspect.signature(test).parameters})
            assert problems(ledger) == []
        except (AssertionError, ValueError):
            failed.append(name)
    return failed


@pytest.mark.parametrize("broken", BROKEN)
def test_the_machine_finds_a_broken_ledger(broken: type[MemoryLedger]) -> None:
    with pytest.raises(AssertionError):
        run_until_failure(ledger_machine(broken), examples=EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN)
def test_the_suite_finds_a_broken_ledger(broken: type[MemoryLedger]) -> None:
    assert _failures(broken)


@pytest.mark.slow
def test_a_sound_ledger_passes_the_same_checks() -> None:
    run_until_failure(ledger_machine(MemoryLedger), examples=EXAMPLES)
    assert _failures(MemoryLedger) == []
