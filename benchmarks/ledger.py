"""How fast a ledger exchanges work: by batch size, in bulk, and with a million tasks waiting."""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.floor import Floor
from forebay import ids
from forebay.model.exchange import Session, Settle, Want
from forebay.model.outcome import Completed, Rescheduled
from forebay.model.task import NewTask, Task
from forebay.rules import settlement
from forebay.stores.base import Ledger
from forebay.stores.memory.ledger import MemoryLedger
from forebay.stores.postgres.ledger import PostgresLedger
from forebay.stores.sqlite.ledger import SqliteLedger
from tests.servers.fresh import fresh_database
from tests.servers.postgres import postgres
from tests.servers.server import Server

BATCHES = (1, 10, 50, 200)
LEASE_S = 3600.0


class Worker:
    """One session that claims and completes."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._session = Session(id=ids.random_id(), worker="bench", lease_s=LEASE_S)
        self._n = 0
        self._done: list[Settle] = []
        ledger.open_session(self._session)

    def step(self, batch: int) -> int:
        """Hand in what was claimed before, take the next: one exchange."""
        self._n += 1
        wants = [Want("bench", batch)] if batch else []
        reply = self.ledger.exchange(self._session.id, self._n, settles=self._done, wants=wants)
        self._done = [self._end(task, reply.now) for task in reply.claims]
        return len(reply.claims)

    def _end(self, task: Task, now: float) -> Settle:
        return settlement.decide(task, Completed(result_json='{"ok":true}'), now=now, jitter=0.5)

    def reschedule_all(self, count: int) -> None:
        for _ in range(0, count, 500):
            self._n += 1
            reply = self.ledger.exchange(self._session.id, self._n, settles=self._done, wants=[Want("bench", 500)])
            again = Rescheduled(delay_s=0.0)
            self._done = [settlement.decide(task, again, now=reply.now, jitter=0.5) for task in reply.claims]
        self.step(0)


def tasks(count: int, **options: float) -> list[NewTask]:
    return [NewTask(kind="bench", payload={"page": page}, **options) for page in range(count)]  # type: ignore[arg-type]


def fill(ledger: Ledger, count: int, **options: float) -> float:
    """Submit in bulk; the rate in tasks a second, without the time it takes to make them."""
    spent = 0.0
    for start in range(0, count, 1000):
        batch = tasks(min(1000, count - start), **options)
        began = time.perf_counter()
        ledger.submit(batch)
        spent += time.perf_counter() - began
    return count / spent


@contextlib.contextmanager
def ledgers(folder: Path, server: Server) -> Iterator[dict[str, Ledger]]:
    with (
        fresh_database(server) as address,
        MemoryLedger() as memory,
        SqliteLedger(folder / "bench.db") as sqlite,
        PostgresLedger(address) as postgresql,
    ):
        yield {"memory": memory, "SQLite": sqlite, "PostgreSQL": postgresql}


def fsync_ms(folder: Path) -> float:
    """What one synced write of a page costs on this disk, in this run."""
    times = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(200):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def throughput(folder: Path, server: Server, rounds: int) -> None:
    print("\nexchange: claim and complete, tasks a second (median of rounds)")
    print(f"{'batch':>6} {'memory':>10} {'SQLite':>10} {'bare SQL':>10} {'SQLite/bare':>12} {'PostgreSQL':>12}")
    with ledgers(folder, server) as made, Floor(folder / "floor.db") as floor:
        workers = {name: Worker(ledger) for name, ledger in made.items()}
        for batch in BATCHES:
            count = min(5000, 300 * batch)
            rates: dict[str, list[float]] = {name: [] for name in (*made, "bare")}
            for _ in range(rounds):
                for name, worker in workers.items():
                    fill(worker.ledger, count)
                    rates[name].append(_rate(partial(worker.step, batch), count))
                    worker.step(0)
                floor.fill(count)
                rates["bare"].append(_rate(partial(floor.step, batch), count))
            found = {name: statistics.median(each) for name, each in rates.items()}
            ours = f"{found['memory']:>10,.0f} {found['SQLite']:>10,.0f} {found['bare']:>10,.0f}"
            print(f"{batch:>6} {ours} {found['SQLite'] / found['bare']:>11.2f}x {found['PostgreSQL']:>12,.0f}")


def _rate(step: Callable[[], int], count: int) -> float:
    began = time.perf_counter()
    done = 0
    while done < count:
        done += step()
    return done / (time.perf_counter() - began)


def bulk(folder: Path, server: Server, rounds: int) -> None:
    print("\nbulk submit, batches of 1,000: tasks a second (median of rounds)")
    with ledgers(folder, server) as made, Floor(folder / "floor.db") as floor:
        for name, ledger in made.items():
            rate = statistics.median(fill(ledger, 20_000) for _ in range(rounds))
            print(f"{name:>10} {rate:>10,.0f}")
        whole = statistics.median(_submit_rate(made["PostgreSQL"], 50_000) for _ in range(rounds))
        print(f"{'PostgreSQL':>10} {whole:>10,.0f}   50,000 in one call")
        rate = statistics.median(floor.fill(20_000) for _ in range(rounds))
        print(f"{'bare SQL':>10} {rate:>10,.0f}")


def _submit_rate(ledger: Ledger, count: int) -> float:
    batch = tasks(count)
    began = time.perf_counter()
    ledger.submit(batch)
    return count / (time.perf_counter() - began)


@dataclass
class Depth:
    """A ledger with many tasks in it, and how long its exchanges took."""

    name: str
    ledger: Ledger
    worker: Worker
    times: list[float]


def depth(name: str, ledgers: Sequence[Ledger], waiting: int, exchanges: int) -> None:
    """The ledgers take turns, so that whatever else the machine does slows all of them alike."""
    few, many = 1000, waiting
    storm = f"{many:,} + {many // 2:,} delayed + {many // 10:,} rescheduled"
    names = (f"{few:,}", f"{many:,}", storm)
    depths = [Depth(depth, ledger, Worker(ledger), []) for depth, ledger in zip(names, ledgers, strict=True)]
    print(
        f"\n{name}: one exchange of 10 with many tasks pending ({exchanges} each, interleaved); filling …", flush=True
    )
    for one in depths:
        fill(one.ledger, few if one.name == f"{few:,}" else many)
    fill(depths[2].ledger, many // 2, delay_s=86_400.0)
    depths[2].worker.reschedule_all(many // 10)
    for _ in range(exchanges):
        for one in depths:
            one.ledger.submit(tasks(10))
            began = time.perf_counter()
            one.worker.step(10)
            one.times.append(time.perf_counter() - began)
    print(f"{'pending':>50} {'p50 ms':>8} {'p99 ms':>8} {'p99 ratio':>10}")
    base = _percentile(depths[0].times, 99)
    for one in depths:
        p99 = _percentile(one.times, 99)
        print(f"{one.name:>50} {_percentile(one.times, 50):>8.2f} {p99:>8.2f} {p99 / base:>9.2f}x")
        one.ledger.close()


def _percentile(times: list[float], percent: int) -> float:
    return statistics.quantiles(times, n=100)[percent - 1] * 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench ledger", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--waiting", type=int, default=1_000_000, help="tasks pending in the deep ledgers")
    parser.add_argument("--exchanges", type=int, default=1000, help="exchanges measured in each of them")
    parser.add_argument("--only", choices=("throughput", "bulk", "depth"))
    options = parser.parse_args()
    for name in (options.only,) if options.only else ("throughput", "bulk", "depth"):
        with (
            tempfile.TemporaryDirectory(prefix="forebay-bench-") as temporary,
            postgres(own=True, durable=True) as server,
        ):
            folder = Path(temporary)
            print(f"fdatasync of 4 KiB: {fsync_ms(folder):.2f} ms (median)")
            match name:
                case "throughput":
                    throughput(folder, server, options.rounds)
                case "bulk":
                    bulk(folder, server, options.rounds)
                case _:
                    files = [SqliteLedger(folder / f"{number}.db") for number in range(3)]
                    depth("SQLite", files, options.waiting, options.exchanges)
                    with contextlib.ExitStack() as stack:
                        addresses = [stack.enter_context(fresh_database(server)) for _ in range(3)]
                        databases = [PostgresLedger(address) for address in addresses]
                        depth("PostgreSQL", databases, options.waiting, options.exchanges)


if __name__ == "__main__":
    main()
