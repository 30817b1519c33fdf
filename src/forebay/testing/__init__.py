"""What a ledger or a limit store must pass to be one, open to anybody who writes a store.

All but the simulator need `forebay[testing]`: pytest and hypothesis.

- `forebay.testing.conformance.LedgerSuite`: the promises of the contract, one test each.
- `forebay.testing.machine.ledger_machine`: random steps against a small model, judged after each one.
- `forebay.testing.faults.faulty`: any ledger, with calls that fail, are late, or are done but not answered.
- `forebay.testing.invariants.problems`: what is wrong in a ledger, whatever was done to it.
- `forebay.testing.broken`: ledgers with one flaw each, to see that the checks find it.
- `forebay.testing.limits.LimitStoreSuite`: the promises of a limit store, one test each.
- `forebay.testing.limits.machine.limit_machine`: random processes on one limit, judged by what they were told.
- `forebay.testing.simulator`: the paid APIs on this machine, in a process of their own that says what it saw.
"""

from contextlib import suppress

from forebay.simulate.starting import Simulated, simulator

__all__ = ["Simulated", "simulator"]

with suppress(ImportError):  # the simulator needs no pytest
    import pytest

    # Before anything imports them: a failed assert then shows the values it compared.
    pytest.register_assert_rewrite(
        "forebay.testing.conformance", "forebay.testing.ground", "forebay.testing.limits", "forebay.testing.pair"
    )
