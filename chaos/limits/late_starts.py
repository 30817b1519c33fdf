"""Calls that start long after their grant, as they may in a limit without windows."""

from __future__ import annotations

from chaos.limits.cast import BEAT_S, SLACK_S, TRAIL_S, TRANSIT_S, Cast, Run, cast_run
from chaos.limits.checks import Bounded, When, answered, arrivals, reached
from chaos.limits.load import Act, Death, Refusal, Strike
from chaos.limits.rules import LATE_S

_AGE_S = 1.85
"""Of a grant whose call is just in time, also on a machine that is slow to wake a thread."""


def killed_after_late_starts(cast: Cast) -> Run:
    """Processes die as soon as they have sent a call that starts late; the provider works on it to its end.

    It does so for longer than their sessions live, so that nothing but the call's own time keeps its slot.
    """
    lease_s, beat_s, call_s = 0.9, 0.3, 2.0
    in_flight = 6
    # Those that die have threads; and those that live are enough to use what comes back.
    doomed = 1 if cast.short else 4
    held_s = LATE_S + TRANSIT_S + call_s
    deaths = [Death(who=f"w{2 * number}", at_s=held_s * number, late_s=_AGE_S) for number in range(doomed)]
    # A call of before may have to end first.
    seconds = deaths[-1].at_s + (call_s if doomed > 1 else 0.0) + _AGE_S + lease_s + held_s + 1.5
    return cast_run(
        cast,
        seconds=seconds,
        in_flight=in_flight,
        processes=2 * doomed + 2,
        sticky=True,
        work_s=call_s - TRANSIT_S,
        deaths=tuple(deaths),
        settings={"lease_s": lease_s, "heartbeat_s": beat_s, "call_timeout_s": call_s},
        rules={"least_kills": doomed},
        checks=(reached(in_flight, When("over", -1.5), 1.5),),
    )


def refused_late(cast: Cast) -> Run:
    """Callers dawdle, some for longer than a grant lasts. One is refused: who knows of it starts no old grant."""
    return cast_run(
        cast,
        seconds=cast.length(16.0, 7.5),
        in_flight=12,
        callers=8,
        work_s=0.3,
        refusals=tuple(Refusal(at_s=at_s, retry_after_s=3.0) for at_s in ((2.0,) if cast.short else (2.0, 10.0))),
        settings={"late_s": LATE_S + 0.6},
        rules={
            # Many of those who hold a slot have not begun their call.
            "least_peak": 3,
            "least_cooldowns": 1 if cast.short else 2,
            "knowing_trail_s": TRAIL_S,
            # A heartbeat brings the news, if nothing else does.
            "news_s": BEAT_S + 2 * SLACK_S,
        },
        needs=(answered(429, 1),),
    )


def in_hand(cast: Cast) -> Run:
    """Callers come so quickly that slots are granted ahead of them: a refusal and a lower bound reach these, too."""
    low, is_alone = 3, cast.store == "memory"
    # When the ramp is over: it ends as soon as it bounds nothing more.
    lowers = Act(at_s=7.3, name="lowers", do=lambda: cast.stage.configure(in_flight=low))
    return cast_run(
        cast,
        seconds=cast.length(14.0, 11.0),
        in_flight=24,
        work_s=0.002,
        refusals=(Refusal(at_s=1.0, retry_after_s=1.0),),
        strikes=() if is_alone else (Strike(at_s=0.7, what="kill"),),
        acts=() if is_alone else (lowers,),
        rules={
            "least_peak": low,
            "least_cooldowns": 1,
            "knowing_trail_s": TRAIL_S,
            "news_s": BEAT_S + 2 * SLACK_S,
        },
        checks=() if is_alone else (Bounded(since=When("lowers, done", LATE_S + TRANSIT_S), in_flight=low),),
        needs=(answered(429, 1), arrivals(When("go"), When("go", 1.0), 100)),
    )
