"""How fast documents are taken in and jobs are shown over HTTP, beside a bare FastAPI that only syncs a file.

All servers run at once and are asked in turn, in rounds; each figure is the median of its rounds. A look at a job is
also measured beside a worker in the same process, idle and with documents to read, and beside one in its own process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from benchmarks.http.client import Measured, ask, request
from benchmarks.ledger import fsync_ms
from tests.pipelines.ground import pdf

_DOCUMENT_BYTES = 10 * 1024
_ENDS_WITHIN_S = 60
_SERVE = [sys.executable, "-m", "forebay", "serve", "--port", "0", "-o", "ndjson"]
_ALONE = [*_SERVE, "--no-worker"]
_WORKER = [sys.executable, "-m", "forebay", "worker"]
_MOST_READ_S = 60  # documents that a worker reads in a second, at most
BARE, ALONE, IDLE, BUSY, BESIDE = (
    "bare FastAPI",
    "forebay serve --no-worker",
    "forebay serve, idle worker",
    "forebay serve, busy worker",
    "--no-worker, busy worker process",
)


class Server:
    def __init__(self, address: str, pid: int) -> None:
        self.address = address
        self.pid = pid
        self._stat = Path(f"/proc/{pid}/stat")
        self.jobs: list[str] = []

    def cpu_s(self) -> float:
        fields = self._stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(command: Sequence[str], home: Path) -> Iterator[subprocess.Popen[bytes]]:
    variables = {**os.environ, "FOREBAY_HOME": str(home), "FOREBAY_LOG_LEVEL": "warning"}
    variables["FOREBAY_LEASE_S"] = "600"  # a worker that is stopped while others are asked must keep its tasks
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _signal(number: signal.Signals, process_ids: Sequence[int]) -> None:
    """To processes and their children."""
    for process_id in process_ids:
        with suppress(ProcessLookupError):
            os.killpg(process_id, number)


def address_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    return str(json.loads(line)["address"]) if line.startswith("{") else line.strip()


class Documents:
    """10 KB each, and each another one: a page, and as much behind it as is missing."""

    def __init__(self) -> None:
        self._page = pdf(1)
        self._run = random.getrandbits(64)

    def __call__(self, number: int) -> bytes:
        mark = f"\n% {self._run:016x} {number:08d} ".encode()
        return self._page + mark + b"." * (_DOCUMENT_BYTES - len(self._page) - len(mark))


class Table:
    def __init__(self) -> None:
        self._rounds: dict[tuple[str, str], list[tuple[Measured, float]]] = defaultdict(list)

    def add(self, verb: str, side: str, server: Server, measure: Callable[[], Measured], expected: int) -> Measured:
        before = server.cpu_s()
        found = measure()
        wrong = found.statuses.total() - found.statuses[expected]
        if wrong:
            sys.exit(f"{side}, {verb}: {wrong} answers were not {expected}: {dict(found.statuses)}")
        self._rounds[verb, side].append((found, server.cpu_s() - before))
        return found

    def show(self) -> None:
        print(
            f"\n{'':<38} {'per s':>7} {'ratio':>6} {'by CPU':>7} {'p50':>8} {'p99':>8} {'server CPU':>11} {'client':>7}"
        )
        for (verb, side), rounds in self._rounds.items():
            beside = BARE if side == ALONE else ALONE if side != BARE else None
            pairs = zip(rounds, self._rounds.get((verb, beside or ""), rounds), strict=False)
            ratio = statistics.median(mine.per_s / theirs.per_s for (mine, _), (theirs, _) in pairs)
            per_s = statistics.median(each.per_s for each, _ in rounds)
            cuts = [statistics.quantiles(each.times_ms, n=100) for each, _ in rounds]
            p50, p99 = (statistics.median(cut[at] for cut in cuts) for at in (49, 98))
            cpu_ms = statistics.median(map(_each_ms, rounds))
            busy = statistics.median(each.busy for each, _ in rounds)
            pairs = zip(rounds, self._rounds.get((verb, beside or ""), rounds), strict=False)
            by_cpu = statistics.median(_each_ms(theirs) / _each_ms(mine) for mine, theirs in pairs)
            told = f"{'':>6} {'':>7}" if beside is None else f"{ratio:>6.2f} {by_cpu:>7.2f}"
            print(
                f"{verb:<5}{side:<33} {per_s:>7.0f} {told} {p50:>5.1f} ms {p99:>5.1f} ms "
                f"{cpu_ms:>8.2f} ms {100 * busy:>5.0f} %"
            )
        print(f"Ratios: {ALONE} to {BARE}; all others to {ALONE}. Medians over the rounds.")
        print("By CPU: requests for a second of the server's CPU; on a busy machine the rates are a matter of luck.")


def _each_ms(measured: tuple[Measured, float]) -> float:
    """CPU of the server for a request."""
    found, cpu_s = measured
    return 1000 * max(cpu_s, 0.001) / len(found.times_ms)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev bench http", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="5, quick 3")
    parser.add_argument("--seconds", type=float, help="of each measurement; 4, quick 2")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--quick", action="store_true", help="the short form: less than a minute")
    parser.add_argument(
        "--only", choices=("alone", "worker"), help="only the server alone, or only what a worker costs"
    )
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 5)
    seconds = options.seconds or (2.0 if options.quick else 4.0)
    with tempfile.TemporaryDirectory(prefix="forebay-bench-") as folder:
        synced_ms = fsync_ms(Path(folder))
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, fdatasync of 4 KiB {synced_ms:.2f} ms")
        bench = Bench(Path(folder), rounds, seconds, options.connections)
        if options.only != "worker":
            bench.alone()
        if options.only != "alone":
            bench.beside_a_worker()


class Bench:
    def __init__(self, folder: Path, rounds: int, seconds: float, connections: int) -> None:
        self._folder = folder
        self._rounds = rounds
        self._seconds = seconds
        self._connections = connections
        self._documents = Documents()
        self._number = 0

    def alone(self) -> None:
        table = Table()
        with ExitStack() as stack:
            bare = self._started(stack, [sys.executable, "-m", "benchmarks.http.bare", str(self._home("bare"))], "bare")
            ours = self._started(stack, _ALONE, "alone")
            sides = ((BARE, bare), (ALONE, ours))
            for _, server in sides:
                self._submit(server, seconds=1.0)  # makes most of the folders that blobs lie in
            for number in range(self._rounds):
                # Whoever is first has the colder caches, and perhaps the quieter disk.
                for side, server in sides if number % 2 == 0 else sides[::-1]:
                    table.add("POST", side, server, lambda server=server: self._submit(server), 202)  # type: ignore[misc]
                    table.add("GET", side, server, lambda server=server: self._look(server), 200)  # type: ignore[misc]
        table.show()

    def beside_a_worker(self) -> None:
        """Each side in a home of its own, and all others stopped while one is asked."""
        table = Table()
        backlog = round(_MOST_READ_S * self._seconds * (self._rounds + 2))
        with ExitStack() as stack:
            sides: list[tuple[str, Server, list[int]]] = []
            for side, worker in ((ALONE, []), (IDLE, []), (BUSY, []), (BESIDE, _WORKER)):
                jobs = self._filled(side, backlog if side in {BUSY, BESIDE} else 1)
                process_ids = [stack.enter_context(running(worker, self._home(side))).pid] if worker else []
                server = self._started(stack, _SERVE if side in {IDLE, BUSY} else _ALONE, side)
                server.jobs = jobs
                self._look(server)  # until the worker has its children
                process_ids.append(server.pid)
                _signal(signal.SIGSTOP, process_ids)
                stack.callback(_signal, signal.SIGCONT, process_ids)
                sides.append((side, server, process_ids))
            for _ in range(self._rounds):
                for side, server, process_ids in sides:
                    _signal(signal.SIGCONT, process_ids)
                    table.add("GET", side, server, lambda server=server: self._look(server), 200)  # type: ignore[misc]
                    if side in {BUSY, BESIDE} and not self._waiting(server):
                        sys.exit(f"{side}: all documents were read before the end.")
                    _signal(signal.SIGSTOP, process_ids)
        table.show()

    def _filled(self, name: str, count: int) -> list[str]:
        """A home with as many documents that nobody has read."""
        with ExitStack() as stack:
            server = self._started(stack, _ALONE, name)
            while len(server.jobs) < count:
                self._submit(server, seconds=0.5 if count > 1 else 0.0)
        return server.jobs

    def _home(self, name: str) -> Path:
        home = self._folder / name.replace(" ", "-")
        home.mkdir(exist_ok=True)
        return home

    def _started(self, stack: ExitStack, command: Sequence[str], name: str) -> Server:
        process = stack.enter_context(running(command, self._home(name)))
        return Server(address_of(process), process.pid)

    def _submit(self, server: Server, seconds: float | None = None) -> Measured:
        def made(number: int) -> bytes:
            return request(server.address, "POST", "/v1/jobs", self._documents(number))

        found = ask(
            server.address,
            made,
            connections=self._connections,
            seconds=self._seconds if seconds is None else seconds,
            first=self._number,
        )
        self._number += found.statuses.total()
        server.jobs += [answer["id"] for answer in map(json.loads, found.bodies) if "id" in answer]
        return found

    def _waiting(self, server: Server) -> bool:
        listing = request(server.address, "GET", "/v1/jobs?status=pending&limit=1")
        found = ask(server.address, lambda _: listing, connections=1, seconds=0)
        return bool(json.loads(found.bodies[0])["items"])

    def _look(self, server: Server) -> Measured:
        asked = [request(server.address, "GET", f"/v1/jobs/{job_id}") for job_id in server.jobs[:1000]]
        return ask(
            server.address,
            lambda number: asked[number % len(asked)],
            connections=self._connections,
            seconds=self._seconds,
        )


if __name__ == "__main__":
    main()
