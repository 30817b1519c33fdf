"""Plays a scenario on a store, and judges what came of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chaos.checker import Verdict
from chaos.limits import records
from chaos.limits.cast import OURS, Cast
from chaos.limits.judge import judge
from chaos.limits.load import Load
from chaos.limits.records import Records
from chaos.limits.scenarios import SCENARIOS
from chaos.limits.staging import staged

STALLED_S = 0.2
"""Four times the transit that callers promise: nobody but a machine that stands still is that slow."""


def play(
    name: str, store: str, folder: Path, *, adapter: str = OURS, short: bool = False, seconds: float | None = None
) -> Verdict:
    """`seconds` ends it early: enough for a limiter that is broken, too little to show that one is not."""
    scenario = SCENARIOS[name]
    with staged(store, folder / "store", durable=scenario.durable) as stage:
        run = scenario.build(Cast(stage=stage, store=store, folder=folder, adapter=adapter, short=short))
        if run.before is not None:
            run.before()
        record = Load(replace(run.plan, seconds=seconds or run.plan.seconds)).run()
        wrong = _wrong_sums(stage.address)
        wrong += [text for look in run.afterwards for text in look()]
    verdict = judge(record, {run.plan.limit: run.rules})
    found = records.read(record)
    verdict.violations += [text for check in run.checks for text in check(found)]
    verdict.violations += wrong
    verdict.missing += [text for need in run.needs for text in need(found)]
    verdict.figures |= run.figures
    excuse(verdict, found)
    return verdict


def _wrong_sums(address: str) -> list[str]:
    """Return where what is kept does not add up, in a store that keeps sums of it."""
    # Loaded when all calls are made: provider, load and judge share no code with what they judge.
    from chaos.limits.ours import ENVIRONMENT  # noqa: PLC0415
    from forebay.errors import StoreError  # noqa: PLC0415
    from forebay.stores.limit_address import open_limits  # noqa: PLC0415
    from forebay.testing.limits.case import problems_of_parts  # noqa: PLC0415

    store = open_limits(address, ENVIRONMENT)
    try:
        return [f"{name}: {text}" for name in store.names() for text in problems_of_parts(store, name)]
    except StoreError:
        return []  # the scenario left the store down
    finally:
        store.close()


def excuse(verdict: Verdict, found: Records) -> None:
    """What is promised of windows and cool-downs holds for calls that arrive in time: others show nothing."""
    slowest_s = slowest(found)
    verdict.figures["ms until a call had arrived, at most"] = round(1000 * slowest_s)
    if slowest_s > STALLED_S:
        late = [text for text in verdict.violations if text.startswith(("L2 ", "L3 "))]
        verdict.violations[:] = [text for text in verdict.violations if text not in late]
        verdict.missing += [f"a machine on which calls arrive in time, here {slowest_s:.3f} s: {text}" for text in late]


def slowest(found: Records) -> float:
    """How long it took a call to arrive, of those that nobody froze."""
    frozen = {mark.who for mark in found.marked("stop")}
    times = [call.arrived_at - call.sent_at for call in found.calls if call.sent_at and call.who not in frozen]
    return max(times, default=0.0)
