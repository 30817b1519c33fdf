"""The command that computes throughput: plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.options import Reading
from forebay.errors import BadInput
from forebay.ids import shown

if TYPE_CHECKING:
    from forebay.model.limit import Limit
    from forebay.rules.planning import Plan

_USUAL = Reading()


class Example(NamedTuple):
    """What is often said of a workload, and what is wrong with it."""

    title: str
    call_s: float
    said: str
    truth: str


EXAMPLES = (
    Example(
        "Small files, calls of 5 s",
        5.0,
        "The rate binds, and calls queue for the next minute.",
        "The rate binds, but there is no next minute: a window slides. Counters that start at 0 at each full minute "
        "let through 380 calls within seconds of it.",
    ),
    Example(
        "Large files, calls of 30 s",
        30.0,
        "150 in flight bind, at about 300 calls a minute, and the rate is rarely reached.",
        "300 calls a minute would break 190 per 60 s. The rate binds; in flight binds only for calls longer than the "
        "crossover.",
    ),
    Example(
        "Half small, half large: 17.5 s on average",
        17.5,
        "Both bounds work together, and the system adapts.",
        "One bound binds, decided by the mean call time alone. Below the crossover that is the rate, whatever the mix.",
    ),
)


def plan(
    *,
    call_time: Annotated[str | None, Parameter(help="How long a call takes: 30, 500ms, 2m.")] = None,
    in_flight: Annotated[
        str | None, Parameter(help="Calls at once, such as 400, or with other units: 400,5000:pages.")
    ] = None,
    window: Annotated[
        list[str] | None,
        Parameter(negative="", help="N/SECONDS or N/SECONDS:UNIT, such as 190/60; may be given again."),
    ] = None,
    preset: Annotated[str | None, Parameter(help="The bounds of a preset; those given here win.")] = None,
    units: Annotated[
        list[str] | None, Parameter(negative="", help="What a call takes, such as pages=15; may be given again.")
    ] = None,
    calls: Annotated[int | None, Parameter(help="Say how long so many calls take at least.")] = None,
    callers: Annotated[int | None, Parameter(help="How many calls you make at once, if that is fewer.")] = None,
    examples: Annotated[bool, Parameter(negative="", help="Three workloads, and what is often said of them.")] = False,
    common: Reading = _USUAL,
) -> None:
    """Arithmetic only: no store is asked. `forebay limits show` has what is measured."""
    from forebay.cli import reading
    from forebay.rules.planning import plan as work_out

    if examples:
        _examples(common)
        return
    if call_time is None:
        raise BadInput("How long a call takes is not given.", remedy="Give --call-time, such as 30, or see --examples.")
    limit = _limit(in_flight, window, preset)
    seconds = reading.duration("--call-time", call_time)
    made = work_out(limit, seconds, units=_units(units), calls=calls, callers=callers)
    if common.output != "table":
        output.write([_plain(made)], common.output, one=True)
    else:
        _show(made)


def _limit(in_flight: str | None, window: list[str] | None, preset: str | None) -> Limit:
    from forebay.limits import written
    from forebay.model.limit import Limit

    fields: dict[str, Any] = {}
    if preset is not None:
        from forebay.limits.presets import preset as find

        fields |= find(preset).values
    if in_flight is not None:
        fields["in_flight"] = written.in_flight("--in-flight", in_flight)
    if window is not None:
        fields["windows"] = written.windows(window)
    if fields.get("in_flight") is None and not fields.get("windows"):
        raise BadInput("No bound is given.", remedy="Give --in-flight, --window or --preset.")
    return Limit("plan", **fields)


def _units(given: list[str] | None) -> dict[str, int] | None:
    if given is None:
        return None
    found = {}
    for text in given:
        unit, _, count = text.partition("=")
        if not count.isascii() or not count.isdecimal():
            raise BadInput(f"--units {shown(text)} is not a number of units.", remedy="Write UNIT=N, such as pages=15.")
        found[unit.strip()] = int(count)
    return found


def _plain(made: Plan) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(made)


def _show(made: Plan) -> None:
    output.pairs(_pairs(made))
    output.line()
    rows = [(each.name, f"{each.per_minute:.1f}", f"{each.utilisation:.0%}") for each in made.bounds]
    output.table(("bound", "calls a minute", "used"), rows)


def _pairs(made: Plan) -> list[tuple[str, str]]:
    return [
        ("binds", made.binds),
        ("throughput", f"{made.per_minute:.1f} calls a minute"),
        ("in progress", f"{made.busy:.1f} calls on average: fewer callers than that do not reach it"),
        *(("crossover", _crossover(each.window, each.call_s)) for each in made.crossovers),
        ("raised", _raised(made)),
        ("total", _total(made)),
    ]


def _crossover(window: str, call_s: float) -> str:
    return f"{call_s:.1f} s: calls that take longer are bound by in_flight, shorter ones by {window}"


def _raised(made: Plan) -> str:
    if made.raised.per_minute is None:
        return f"nothing else is bounded: throughput grows with {made.binds}"
    gain = made.raised.per_minute - made.per_minute
    return (
        f"with {made.raised.needed} in place of {made.binds}, {made.raised.next_bound} binds, "
        f"at {made.raised.per_minute:.1f} calls a minute ({gain:+.1f})"
    )


def _total(made: Plan) -> str:
    from forebay.cli.cells import span

    if made.total is None:
        return ""
    least_s = made.total.least_s
    return f"{made.total.calls} calls take at least {least_s:.1f} s ({span(least_s)}), bound by {made.total.bound}"


def _examples(common: Reading) -> None:
    from forebay.model.limit import Limit, Window
    from forebay.rules.planning import plan as work_out

    limit = Limit("example", in_flight=150, windows=(Window(190, 60),))
    made = [(each, work_out(limit, each.call_s)) for each in EXAMPLES]
    if common.output != "table":
        output.write([each._asdict() | {"plan": _plain(found)} for each, found in made], common.output)
        return
    output.line("150 in flight, 190 calls per 60 s")
    for each, found in made:
        output.line()
        output.pairs([("workload", each.title), ("often said", each.said), ("true is", each.truth), *_pairs(found)])
