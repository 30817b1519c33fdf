"""What one limit costs its store: an exchange with N sessions waiting, a thousand that join, a thousand that live."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.limiting.comparing import met
from benchmarks.limits_fleet.grounds import STORES, Ground, grounds
from benchmarks.limits_fleet.processes import prefer
from benchmarks.limits_store import live, waiting
from benchmarks.limits_store.live import Life

PARTS = ("waiting", "live")
_COUNTS = (1, 10, 100, 1000)
_AT_10_US, _BEAT_US, _GROWTH, _JOINED_S = 100.0, 30.0, 2.0, 3.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench limits_store", description=__doc__)
    parser.add_argument("--store", choices=STORES, action="append", help="may be repeated (default: all of them)")
    parser.add_argument("--only", choices=PARTS, action="append", help="may be repeated")
    parser.add_argument("--sessions", type=int, action="append", metavar="N", help="may be repeated")
    parser.add_argument("--seconds", type=float, help="of each measurement (default: 2, live 10)")
    parser.add_argument("--rounds", type=int, default=1, help="of each measurement (default: %(default)s)")
    parser.add_argument("--call-s", type=float, default=0.1, help="of a live session (default: %(default)s)")
    parser.add_argument(
        "--quick", action="store_true", help="few sessions, not on PostgreSQL, in 20 s: whether it runs"
    )
    parser.add_argument(
        "--prefer", action="store_true", help="take more of a machine that others use too, as the servers always do"
    )
    options = parser.parse_args()
    if options.prefer:
        prefer(os.getpid())
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", flush=True)
    stores = options.store or [name for name in STORES if name != "postgres" or not options.quick]
    with grounds(stores) as found:
        for part in options.only or PARTS:
            for name in stores:
                if part == "waiting":
                    counts = options.sessions or ((1, 10) if options.quick else _COUNTS)
                    seconds = options.seconds or (0.3 if options.quick else 2.0)
                    _waiting(found[name], counts, seconds, options.rounds)
                else:
                    counts = options.sessions or ((20,) if options.quick else (100, 300, 1000))
                    seconds = options.seconds or (1.0 if options.quick else 10.0)
                    _live(found[name], counts, seconds, options.call_s)


def _waiting(ground: Ground, counts: tuple[int, ...], seconds: float, rounds: int) -> None:
    print(f"\n{ground.name}: N sessions wait in one line; {rounds} x {seconds:g} s; load {os.getloadavg()[0]:.1f}")
    print(f"{'':>6} {'all join':>9} {'heartbeat, us':>34} {'give back + grant + join, us':>34}")
    print(f"{'N':>6} {'s':>9}" + 2 * f"{'server':>10} {'its CPU':>8} {'wall':>8} {'n':>7}", flush=True)
    rows = []
    for count in counts:
        costs = [waiting.measure(ground, count, seconds) for _ in range(rounds)]
        joined_s = statistics.median(each.joined_s for each in costs)
        beat, handover = _row([each.heartbeat for each in costs]), _row([each.handover for each in costs])
        rows.append((count, joined_s, beat, handover))
        print(f"{count:>6} {joined_s:>9.2f}{_told(beat)}{_told(handover)}", flush=True)
    _verdicts(rows)


class _Row(NamedTuple):
    """Microseconds of one exchange: the medians of rounds, whose walls are medians; and how many there were."""

    server: float | None
    cpu: float | None
    wall: float | None
    total: int


def _row(found: list[waiting.Timed]) -> _Row:
    return _Row(
        _median([each.server_us for each in found]),
        _median([each.cpu_us for each in found]),
        _median([1e6 * statistics.median(each.walls_s) for each in found if each.walls_s]),
        sum(len(each.walls_s) for each in found),
    )


def _median(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return statistics.median(known) if known else None


def _told(row: _Row) -> str:
    return f"{_us(row.server):>10} {_us(row.cpu):>8} {_us(row.wall):>8} {row.total:>7}"


def _us(figure: float | None) -> str:
    return "" if figure is None else f"{figure:,.0f}"


def _verdicts(rows: list[tuple[int, float, _Row, _Row]]) -> None:
    """What is asked of 10 and of the most sessions, by the server's time where it is known."""
    by_count = {count: (joined_s, beat, handover) for count, joined_s, beat, handover in rows}
    most = max(by_count)
    joined_s, beat, handover = by_count[most]
    server = handover.server is not None
    base = by_count.get(10)
    if base is not None and most > 10:
        at_10, at_most = (base[2].server, handover.server) if server else (base[2].wall, handover.wall)
        if at_10 and at_most:
            growth = at_most / at_10
            print(f"  {most} beside 10: {growth:.1f}x, asked <= {_GROWTH:g}x: {met(growth <= _GROWTH)}")
        if server and at_10:
            print(f"  at 10: {at_10:,.0f} us, asked <= {_AT_10_US:g}: {met(at_10 <= _AT_10_US)}")
    if beat.server is not None:
        print(f"  heartbeat at {most}: {beat.server:,.0f} us, asked <= {_BEAT_US:g}: {met(beat.server <= _BEAT_US)}")
    if most >= 1000:
        print(f"  {most} joined in {joined_s:.1f} s, asked <= {_JOINED_S:g}: {met(joined_s <= _JOINED_S)}", flush=True)


def _live(ground: Ground, counts: tuple[int, ...], seconds: float, call_s: float) -> None:
    print(
        f"\n{ground.name}: sessions live in 2 processes, half of them in flight, calls of {1000 * call_s:g} ms;"
        f" {seconds:g} s; load {os.getloadavg()[0]:.1f}"
    )
    print(
        f"{'sessions':>10} {'calls/s':>9} {'of ideal':>9} {'exchanges/s':>12} {'a call':>7} {'server us':>10}"
        f" {'store CPU':>10} {'drivers CPU':>12} {'errors':>7}"
    )
    for count in counts:
        in_flight = max(1, count // 2)
        lived = live.measure(ground, Life(count, in_flight, call_s, warm_s=min(seconds, 5.0), seconds=seconds))
        calls, exchanges, errors = lived.counts
        each = f"{exchanges / calls:.2f}" if calls else "-"
        print(
            f"{count:>10} {calls / seconds:>9,.1f} {calls / seconds / (in_flight / call_s):>9.3f}"
            f" {exchanges / seconds:>12,.0f} {each:>7} {_us(lived.store.server_us):>10}"
            f" {lived.store.cpu_s / seconds:>10.0%} {lived.drivers_cpu_s / seconds:>12.0%} {errors:>7}",
            flush=True,
        )


if __name__ == "__main__":
    main()
