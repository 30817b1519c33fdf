"""The command that stands in for the paid APIs: simulate."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.options import Reading
from forebay.errors import BadInput, MissingExtra
from forebay.ids import shown

if TYPE_CHECKING:
    from forebay.simulate.settings import Settings

_USUAL = Reading()
_MAX_PORT = 65_535
_PORT = 8421


def simulate(
    *,
    port: Annotated[int, Parameter(help="Its port on 127.0.0.1; 0 takes a free one.")] = _PORT,
    scenario: Annotated[str | None, Parameter(name="--scenario", help="A TOML file of settings; options win.")] = None,
    quota: Annotated[
        list[str] | None,
        Parameter(negative="", help="API=IN_FLIGHT,N/SECONDS[:UNIT][@fixed],N/month[:UNIT]; may be given again."),
    ] = None,
    latency: Annotated[
        list[str] | None,
        Parameter(negative="", help="[ROUTE=]0.8, 0.2..1.5 or lognormal:MEDIAN,SIGMA; may be given again."),
    ] = None,
    fault: Annotated[
        list[str] | None,
        Parameter(negative="", help="ROUTE[@SHARE][#CALLS]=FAULT, such as docai@0.05=429; may be given again."),
    ] = None,
    scale: Annotated[float | None, Parameter(help="Every latency is multiplied by it.")] = None,
    sticky: Annotated[
        bool, Parameter(negative="", help="Go on working for a client that has gone, as providers do.")
    ] = False,
    random: Annotated[int | None, Parameter(help="Seed of the random numbers (default: 1).")] = None,
    common: Reading = _USUAL,
) -> None:
    """Until Ctrl-C or SIGTERM; then it prints its verdict. No store is used, and nothing leaves this machine."""
    if not 0 <= port <= _MAX_PORT:
        raise BadInput(f"port is {shown(port)}.", remedy=f"Give a whole number from 0 to {_MAX_PORT}.")
    require()
    from forebay.simulate.addresses import addresses, environment
    from forebay.simulate.server import HOST, Simulator, bound, serve
    from forebay.simulate.verdict import verdict

    options = {"scale": scale, "sticky": sticky or None, "random": random}
    settings = _settings(scenario, quota, latency, fault, options)
    simulator = Simulator(settings)
    with bound(port) as listener:
        base = f"http://{HOST}:{listener.getsockname()[1]}"
        if common.output == "table":
            output.pairs([("listens", base), *((name, at) for name, at in addresses(base).items() if at != base)])
            output.line()
            for name, value in environment(base).items():
                output.line(f"export {name}={value}")
        else:
            found = {"base": base, "addresses": addresses(base), "environment": environment(base)}
            output.write([found], "ndjson", one=True)
        sys.stdout.flush()
        serve(simulator, listener)
    state = simulator.state
    made = verdict(state.ledger.calls(), state.settings, state.clock)
    if common.output != "table":
        output.write([made], common.output, one=True)
    else:
        output.line()
        _show(made)


def require() -> None:
    try:
        import eld  # noqa: F401 - whether it is there
        import pikepdf  # noqa: F401 - same
        import pypdfium2  # noqa: F401 - same
        import uvicorn  # noqa: F401 - same
    except ImportError as error:
        raise MissingExtra(
            f"The simulator needs the package {error.name}.", remedy="Run: pip install 'forebay[simulate]'"
        ) from None


def _settings(
    scenario: str | None,
    quota: list[str] | None,
    latency: list[str] | None,
    fault: list[str] | None,
    options: dict[str, Any],
) -> Settings:
    from pathlib import Path

    from forebay.simulate import settings, spelled

    found = settings.Settings()
    if scenario is not None:
        found = settings.changed(found, settings.read(Path(scenario)), where=scenario)
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if quota:
        given["quotas"] = spelled.quotas(quota)
    if latency:
        given["latency"] = spelled.latencies(latency)
    if fault:
        given["faults"] = [*(each.model_dump() for each in found.faults), *spelled.faults(fault)]
    return settings.changed(found, given, where="the options")


def _show(made: dict[str, Any]) -> None:
    output.pairs(
        [
            ("calls", str(made["calls"])),
            ("429s", str(made["refused_429"])),
            ("most at once", str(made["peak_in_flight"])),
            ("chunks", f"{made['chunks']}, of one at most {made['most_calls_of_a_chunk']} calls"),
            ("repeated", f"{made['repeated_after_success']} calls after an answer"),
            ("money", f"${made['money']:.4f}"),
        ]
    )
    if made["quotas"]:
        output.line()
        output.table(("quota", "bound", "limit", "seen", "within"), _bounds(made["quotas"]))


def _bounds(quotas: dict[str, Any]) -> list[tuple[str, str, str, str, str]]:
    rows = []
    for name, quota in quotas.items():
        found = []
        if "in_flight" in quota:
            found.append(("in flight", quota["in_flight"]["limit"], quota["in_flight"]["peak"]))
        for window in quota["windows"]:
            edge = "any" if window["edge"] == "sliding" else "each"
            found.append((f"{window['unit']} in {edge} {window['per_s']:g} s", window["limit"], window["worst"]))
        if "month" in quota:
            found.append((f"{quota['month']['unit']} a month", quota["month"]["limit"], quota["month"]["used"]))
        rows += [
            (name, bound, str(limit), str(seen), "ok" if seen <= limit else "fail") for bound, limit, seen in found
        ]
    return rows
