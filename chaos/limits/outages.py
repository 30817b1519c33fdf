"""What may befall the server that a limiter's store is on: killed, emptied, rolled back, hung, away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from chaos import journal
from chaos.limits.adapter import Settings
from chaos.limits.cast import (
    CALL_S,
    HELD_S,
    HOLD_S,
    LEASE_S,
    TRAIL_S,
    W_EFF_S,
    W_S,
    Cast,
    Run,
    cast_run,
)
from chaos.limits.checks import (
    END,
    Bounded,
    Check,
    When,
    arrivals,
    busy,
    marked,
    reached,
    resumed,
    told,
)
from chaos.limits.load import Act
from chaos.limits.pressure import Pressure
from chaos.limits.records import Records
from chaos.limits.rules import Window
from chaos.limits.stage_redis import KEY


def restart_empty(cast: Cast) -> Run:
    """A store that comes back with nothing: whoever remembers makes it wait until that cannot matter."""
    at_s = cast.length(3.0, 1.2)
    since = When("forgets, done", HOLD_S)
    return cast_run(
        cast,
        seconds=at_s + HOLD_S + cast.length(6.0, W_EFF_S),
        window=Window(30, W_S),
        acts=(Act(at_s=at_s, name="forgets", do=cast.stage.forget),),
        checks=(resumed(since, W_EFF_S),),
        needs=(marked("forgets, done"),),
    )


def crashed(cast: Cast) -> Run:
    """A server whose last commits were not on the disk yet: it comes back as it was a while ago."""
    # Just when a window has been filled once more: who does not remember fills it twice.
    at_s = cast.length(2 * W_EFF_S, W_EFF_S) + 0.3
    return cast_run(
        cast,
        seconds=at_s + HOLD_S + 2.0 + cast.length(4.0, 1.0),
        window=Window(30, W_S),
        acts=(Act(at_s=at_s, name="crashes", do=cast.postgres.crash),),
        checks=(resumed(When("crashes, done", HOLD_S), W_EFF_S + 2.0),),
        needs=(marked("crashes, done"),),
    )


def rolled_back(cast: Cast) -> Run:
    return cast_run(
        cast,
        seconds=12.0,
        window=Window(30, W_S),
        acts=(
            Act(at_s=1.0, name="is kept", do=cast.server.keep),
            Act(at_s=3.4, name="rolls back", do=cast.server.roll_back),
        ),
        checks=(resumed(When("rolls back, done", HOLD_S), W_EFF_S),),
        needs=(marked("rolls back, done"),),
    )


def rolled_back_a_little(cast: Cast) -> Run:
    """By a step or two, again and again: what was granted in them is known to nobody but those who have it."""
    instants = [1.0 + 2.2 * turn for turn in range(5)]
    acts = [Act(at_s=at_s, name="is kept", do=cast.server.keep) for at_s in instants]
    acts += [Act(at_s=at_s, name="rolls back", do=cast.server.roll_back) for at_s in instants]
    return cast_run(
        cast,
        seconds=instants[-1] + HELD_S + 2.0,
        acts=tuple(acts),
        checks=(reached(8, When("rolls back, done", HELD_S), 1.5),),
        needs=(marked("rolls back, done"),),
    )


def failed_over(cast: Cast, *, behind_s: float) -> Run:
    """The primary dies, and a replica takes over that lacks what was written in the last seconds.

    Just when a window has been filled once more: who does not remember fills it twice. The window is longer than it
    takes to fail over, or else nothing that was lost could matter.
    """
    window = Window(30, 8.0)
    wide_s = window.window_s + TRAIL_S
    at_s = wide_s + 1.0
    acts = [Act(at_s=at_s, name="fails over", do=cast.replicated.fail_over)]
    if behind_s:
        acts.insert(0, Act(at_s=at_s - behind_s, name="falls behind", do=cast.replicated.fall_behind))
    taken_s, late_s = 4.0, 4.0
    return cast_run(
        cast,
        seconds=at_s + taken_s + wide_s + late_s,
        window=window,
        acts=tuple(acts),
        checks=(resumed(When("fails over, done"), wide_s + late_s),),
        needs=(marked("fails over, done"),),
    )


def hung(cast: Cast) -> Run:
    """A server that takes requests and answers none, and then all of them."""
    for_s = cast.length(10.0, 4.0)
    return cast_run(
        cast,
        seconds=2.0 + for_s + 6.0,
        window=Window(30, W_S),
        acts=(
            Act(at_s=2.0, name="hangs", do=cast.server.hang),
            Act(at_s=2.0 + for_s, name="goes on", do=cast.server.go_on),
        ),
        checks=(resumed(When("goes on, done"), 5.0),),
        needs=(marked("goes on, done"),),
    )


def slow(cast: Cast, *, window: Window | None = None) -> Run:
    """A store that takes 0.5 to 3 s for each answer: calls continue, nobody goes over, and then all is as before.

    With a window that counts, they need not continue: grants are too old when they arrive.
    """
    at_s, for_s, rest_s = cast.length(3.0, 1.5), cast.length(60.0, 6.0), cast.length(8.0, 4.5)
    slowly = (When("is slow, done", 3.0), When("is quick again"))
    quickly = (When("is quick again, done", 2.5), END)
    checks: tuple[Check, ...] = (resumed(When("is quick again, done"), 2.5 + (W_EFF_S if window else 0.0)),)
    needs: tuple[Check, ...] = (marked("is slow, done", "is quick again, done"),)
    if window is None:
        checks += (reached(8, When("is quick again, done"), 2.5), busy(5.0, *quickly))
        needs += (busy(5.0, When("go", 0.3), When("is slow")),)
        # Each call needs a few answers, and those that take more than 2 s are given up. PostgreSQL cuts off whoever
        # holds the record for more than a second.
        checks += (busy(0.04, *slowly),) if cast.store != "postgres" else ()
    return cast_run(
        cast,
        seconds=at_s + for_s + rest_s,
        window=window,
        address=cast.stage.slow_address,
        work_s=0.2,
        acts=(
            Act(at_s=at_s, name="is slow", do=lambda: cast.stage.slow_down((0.5, 3.0))),
            Act(at_s=at_s + for_s, name="is quick again", do=cast.stage.speed_up),
        ),
        settings={"lease_s": 6.0, "heartbeat_s": 1.5},
        checks=checks,
        needs=needs,
    )


def evicted(cast: Cast) -> Run:
    """A server that is full drops keys of the limit, now one and now another, as it does with keys of others."""
    dropped = cast.folder / "evicted.jsonl"
    parts = ("",) if cast.short else ("", ":windows", ":sessions", ":calls", ":ends", ":line", "")
    apart_s = HOLD_S + W_EFF_S + 1.5
    pressure = Pressure(cast.redis.address, KEY, dropped)
    instants = [1.5 + apart_s * turn for turn in range(len(parts))]
    figures: dict[str, int] = {}

    def lost(_: Records) -> Iterator[str]:
        for record in journal.read(dropped):
            part = record["key"].removeprefix(KEY) or ":header"
            figures[f"evicted{part.replace(':', ' ')}"] = figures.get(f"evicted{part.replace(':', ' ')}", 0) + 1
        for part in parts:
            if not figures.get(f"evicted{(part or ':header').replace(':', ' ')}"):
                yield f"the server evicted {part or 'the header'}"

    return cast_run(
        cast,
        seconds=instants[-1] + HOLD_S + W_EFF_S + 3.0,
        window=Window(30, W_S),
        acts=tuple(
            Act(at_s=at_s, name="is full", do=partial(pressure.press, part))
            for at_s, part in zip(instants, parts, strict=True)
        ),
        checks=(resumed(When("is full, done", HOLD_S), W_EFF_S + 1.0),),
        needs=(marked("is full, done"), lost),
        figures=figures,
    )


def flushed(cast: Cast) -> Run:
    flushes = tuple(Act(at_s=at_s, name="flushes", do=cast.redis.flush_scripts) for at_s in (1.0, 2.0, 3.0, 4.0))
    return cast_run(cast, seconds=6.0, acts=flushes, checks=(reached(8, When("flushes, done"), 1.0),))


def gone_wait(cast: Cast) -> Run:
    return _gone(cast, "wait", for_s=5.0)


def gone_fail(cast: Cast) -> Run:
    errors = cast.folder / "errors.jsonl"
    run = _gone(cast, "fail", for_s=5.0, settings={"errors": str(errors)})
    return replace(run, needs=(*run.needs, told(errors, "StoreUnreachable")))


def _gone(cast: Cast, policy: str, *, for_s: float, settings: Settings | None = None) -> Run:
    return cast_run(
        cast,
        seconds=2.0 + for_s + 7.0,
        window=Window(30, W_S),
        acts=_away(cast, for_s),
        settings={"when_store_down": policy} | (settings or {}),
        checks=(resumed(When("comes back, done"), 5.0),),
        needs=(marked("comes back, done"),),
    )


def _away(cast: Cast, for_s: float) -> tuple[Act, Act]:
    return (
        Act(at_s=2.0, name="goes away", do=cast.stage.go_away),
        Act(at_s=2.0 + for_s, name="comes back", do=cast.stage.come_back),
    )


def gone_share(cast: Cast) -> Run:
    """All processes are cut off: each continues with its part.

    The limit is at most doubled, when the store goes or comes back, until the calls of that time have ended.
    """
    in_flight, window, processes = 7, Window(31, W_S), 3
    # SQLite says that it is busy after two seconds only.
    for_s = 10.0 if cast.store == "sqlite" else 6.0
    away, back = When("goes away, done", CALL_S + TRAIL_S), When("comes back")
    healed_s = 3.0
    return cast_run(
        cast,
        seconds=2.0 + for_s + healed_s + 5.0,
        in_flight=in_flight,
        processes=processes,
        acts=_away(cast, for_s),
        settings={"when_store_down": "share", "windows": [[window.n, window.window_s]]},
        rules={"excess_allowed": in_flight},
        checks=(
            Bounded(until=When("goes away"), in_flight=in_flight, window=window),
            Bounded(since=away, until=back, in_flight=in_flight // processes * processes),
            Bounded(since=away, until=back, in_flight=in_flight // processes, each=True),
            Bounded(
                since=When("goes away, done", W_EFF_S),
                until=back,
                window=replace(window, n=window.n // processes),
                each=True,
            ),
            Bounded(window=replace(window, n=2 * window.n)),
            Bounded(since=When("comes back, done", healed_s + W_EFF_S), in_flight=in_flight, window=window),
            resumed(When("comes back, done", 1.0), W_EFF_S + 2.0),
        ),
        needs=(
            arrivals(When("goes away, done", LEASE_S + 0.5), back, 3 * processes),
            arrivals(When("comes back, done", healed_s), When("over"), window.n),
        ),
    )
