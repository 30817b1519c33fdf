"""The command: a load on a limiter, and what the provider saw of it, judged."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.checker import OK, Verdict
from chaos.limits.adapter import Settings
from chaos.limits.judge import judge
from chaos.limits.lines import serving
from chaos.limits.load import Load, Plan, Refusal, Strike
from chaos.limits.rules import Rules, Window, trail_of
from chaos.limits.staging import STORES

LONGEST_S = 600.0
MOST_CALLERS = 512


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--scenario", help="one by name, or all: the faults that the limiter must hold under; a wrong name lists them")
    add(
        "--store",
        choices=STORES,
        help="of the scenario; without one all that can suffer it",
    )
    add("--short", action="store_true", help="the scenario's short form")
    add("--adapter", help="module:factory, such as chaos.limits.controls:CountThenAdd; of a scenario: another limiter")
    add("--address", default="", help="what the factory gets; 'valkey' or 'coordinator' starts one for the run")
    add("--set", type=_setting, action="append", default=[], metavar="NAME=JSON", help="more settings for the factory")
    add("--processes", type=int, default=4)
    add("--callers", type=int, default=4, help="in each process")
    add("--tasks", action="store_true", help="callers are asyncio tasks, not threads")
    add("--seconds", type=float, default=10.0)
    add("--work", type=float, default=0.1, metavar="S", help="how long the provider works on a call")
    add("--units", type=int, default=1, help="of each call")
    add("--sticky", action="store_true", help="the provider works on for a client that died")
    add("--in-flight", type=int)
    add("--window", type=Window.of, action="append", default=[], metavar="N/S", help="20/2: 20 units in any 2 s")
    add("--kill", type=float, action="append", default=[], metavar="AT", help="kill -9 the busiest process")
    add("--stop", type=_pair, action="append", default=[], metavar="AT:S", help="freeze the busiest process for S")
    add("--refuse", type=_pair, action="append", default=[], metavar="AT:S", help="a 429 with Retry-After S")
    add("--refuse-calls", type=int, default=1, metavar="K", help="so many calls get it")
    add("--refuse-for", type=float, metavar="S", help="all calls of so many seconds get it")
    add("--fail", type=_pair, action="append", default=[], metavar="AT:S", help="answer with 503 for S")
    add("--start-within", type=float, default=0.25, metavar="S", help="of the limiter: a call may arrive so late")
    add("--transit", type=float, default=0.05, metavar="S", help="of the limiter: and so much later")
    add("--call-timeout", type=float, metavar="S", help="of the limiter (default: twice the work and half a second)")
    add("--ramp", choices=["in_flight", "arrivals"], default="in_flight", help="what doubles after a cool-down")
    add("--back-within", type=float, metavar="S", help="how soon the capacity of a killed process must be back")
    add("--least-use", type=float, metavar="SHARE", help="of what the load could keep in progress")
    add("--least-rate", type=float, metavar="SHARE", help="of the rate that is enforced")
    add("--folder", type=Path, help="keep the provider's record here")


def _pair(text: str) -> tuple[float, float]:
    at, _, for_s = text.partition(":")
    return float(at), float(for_s)


def _setting(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    return name, json.loads(value)


def run(options: argparse.Namespace) -> int:
    if options.scenario:
        from chaos.limits import playing  # noqa: PLC0415 - needs the tests' servers, which only a checkout has

        return playing.run(options)
    if options.adapter is None:
        sys.exit("nothing to judge: name a --scenario, or an --adapter and its load.")
    if options.in_flight is None and not options.window:
        sys.exit("nothing to judge: name --in-flight, --window, or both.")
    if options.seconds > LONGEST_S or options.processes * options.callers > MOST_CALLERS:
        sys.exit(f"too much for one machine: at most {LONGEST_S:g} s and {MOST_CALLERS} callers.")
    if options.back_within and (options.processes - len(options.kill)) * options.callers < (options.in_flight or 0):
        sys.exit(
            "too few callers would be left to use what a killed process gives back: raise --processes or --callers."
        )
    root = options.folder or Path(tempfile.mkdtemp(prefix="forebay-chaos-"))
    if (root / "run").exists():
        sys.exit(f"{root / 'run'} is there already: name another --folder, or remove it.")
    verdict = judged(options, root / "run")
    print(verdict.text(" ".join(["./dev chaos", *sys.argv[1:]])))
    if options.folder is None and verdict.exit_code == OK:
        shutil.rmtree(root)
    else:
        print(f"kept: {root / 'run'}")
    return verdict.exit_code


def judged(options: argparse.Namespace, folder: Path) -> Verdict:
    """Run the load, and leave what the provider wrote down in the folder."""
    settings = settings_of(options)
    with address_of(options.address, settings) as address:
        plan = plan_of(options, folder, address, settings)
        record = Load(plan).run()
    return judge(record, {plan.limit: rules_of(options)})


def settings_of(options: argparse.Namespace) -> Settings:
    """What every factory gets, however little of it it needs."""
    return {
        "limit": "chaos",
        "prefix": f"chaos-{uuid.uuid4().hex[:8]}:",
        "in_flight": options.in_flight,
        "windows": [[window.n, window.window_s] for window in options.window],
        "units": options.units,
        "start_within_s": options.start_within,
        "transit_s": options.transit,
        "call_timeout_s": options.call_timeout or 2 * options.work + 0.5,
        **dict(options.set),
    }


@contextmanager
def address_of(name: str, settings: Settings) -> Iterator[str]:
    if name == "coordinator":
        with serving("chaos.limits.coordinator", json.dumps(settings)) as address:
            yield address
    elif name == "valkey":
        from tests.servers.valkey import valkey  # noqa: PLC0415 - only a checkout has it

        with valkey() as server:
            yield server.url
    else:
        yield name


def plan_of(options: argparse.Namespace, folder: Path, address: str, settings: Settings) -> Plan:
    kills = [Strike(at_s=at, what="kill") for at in options.kill]
    stops = [Strike(at_s=at, what="stop", for_s=for_s) for at, for_s in options.stop]
    refusals = [
        Refusal(
            at_s=at,
            retry_after_s=retry_after_s,
            calls=None if options.refuse_for else options.refuse_calls,
            for_s=options.refuse_for,
        )
        for at, retry_after_s in options.refuse
    ]
    failures = [Refusal(at_s=at, status=503, calls=None, for_s=for_s) for at, for_s in options.fail]
    shortest = min((window.window_s for window in options.window), default=None)
    return Plan(
        folder=folder,
        adapter=options.adapter,
        address=address,
        settings=settings,
        processes=options.processes,
        callers=options.callers,
        tasks=options.tasks,
        seconds=options.seconds,
        work_s=options.work,
        units=options.units,
        sticky=options.sticky,
        strikes=(*kills, *stops),
        refusals=(*refusals, *failures),
        turn=None if shortest is None else (shortest, shortest / 3),
    )


def rules_of(options: argparse.Namespace) -> Rules:
    extra_s = options.start_within + options.transit
    bounds = [float(options.processes * options.callers)]
    bounds += [float(options.in_flight)] if options.in_flight else []
    bounds += [
        math.ceil(options.seconds / (window.window_s + extra_s))
        * window.n
        / options.units
        * options.work
        / options.seconds
        for window in options.window
    ]
    has_windows = bool(options.window) or "windows" in dict(options.set)
    return Rules(
        in_flight=options.in_flight,
        windows=tuple(options.window),
        excess_allowed=len(options.stop),
        trail_s=trail_of(options.start_within, options.transit, has_windows=has_windows),
        ramp=options.ramp,
        window_extra_s=extra_s,
        ideal=min(bounds),
        least_use=options.least_use,
        least_rate=options.least_rate,
        back_within_s=options.back_within,
        least_kills=len(options.kill),
        least_stops=len(options.stop),
        least_cooldowns=1 if options.refuse else 0,
    )
