"""How much of a limit its callers use: several processes, and a provider that counts what is in progress."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.limiting.comparing import met
from chaos.limits import measures, records
from chaos.limits.load import Load, Plan

IN_FLIGHT = 5
PROCESSES = 3
CALLERS = 8
_ASKED = {0.2: 0.97, 0.02: 0.85}


def use(stores: dict[str, str], folder: Path, seconds: float, *, quick: bool) -> None:
    print(f"\nuse of {IN_FLIGHT} in flight: {PROCESSES} processes of {CALLERS} callers, {seconds:g} s each")
    print(f"{'':>24} {'used':>7} {'most':>5} {'calls':>7}   load {os.getloadavg()[0]:.1f}")
    for name, address in stores.items():
        for work_s in (0.02,) if quick else (0.2, 0.02):
            for form in ("async",) if quick else ("sync", "async"):
                title = f"{name}, {1000 * work_s:g} ms, {form}"
                place = folder / title.replace(" ", "-").replace(",", "")
                found = records.read(Load(_plan(place, address, title, work_s, seconds, tasks=form == "async")).run())
                level = measures.mean_level(found.calls, *found.span) / IN_FLIGHT
                peak = measures.peak(found.calls).count
                said = f"asked >= {_ASKED[work_s]:.0%}: {met(level >= _ASKED[work_s])}"
                said += f", {peak} IN PROGRESS" if peak > IN_FLIGHT else ""
                print(f"{title:>24} {level:>7.1%} {peak:>5} {len(found.calls):>7,}   {said}", flush=True)


def _plan(folder: Path, address: str, title: str, work_s: float, seconds: float, *, tasks: bool) -> Plan:
    # A limit of its own: what an earlier run left behind is none of this one's.
    limit = "use-" + "".join(each for each in title.lower() if each.isalnum())
    return Plan(
        folder=folder,
        adapter="chaos.limits.ours:Ours",
        address=address,
        settings={
            "limit": limit,
            "in_flight": IN_FLIGHT,
            "windows": [],
            "units": 1,
            "start_within_s": 0.25,
            "transit_s": 0.05,
            "call_timeout_s": 2 * work_s + 0.5,
        },
        processes=PROCESSES,
        callers=CALLERS,
        tasks=tasks,
        seconds=seconds,
        work_s=work_s,
    )
