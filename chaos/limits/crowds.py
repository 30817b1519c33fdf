"""What hundreds of sessions may do to a limit: be killed at once, and come and go."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from chaos import journal
from chaos.limits.adapter import Settings
from chaos.limits.cast import CALL_S, HELD_S, LEASE_S, OURS, SLACK_S, TRAIL_S, W_EFF_S, W_S, Cast, Run, cast_run
from chaos.limits.load import Act, Strike
from chaos.limits.records import Records
from chaos.limits.steps import Steps

CROWD = "chaos.limits.many:Crowd"
COMERS = "chaos.limits.many:Comers"
_LEASE_S, _BEAT_S = 6.0, 2.0
_EVENTS = ("came", "gave up")
_VISIT_S, _PATIENCE_S = 0.5, 4.0
_GROWTH = 2048
"""How many bytes a record may have grown by: Redis keeps the form of a hash that was large once."""


def mass_kill(cast: Cast, *, forked: bool) -> Run:
    """Hundreds of sessions die at once: some held calls, the others stood in line before those who live.

    They are cleared away a few at a time, and no step takes longer for it.
    """
    # Three of four die.
    processes, sessions = (4, 15) if cast.short else (8, 20 if forked else 50)
    doomed = 3 * processes // 4
    # As many calls as those can make who live; in a database as many as it can serve, beside all who wait.
    in_flight = processes // 4 * sessions if cast.store == "redis" else 15
    at_s = cast.length(15.0, 4.0)
    back_s = _LEASE_S + HELD_S + SLACK_S + cast.length(2.0, 1.0)
    steps: list[Steps] = []
    figures: dict[str, int] = {}

    def stopped() -> Iterator[str]:
        for watch in steps:
            if wrong := watch.stop():
                yield f"cost: {wrong}"
            figures.update(watch.figures)

    def watched(_: Records) -> Iterator[str]:
        if not any(figures.values()):
            yield "a step that was watched"

    crowd: dict[str, Any] = {"callers": sessions, "tasks": True, "adapter": _adapter(cast, CROWD)}
    if forked:
        crowd = {"callers": 1, "forks": sessions}
    return cast_run(
        cast,
        seconds=at_s + back_s + cast.length(6.0, 2.5),
        in_flight=in_flight,
        processes=processes,
        sticky=True,
        work_s=CALL_S * 0.9,
        strikes=tuple(Strike(at_s=at_s, what="kill", who=f"w{number}") for number in range(doomed)),
        acts=(Act(at_s=at_s - 0.1, name="watches", do=lambda: steps.append(cast.stage.watch_steps())),),
        settings={
            "lease_s": _LEASE_S,
            "heartbeat_s": _BEAT_S,
            "sessions": sessions,
            "on_disconnect": "continues",
            # Those whose first request finds the store busy with the others are told, and come again.
            "errors": str(cast.folder / "errors.jsonl"),
        },
        rules={"back_within_s": back_s, "least_kills": doomed},
        afterwards=(stopped,),
        needs=(watched,),
        figures=figures,
        mixed=False,
        **crowd,
    )


def comers(cast: Cast) -> Run:
    """Sessions that come, wait, call and leave, or give up, or are killed; nothing of them stays."""
    came = cast.folder / "came.jsonl"
    least, each = (60, 10) if cast.short else (1000, 200)
    seconds = cast.length(75.0, 6.0)
    settings: Settings = {"came": str(came), "windows": [[1_000_000, W_S]]}
    first: dict[str, int] = {}
    figures: dict[str, int] = {}

    def begin() -> None:
        _visit(run)
        first.update(cast.stage.contents())

    def cleared() -> Iterator[str]:
        """By those who come afterwards, once all is over that the dead held; they may be granted one call more."""
        for _ in range(2):
            time.sleep(max(LEASE_S + CALL_S + TRAIL_S, W_EFF_S) + SLACK_S)
            if not _visit(run):
                yield "L4 somebody who came afterwards got no slot"
        last = cast.stage.contents()
        figures.update({f"{part} afterwards, {first[part]} before": count for part, count in last.items()})
        for part, count in last.items():
            most = first[part] + (_GROWTH if part == "bytes" else 0)
            if count > most:
                yield f"L4 {count} {part} are left of sessions that came and went; before them it was {first[part]}"

    def enough(_: Records) -> Iterator[str]:
        counts = Counter(record["e"] for record in journal.read(came))
        figures.update({f"sessions that {event}": count for event, count in counts.items()})
        wanted = {"came or gave up": (counts.total(), least)} | {event: (counts[event], each) for event in _EVENTS}
        yield from (
            f"sessions that {what}: {count} of {most}" for what, (count, most) in wanted.items() if count < most
        )

    run = cast_run(
        cast,
        seconds=seconds,
        in_flight=6,
        callers=8,
        work_s=0.05,
        strikes=(Strike(at_s=seconds / 2, what="kill"),),
        settings=settings,
        # They come one by one: on a busy machine the limit is not always full.
        rules={"least_kills": 1, "least_peak": 3},
        before=begin,
        afterwards=(cleared,),
        needs=(enough,),
        figures=figures,
        adapter=_adapter(cast, COMERS),
    )
    return run


def _adapter(cast: Cast, ours: str) -> str:
    return ours if cast.adapter == OURS else cast.adapter


def _visit(run: Run) -> bool:
    """Be a session of this process that holds a slot, for as long as it takes to clear away what is due."""
    from chaos.limits.ours import Ours  # noqa: PLC0415 - the load itself shares no code with the judged
    from forebay.errors import Busy  # noqa: PLC0415 - same

    visitor = Ours(run.plan.address, run.plan.settings | {"units": 1})
    visitor.wait_s = _PATIENCE_S
    try:
        with visitor.slot():
            time.sleep(_VISIT_S)
    except Busy:
        return False
    else:
        return True
    finally:
        visitor.close()
