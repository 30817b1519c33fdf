"""One measurement of a contender that works off what waits for it, and the proof that each task ran once."""

from __future__ import annotations

import time

from benchmarks.fleet.crew import Crew, Wrong
from benchmarks.fleet.ground import Ground
from benchmarks.fleet.orders import Contender, side
from benchmarks.fleet.rows import settle
from benchmarks.work.marks import Marks


def measure(
    contender: Contender, processes: int, count: int, ground: Ground, *, in_flight: int = 0, work_s: float = 0.0
) -> tuple[float, float]:
    """Tasks a second, and microseconds of the workers' CPU for each; in an empty place, with all tasks waiting."""
    engine = side(contender.side)
    with ground.place(contender, in_flight=in_flight, work_s=work_s) as orders:
        marked = Marks.create(orders.marks, count)
        engine.prepare(orders)
        engine.fill(orders, count)
        if contender.store == "PostgreSQL":
            settle(orders.address)
        recorded = engine.recorded(orders)
        with Crew(orders, processes) as crew:
            crew.go()
            # What only the start costs is not counted.
            crew.until(lambda: marked.missing(0, count) < count, within_s=60)
            used = crew.cpu_s()
            crew.until_begun(marked, count)
            if not crew.until(recorded.is_complete, within_s=60):
                raise Wrong(f"{contender.name}: not every task has ended")
            ended = time.monotonic_ns()
            used = crew.cpu_s() - used
        verify(contender.name, marked, count, recorded.ended())
        recorded.close()
        spent_s = (ended - marked.first_start()) / 1e9
    return count / spent_s, used / count * 1e6


def verify(name: str, marked: Marks, count: int, ended: tuple[int, int]) -> None:
    """Every handler ran once, and the store says so as well."""
    if not marked.once(0, count):
        raise Wrong(f"{name}: {marked.missing(0, count)} of {count} tasks never ran, or others ran twice")
    if ended != (count, count):
        raise Wrong(f"{name}: the store knows {ended[0]} endings of {ended[1]} tasks, not {count}")
