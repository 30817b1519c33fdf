"""How fast documents go through a paid API beside what its quota allows: the whole engine on the simulator.

Documents for Document AI, three worker processes, one ledger; the simulator's quota is the workers' limit, and what it
saw is what counts. Three quotas: a rate binds, calls in flight do, and both in turns.

  pace      time from the first call to the end of the last, beside the arithmetic bound, the slower of
            (rounds of the window - 1) x (window + start_within_s + transit_s) + call time, and calls x call time / in
            flight. Asked: at most 1.05 of it, and no call refused. `best` is what both bounds allow together.
            Meanwhile somebody asks twice a second or more often: what is foretold of documents is compared with when
            their last call ended, and what `why` says the next call waits for with what bound it. Asked: an error of
            at most 20 % in the median, and nothing wrong.
  storm     all calls are refused for a while in the middle. Asked: 90 % of the rate within 10 s of the last
            cool-down's end, and no more refused than were granted or in flight, and one probe for each cool-down.
  controls  a limit that is a fifth above the quota, what is foretold stretched by a half, what is said an instant
            later: each must be found.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from benchmarks.fleet.crew import Wrong
from benchmarks.fleet.ground import load
from benchmarks.fleet.telling import Verdict, machine_readable
from benchmarks.pipeline import eta, pace, reasons, storm
from benchmarks.pipeline.running import Storm, Terms, run
from benchmarks.pipeline.seen import Seen
from benchmarks.pipeline.shapes import RATE, SHAPES, Shape, quick
from tests.servers.fresh import fresh_database
from tests.servers.postgres import postgres

PARTS = ("pace", "storm", "controls")
_STRETCHED = 1.5
_LATER_S = 1.0
_ABOVE = 1.2


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev bench pipeline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="may be repeated")
    parser.add_argument("--shape", choices=[each.name for each in SHAPES], action="append", help="of pace")
    parser.add_argument("--store", choices=("SQLite", "PostgreSQL"), default="SQLite", help="of tasks and limits")
    parser.add_argument("--quick", action="store_true", help="about ten seconds a run")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {load()}, Python {platform.python_version()}, {options.store}")
    failed = []
    with _store(options.store) as terms:
        for part in options.only or PARTS:
            try:
                _run(part, options, terms)
            except Wrong as wrong:
                failed.append(part)
                print(f"{part}: FAILED: {wrong}", flush=True)
    if failed:
        sys.exit(f"failed, and so without figures: {', '.join(failed)}")


@contextmanager
def _store(name: str) -> Iterator[Terms]:
    """An empty place for each run; SQLite's is in the run's own folder."""
    if name == "SQLite":
        yield Terms()
        return
    with postgres(own=True, durable=True) as server:
        yield Terms(ledger=partial(fresh_database, server))


def _run(part: str, options: argparse.Namespace, terms: Terms) -> None:
    sized = quick if options.quick else _whole
    match part:
        case "pace":
            _pace(
                [sized(each) for each in SHAPES if each.name in (options.shape or [one.name for one in SHAPES])], terms
            )
        case "storm":
            _storm(sized(RATE), terms)
        case _:
            _controls(quick(RATE), terms)


def _whole(shape: Shape) -> Shape:
    return shape


def _pace(shapes: list[Shape], terms: Terms) -> None:
    columns = ("calls", "call s", "took s", "bound", "ratio", "best", "429s", "peak", "worst")
    print(f"\npace: {terms.workers} worker processes; load {load()}")
    print(f"{'':>10} " + " ".join(f"{each:>7}" for each in columns))
    runs: list[Seen] = []
    told: list[dict[str, object]] = []
    found: list[Verdict] = []
    for shape in shapes:
        seen = run(shape, terms)
        runs.append(seen)
        one = pace.judge(seen)
        figures = f"{one.calls:>7} {one.call_s:>7.3f} {one.took_s:>7.2f} {one.bound_s:>7.2f} {one.ratio:>7.3f}"
        bounds = f"{one.peak:>4}/{shape.in_flight:<2} {one.worst:>4}/{shape.n:<2}"
        asked = pace.verdicts(shape.name, one)
        print(f"{shape.name:>10} {figures} {one.best_s / one.bound_s:>7.3f} {one.refused:>7} {bounds}", flush=True)
        asked += [_foretold(shape.name, seen), _said(shape.name, seen)]
        _show(asked)
        found += asked
        told.append({"name": shape.name, "ratio": one.ratio, "took_s": one.took_s, "refused": one.refused})
    whole = eta.combined(runs)
    found.append(eta.verdict("all", whole))
    print(f"ETA of all: p50 error {whole.error:.1%}, {len(whole.errors)} samples; {found[-1]}; load {load()}")
    machine_readable("pace", told, found)


def _foretold(name: str, seen: Seen) -> Verdict:
    found = eta.judge(seen)
    print(
        f"{'':>10} ETA: p50 error {found.error:.1%} of {len(found.errors)} samples, {found.untold} untold;"
        f" ended before it {found.early:.0%}, after it {1 - found.early:.0%}"
    )
    return eta.verdict(name, found)


def _said(name: str, seen: Seen, *, hint_s: float = 0.0) -> Verdict:
    found = reasons.judge(seen, hint_s=hint_s)
    said = ", ".join(f"{each} {count}" for each, count in sorted(found.said.items()))
    print(f"{'':>10} why: {found.count} samples ({said}), wrong {len(found.wrong)}")
    for each in found.wrong[:5]:
        print(f"{'':>12} {each}")
    return reasons.verdict(name, found)


def _storm(shape: Shape, terms: Terms) -> None:
    raised = Storm(after=shape.calls // 3, for_s=2.5)
    print(f"\nstorm: {shape.name}, every call is refused for {raised.for_s:g} s; load {load()}")
    seen = run(shape, replace(terms, storm=raised))
    found = storm.judge(seen, raised.hint_s)
    print(
        f"{'':>10} {found.refused} refused: {found.granted} granted or in flight at the first, {found.probes} probes;"
        f" {shape.per_second:.1f} calls a second are back {found.back_s:.1f} s after the last cool-down"
    )
    asked = [*storm.verdicts(found), _said("storm", seen, hint_s=raised.hint_s)]
    _show(asked)
    machine_readable("storm", [{"back_s": found.back_s, "refused": found.refused}], asked)


def _controls(shape: Shape, terms: Terms) -> None:
    """Of judges: what they must not let pass."""
    print(f"\ncontrols: {shape.name}; load {load()}")
    seen = run(shape, replace(terms, above=_ABOVE))
    stretched = eta.judge(replace(seen, foretold=eta.stretched(seen.foretold, _STRETCHED)))
    later = reasons.judge(replace(seen, said=reasons.moved(seen.said, _LATER_S)))
    caught = {
        f"a limit {_ABOVE:g} times the quota: {len(seen.refused)} refused": bool(seen.refused),
        f"ETAs {_STRETCHED:g} times as long: p50 error {stretched.error:.0%}": stretched.error > eta.ASKED,
        f"`why` {_LATER_S:g} s later: {len(later.wrong)} of {later.count} wrong": bool(later.wrong),
    }
    for text, is_found in caught.items():
        print(f"{'':>10} {text}: {'found' if is_found else 'NOT FOUND'}")
    machine_readable("controls", [], [Verdict(text, float(found), found) for text, found in caught.items()])


def _show(asked: list[Verdict]) -> None:
    for each in asked:
        print(f"{'':>10} {each} ({each.found:g})", flush=True)


if __name__ == "__main__":
    main()
