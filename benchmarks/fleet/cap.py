"""How much of 5 calls in flight three workers use: the whole engine, and a provider that counts what is in progress."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet.crew import Crew, Wrong
from benchmarks.fleet.ground import Ground, load
from benchmarks.fleet.measuring import verify
from benchmarks.fleet.orders import Contender, side
from benchmarks.fleet.rows import settle
from benchmarks.fleet.telling import Row, at_least, machine_readable
from benchmarks.work.marks import Marks
from chaos.limits import measures, records
from chaos.limits.lines import serving
from chaos.limits.records import Call

IN_FLIGHT = 5
PROCESSES = 3
LONG_S = 0.2
ASKED = {LONG_S: 0.97, 0.02: 0.85}
_PATIENCE = 1.5
"""Who has not done its calls after so much of the ideal time is stopped, and judged by what it did until then."""
_WARM_S = 0.5

PLAIN = (
    Contender("PgQueuer", "pgqueuer"),
    Contender("DBOS", "dbos"),
    Contender("Docket", "docket", store="Redis"),
)
"""As they come; with long calls only."""
TUNED = (
    Contender("PgQueuer, batch 1", "pgqueuer", {"batch": 1}),
    Contender("DBOS, polls every 0.05 s", "dbos", {"poll_s": 0.05}),
    Contender("Docket, checks every 0.01 s", "docket", {"poll_s": 0.01}, store="Redis"),
)
"""With the setting that helped each of them most when several were tried."""


@dataclass(frozen=True)
class Use:
    share: float
    most: int
    calls: int


def ours(store: str, limits: str) -> Contender:
    return Contender(f"Forebay {store}, limits {limits}", "ours", {"concurrency": 10}, store=store, limits=limits)


OURS = tuple(ours(store, limits) for store in ("PostgreSQL", "SQLite") for limits in ("Redis", "PostgreSQL", "SQLite"))


def cap(ground: Ground, rounds: int, seconds: float, *, rivals: bool = True, us: bool = True) -> None:
    print(
        f"\ncap: {IN_FLIGHT} in flight, {PROCESSES} worker processes, about {seconds:g} s each; {rounds} rounds;"
        f" load {load()}"
    )
    print(f"{'median of rounds':>40} {'call':>7} {'used':>7} {'least':>7} {'most':>7} {'at once':>8} {'calls':>6}")
    told, verdicts = [], []
    for work_s, asked in ASKED.items():
        theirs = (*(PLAIN if work_s == LONG_S else ()), *TUNED) if rivals else ()
        for contender in (*theirs, *(OURS if us else ())):
            found = [measure(contender, work_s, seconds, ground) for _ in range(rounds)]
            row = Row(contender.name, contender.is_ours, [each.share for each in found])
            most, calls = max(each.most for each in found), sum(each.calls for each in found)
            verdict = at_least(asked, row.median, f"{contender.name}, {1000 * work_s:g} ms ")
            said = f"asked >= {asked:.0%}: {'met' if verdict.met else 'MISSED'}" if row.is_ours else ""
            print(
                f"{row.name:>40} {f'{1000 * work_s:g} ms':>7} {row.median:>7.1%} {min(row.figures):>7.1%}"
                f" {max(row.figures):>7.1%} {most:>8} {calls:>6,}  {said}".rstrip(),
                flush=True,
            )
            verdicts += [verdict] if row.is_ours else []
            told.append(
                {"name": row.name, "call_s": work_s, "used": row.median, "rounds": row.figures, "at_once": most}
            )
    print(f"at once: as the provider saw it, never more than {IN_FLIGHT}; each task ran once; load {load()}")
    machine_readable("cap", told, verdicts, in_flight=IN_FLIGHT, processes=PROCESSES)


def measure(contender: Contender, work_s: float, seconds: float, ground: Ground) -> Use:
    """Our engine does all of its calls; a rival that is too slow is stopped when its time is over."""
    engine = side(contender.side)
    count = math.ceil(seconds / work_s) * IN_FLIGHT
    record = ground.folder / f"provider-{time.monotonic_ns()}.jsonl"
    with (
        serving("chaos.limits.provider", "--record", str(record)) as provider,
        ground.place(contender, in_flight=IN_FLIGHT, provider=provider, work_s=work_s) as orders,
    ):
        marked = Marks.create(orders.marks, count)
        engine.prepare(orders)
        engine.fill(orders, count)
        if contender.store == "PostgreSQL":
            settle(orders.address)
        recorded = engine.recorded(orders)
        with Crew(orders, PROCESSES) as crew:
            crew.go()
            crew.until(lambda: marked.missing() < count, within_s=60)
            began = time.monotonic()
            all_done = crew.until(lambda: not marked.missing(), within_s=_PATIENCE * seconds)
            stopped_at = math.inf if all_done else time.monotonic()
            if contender.is_ours and not all_done:
                crew.until_begun(marked, count, within_s=10 * seconds)
                all_done = True
            if all_done and not crew.until(recorded.is_complete, within_s=30):
                raise Wrong(
                    f"{contender.name}: not every task has ended {time.monotonic() - began:.0f} s after the first"
                )
        if all_done:
            ended = recorded.ended() if contender.store != "Redis" else (count, count)
            verify(contender.name, marked, count, ended)
        recorded.close()
    begun = count - marked.missing()
    use = judge(contender.name, record, stopped_at)
    if use.calls > begun:
        raise Wrong(f"{contender.name}: {use.calls} calls for {begun} tasks")
    return use


def judge(name: str, record: Path, stopped_at: float) -> Use:
    """Of the steady part: after a moment to begin, and until the last call was made or time was over."""
    found = records.read(record)
    record.unlink()
    calls = [call for call in found.calls if call.arrived_at < stopped_at]
    most = measures.peak(found.calls).count
    if most > IN_FLIGHT:
        raise Wrong(f"{name}: {most} calls in progress at once, over {IN_FLIGHT}")
    if found.flaws:
        raise Wrong(f"{name}: {found.flaws[0]}")
    if not calls:
        raise Wrong(f"{name}: nobody called the provider")
    first, last = calls[0].arrived_at + _WARM_S, min(calls[-1].arrived_at, stopped_at)
    return Use(_share(calls, first, last), most, len(calls))


def _share(calls: list[Call], first: float, last: float) -> float:
    return measures.mean_level(calls, first, last) / IN_FLIGHT
