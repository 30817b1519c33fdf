"""The faults that the limiter is shown to hold under: for each the load, what befalls it, and what was promised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.limits.cast import (
    ALL,
    HELD_S,
    LEASE_S,
    LOOSE,
    REPLICATED,
    SERVED,
    SLACK_S,
    TRAIL_S,
    W_EFF_S,
    W_S,
    Build,
    Cast,
    Run,
    Scenario,
    cast_run,
)
from chaos.limits.checks import (
    Bounded,
    When,
    answered,
    arrivals,
    at_most_answered,
    marked,
    paused_for,
    ramped,
    reached,
    resumed,
    windows_seen,
)
from chaos.limits.crowds import comers, mass_kill
from chaos.limits.late_starts import in_hand, killed_after_late_starts, refused_late
from chaos.limits.load import Act, Refusal, Strike
from chaos.limits.outages import (
    crashed,
    evicted,
    failed_over,
    flushed,
    gone_fail,
    gone_share,
    gone_wait,
    hung,
    restart_empty,
    rolled_back,
    rolled_back_a_little,
    slow,
)
from chaos.limits.rules import Window


def clean(cast: Cast, **plan: Any) -> Run:  # noqa: ANN401 - as Plan has them
    """Nothing befalls it: the bounds hold, and what they leave is used."""
    window = Window(30, W_S)
    crowd: dict[str, Any] = {} if cast.store == "memory" or cast.short else {"processes": 8}
    windows = 2 if cast.short else 5
    return cast_run(
        cast,
        seconds=windows * W_EFF_S / 0.99 + 0.9,
        window=window,
        # A busy machine is late; that costs use, and is no reason to go over.
        rules={"least_rate": 0.95 if cast.short else 0.99},
        needs=(windows_seen(window, TRAIL_S, windows),),
        **(crowd | {"work_s": 0.05} | plan),
    )


def kill(cast: Cast, *, sticky: bool) -> Run:
    """What a killed process held comes back; a hand-off that it could not answer, a call later."""
    back_s = LEASE_S + SLACK_S
    if sticky:
        back_s += HELD_S
    kills = tuple(Strike(at_s=at_s, what="kill") for at_s in ((1.0,) if cast.short else (2.0, 8.0)))
    return cast_run(
        cast,
        seconds=cast.length(18.0, 1.0 + back_s + 1.6),
        in_flight=6,
        callers=6,
        sticky=sticky,
        strikes=kills,
        settings={"on_disconnect": "continues" if sticky else "stops"},
        rules={"back_within_s": back_s, "least_kills": len(kills)},
    )


def freeze(cast: Cast) -> Run:
    """Frozen past its lease, a process loses its slots, and finds that out before it calls again."""
    for_s = LEASE_S + cast.length(1.0, 0.3)
    stops = tuple(Strike(at_s=at_s, what="stop", for_s=for_s) for at_s in ((1.0,) if cast.short else (1.0, 6.0)))
    return cast_run(
        cast,
        seconds=cast.length(14.0, 6.0),
        window=Window(30, W_S),
        strikes=stops,
        # Longer than anybody has to wait for a window: who takes a thawed process for a store that forgot is found out.
        settings={"call_timeout_s": 2 * W_S},
        rules={"excess_allowed": len(stops), "least_stops": len(stops)},
        checks=(resumed(When("cont"), W_EFF_S + 2 * SLACK_S),),
        needs=(marked("cont"),),
    )


def clock(cast: Cast, *, by_s: float) -> Run:
    return cast_run(
        cast,
        seconds=9.0,
        window=Window(30, W_S),
        acts=(Act(at_s=2.8, name="jumps", do=lambda: cast.stage.shift_clock(by_s)),),
        settings={"clock": cast.stage.clock},
        # A jump that is taken for what it is costs nothing: the next window opens as it would have.
        checks=(resumed(When("jumps, done"), W_EFF_S + 2 * SLACK_S),),
        needs=(marked("jumps, done"), arrivals(When("jumps, done"), When("over"), 60)),
    )


def lowered(cast: Cast) -> Run:
    """Whoever runs goes on; nobody starts above the new bounds."""
    at_s = cast.length(3.0, 1.2)
    low = Window(10, W_S)
    return cast_run(
        cast,
        seconds=at_s + cast.length(9.0, W_EFF_S + 2.3),
        window=Window(30, W_S),
        work_s=0.3,
        acts=(
            Act(
                at_s=at_s,
                name="lowers",
                do=lambda: cast.stage.configure(in_flight=3, windows=[[low.n, low.window_s]]),
            ),
        ),
        checks=(
            Bounded(since=When("lowers, done", 0.3 + TRAIL_S), in_flight=3),
            Bounded(since=When("lowers, done", W_EFF_S), window=low),
            at_most_answered(499, 0),
        ),
        needs=(arrivals(When("lowers, done", W_EFF_S), When("over"), 3),),
    )


def raised(cast: Cast) -> Run:
    return cast_run(
        cast,
        seconds=6.0,
        in_flight=8,
        settings={"in_flight": 2},
        work_s=0.2,
        acts=(Act(at_s=3.0, name="raises", do=lambda: cast.stage.configure(in_flight=8)),),
        checks=(Bounded(until=When("raises"), in_flight=2), reached(8, When("raises, done"), 1.0)),
        needs=(marked("raises, done"),),
    )


def refused(cast: Cast) -> Run:
    """One caller is told "not now", and all obey; then one probe, two, four."""
    return cast_run(
        cast,
        seconds=cast.length(10.0, 5.8),
        refusals=(Refusal(at_s=1.0, retry_after_s=cast.length(2.0, 1.0)),),
        settings=LOOSE,
        rules={"least_cooldowns": 1},
        checks=(reached(8, When("over", -1.0), 1.0),) if not cast.short else (),
        needs=(answered(429, 1),),
    )


def refused_at_once(cast: Cast) -> Run:
    """Many hear the same refusal: the pause is that of one."""
    step_s = 3.0
    return cast_run(
        cast,
        seconds=12.0,
        window=Window(8, W_S),
        refusals=(Refusal(at_s=1.5, retry_after_s=step_s, calls=None, for_s=1.2, worked=True),),
        work_s=0.3,
        settings={"without_hint": True, "cooldown_s": [step_s, 4 * step_s]},
        rules={"least_cooldowns": 1},
        checks=(paused_for(429, 4, step_s - TRAIL_S, 1.2 * step_s + TRAIL_S + SLACK_S),),
        needs=(answered(429, 4),),
    )


def broken(cast: Cast) -> Run:
    """Failures in a row pause the limit as a refusal does."""
    step_s, after, in_flight = 1.5, 5, 8
    # What succeeds meanwhile begins the row anew; at last it is whole, and those in progress still come to grief.
    most = (after - 1) * in_flight + after + in_flight
    return cast_run(
        cast,
        seconds=8.0,
        in_flight=in_flight,
        refusals=(Refusal(at_s=1.5, status=503, calls=None, for_s=0.8),),
        settings=LOOSE | {"breaker_after": after, "cooldown_s": [step_s, 4 * step_s]},
        checks=(
            at_most_answered(503, most),
            paused_for(503, after, step_s - TRAIL_S, step_s + TRAIL_S + SLACK_S),
            ramped(503, after, in_flight, TRAIL_S),
        ),
        needs=(answered(503, after),),
    )


def weighted(cast: Cast) -> Run:
    """A window that counts pages, and calls of several."""
    window = Window(60, W_S)
    return cast_run(
        cast,
        seconds=3 * W_EFF_S + 1.5,
        window=window,
        unit="pages",
        sizes=(1, 5, 7),
        work_s=0.05,
        needs=(windows_seen(window, TRAIL_S, 2),),
    )


def weighted_in_flight(cast: Cast) -> Run:
    """Calls of several pages, and a bound of the pages that are in progress at once; the busiest process is killed."""
    back_s = LEASE_S + SLACK_S + HELD_S
    return cast_run(
        cast,
        seconds=cast.length(12.0, 2.0 + back_s + 2.0),
        unit="pages",
        sizes=(1, 5, 7),
        sticky=True,
        work_s=0.2,
        strikes=(Strike(at_s=2.0, what="kill"),),
        settings={"in_flight": {"calls": 8, "pages": 20}},
        rules={"in_flight_units": 20, "least_peak": 3},
        checks=(resumed(When("over", -2.0), 2.0),),
    )


def late(cast: Cast) -> Run:
    """Callers that dawdle between their slot and their call, and ask once more before it."""
    return cast_run(
        cast,
        seconds=cast.length(4 * W_EFF_S, 2 * W_EFF_S + 1.4),
        in_flight=None,
        window=Window(20, W_S),
        settings={"late_s": 1.2, "call_timeout_s": 2.0},
        work_s=0.02,
    )


def utilisation(cast: Cast, *, work_s: float, least: float, tasks: bool) -> Run:
    return cast_run(
        cast,
        seconds=8.0,
        in_flight=5,
        processes=3,
        callers=8,
        mixed=False,
        tasks=tasks,
        work_s=work_s,
        rules={"ideal": 5.0, "least_use": least},
    )


def _with(build: Callable[..., Run], **options: Any) -> Build:  # noqa: ANN401 - the build's own
    return lambda cast: build(cast, **options)


SCENARIOS = {
    "clean": Scenario(build=_with(clean, mixed=True), stores=ALL),
    "clean-threads": Scenario(build=_with(clean, mixed=False)),
    "clean-tasks": Scenario(build=_with(clean, mixed=False, tasks=True)),
    "kill": Scenario(build=_with(kill, sticky=False)),
    "kill-sticky": Scenario(build=_with(kill, sticky=True)),
    "freeze": Scenario(build=freeze),
    "restart-empty": Scenario(build=restart_empty),
    "rolled-back": Scenario(build=rolled_back, stores=SERVED),
    "rolled-back-a-little": Scenario(build=rolled_back_a_little, stores=SERVED),
    "hung": Scenario(build=hung, stores=SERVED),
    "crashed": Scenario(build=crashed, stores=("postgres",)),
    "failed-over": Scenario(build=_with(failed_over, behind_s=0.0), stores=REPLICATED),
    "failed-over-behind": Scenario(build=_with(failed_over, behind_s=2.0), stores=REPLICATED),
    "slow-store": Scenario(build=slow),
    "slow-store-window": Scenario(build=_with(slow, window=Window(30, W_S))),
    "evicted": Scenario(build=evicted, stores=("redis",)),
    "flushed": Scenario(build=flushed, stores=("redis",)),
    "clock-forward": Scenario(build=_with(clock, by_s=3600.0), stores=ALL),
    "clock-back": Scenario(build=_with(clock, by_s=-3600.0), stores=ALL),
    "lowered": Scenario(build=lowered),
    "raised": Scenario(build=raised),
    "refused": Scenario(build=refused, stores=ALL),
    "refused-at-once": Scenario(build=refused_at_once, stores=ALL),
    "broken": Scenario(build=broken, stores=ALL),
    "refused-late": Scenario(build=refused_late, stores=ALL),
    "late-start-killed": Scenario(build=killed_after_late_starts),
    "in-hand": Scenario(build=in_hand, stores=ALL),
    "mass-kill": Scenario(build=_with(mass_kill, forked=False)),
    "mass-kill-forked": Scenario(build=_with(mass_kill, forked=True), stores=("redis",)),
    "comers": Scenario(build=comers),
    "gone-wait": Scenario(build=gone_wait, durable=True),
    "gone-fail": Scenario(build=gone_fail, durable=True),
    "gone-share": Scenario(build=gone_share, durable=True),
    "weighted": Scenario(build=weighted, stores=ALL),
    "weighted-in-flight": Scenario(build=weighted_in_flight),
    "late": Scenario(build=late, stores=ALL),
    "use-200ms-threads": Scenario(build=_with(utilisation, work_s=0.2, least=0.97, tasks=False)),
    "use-200ms-tasks": Scenario(build=_with(utilisation, work_s=0.2, least=0.97, tasks=True)),
    "use-20ms-threads": Scenario(build=_with(utilisation, work_s=0.02, least=0.85, tasks=False)),
    "use-20ms-tasks": Scenario(build=_with(utilisation, work_s=0.02, least=0.85, tasks=True)),
}
