"""The HTTP API under load: listeners, submissions at a rate, looks at jobs, one large upload; and what it costs.

Servers without a worker on one SQLite ledger, each in a process of its own; clients in this one, on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.asking import Asker
from benchmarks.ledger import fsync_ms
from tests.pipelines.ground import pdf

_ENDS_WITHIN_S = 30
_LARGE = 64 * 1024 * 1024
_TEXT_BYTES = 10 * 1024
_SEGMENT = "/v1/jobs?pipeline=segment&name=notes.md"
_LOOK_EACH = 5
_RIGHT = {"200", "202", "503"}


class Target:
    def __init__(self, address: str, pid: int) -> None:
        self.address = address
        self._status = Path(f"/proc/{pid}/status")
        self._stat = Path(f"/proc/{pid}/stat")

    def cpu_s(self) -> float:
        """Of the server alone: whoever else is busy on this machine does not count."""
        fields = self._stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self, field: str = "VmRSS") -> float:
        line = next(line for line in self._status.read_text().splitlines() if line.startswith(field))
        return int(line.split()[1]) / 1024


@contextmanager
def started(home: Path, core: int | None = None) -> Iterator[Target]:
    command = [sys.executable, "-m", "forebay", "serve", "--no-worker", "--port", "0", "-o", "ndjson"]
    variables = {**os.environ, "FOREBAY_HOME": str(home), "FOREBAY_LOG_LEVEL": "warning"}
    variables["FOREBAY_UPLOAD_MAX_BYTES"] = str(2 * _LARGE)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables) as process:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})  # before it has threads, which inherit it
        try:
            assert process.stdout is not None
            yield Target(json.loads(process.stdout.readline())["address"], process.pid)
        finally:
            process.terminate()
            process.wait(_ENDS_WITHIN_S)


def _own_cpu_s() -> float:
    spent = os.times()
    return spent.user + spent.system


def text(number: int) -> bytes:
    line = "The river fills the basin, and the basin feeds the turbine below.\n\n"
    return (f"# Note {number}\n\n" + line * (_TEXT_BYTES // len(line))).encode()[:_TEXT_BYTES]


class Load:
    """Asks one server after the other, as a balancer would."""

    def __init__(self, askers: Sequence[Asker]) -> None:
        self._askers = cycle(askers)
        self.statuses: Counter[str] = Counter()
        self.looks_ms: list[float] = []
        self.submits_ms: list[float] = []
        self.jobs: list[str] = []
        self.heard = 0

    async def submit(self, number: int) -> None:
        """Each text is another one."""
        began = time.perf_counter()
        answer = await next(self._askers).ask("POST", _SEGMENT, text(number))
        self.submits_ms.append(1000 * (time.perf_counter() - began))
        self.statuses[f"submit {answer.status}"] += 1
        if answer.status == 202:
            self.jobs.append(json.loads(answer.body)["id"])

    async def look(self, number: int) -> None:
        began = time.perf_counter()
        answer = await next(self._askers).ask("GET", f"/v1/jobs/{self.jobs[number % len(self.jobs)]}")
        self.looks_ms.append(1000 * (time.perf_counter() - began))
        self.statuses[f"look {answer.status}"] += 1

    async def listen(self, path: str) -> None:
        async with next(self._askers).listen(path) as (status, lines):
            self.statuses[f"listen {status}"] += 1
            async for line in lines:
                self.heard += line.startswith(b"event: ")

    async def all_told(self, listeners: int) -> None:
        """Until as many events came as there are listeners: each is told at once what has happened before."""
        for _ in range(10 * _ENDS_WITHIN_S):
            if self.heard >= listeners:
                break
            await asyncio.sleep(0.1)

    async def counted(self, request: Coroutine[Any, Any, None]) -> None:
        try:
            await request
        except (OSError, EOFError) as error:
            self.statuses[type(error).__name__] += 1

    def amiss(self) -> int:
        """Answers that are neither what was asked for nor the 503 that tells a client to come back, and none at all."""
        return sum(count for what, count in self.statuses.items() if what.rpartition(" ")[2] not in _RIGHT)

    async def at_a_rate(self, per_s: int, seconds: float) -> None:
        """As many a second as were asked for, whether earlier ones are answered or not; a look with some."""
        began, before = time.perf_counter(), len(self.jobs)
        running: set[asyncio.Task[None]] = set()
        for number in range(int(per_s * seconds)):
            await asyncio.sleep(max(0.0, began + number / per_s - time.perf_counter()))
            asked = [self.submit(number + 1_000_000)]
            if number % _LOOK_EACH == 0:
                asked.append(self.look(number))
            for each in asked:
                task = asyncio.create_task(self.counted(each))
                running.add(task)
                task.add_done_callback(running.discard)
        await asyncio.gather(*running)
        reached = (len(self.jobs) - before) / (time.perf_counter() - began)
        print(f"{per_s}/s asked for, {reached:.0f}/s accepted")


async def measured(targets: Sequence[Target], listeners: int, per_s: int, seconds: float) -> None:
    def memory_mb(field: str = "VmRSS") -> str:
        return " + ".join(f"{target.memory_mb(field):.0f}" for target in targets) + " MB"

    def cpu_s() -> float:
        return sum(target.cpu_s() for target in targets)

    with ExitStack() as stack:
        load = Load([stack.enter_context(closing(Asker(target.address))) for target in targets])
        for start in range(0, listeners, 20):
            await asyncio.gather(*(load.submit(number) for number in range(start, min(start + 20, listeners))))
        print(f"{'empty of listeners':<32} {memory_mb()}")
        paths = [f"/v1/jobs/{job_id}/events" for job_id in load.jobs] + ["/v1/events"] * 10
        listening = [asyncio.create_task(load.listen(path)) for path in paths]
        await load.all_told(len(paths))
        print(f"{f'{len(paths)} listeners':<32} {memory_mb()}, {load.heard} events heard")
        load.submits_ms.clear()
        used, own = cpu_s(), _own_cpu_s()
        await load.at_a_rate(per_s, seconds)
        spent_ms, own_ms = (1000 * more / (per_s * seconds) for more in (cpu_s() - used, _own_cpu_s() - own))
        print(f"{'CPU for a submission':<32} {spent_ms:6.1f} ms, with all that was told meanwhile")
        print(f"{'and of the client that asked':<32} {own_ms:6.1f} ms, on the same cores")
        print(f"{'after that load':<32} {memory_mb()}, peak {memory_mb('VmHWM')}, {load.heard} events heard")
        for each in listening:
            each.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        for what, found in (("submit", load.submits_ms), ("GET /jobs/{id}", load.looks_ms)):
            cut = statistics.quantiles(found, n=100)
            print(f"{what:<32} p50 {cut[49]:6.1f} ms  p99 {cut[98]:6.1f} ms")
        print(dict(load.statuses))
        print(f"{'neither as asked for nor a 503':<32} {load.amiss():6}")


async def large(target: Target) -> None:
    async def pieces() -> object:
        yield pdf(1)
        for _ in range(_LARGE // 65536):
            yield b"\n" * 65536

    async with httpx2.AsyncClient(base_url=target.address, timeout=120, trust_env=False) as client:
        await client.post("/v1/jobs", content=pdf(2))
        before = target.memory_mb("VmHWM")
        began = time.perf_counter()
        answer = await client.post("/v1/jobs", content=pieces())  # type: ignore[arg-type]  # an iterator of bytes
        took = time.perf_counter() - began
    more = target.memory_mb("VmHWM") - before
    print(f"64 MB upload: {answer.status_code} in {took:.1f} s, {more:+.1f} MB at its peak")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listeners", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2], help="how many on one home; each in turn")
    parser.add_argument("--unpinned", action="store_true", help="do not keep each server on one core")
    parser.add_argument("--seconds", type=float, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        synced_ms = fsync_ms(Path(folder))
        print(f"fdatasync of 4 KiB: {synced_ms:.2f} ms (median), {1000 / synced_ms:.0f}/s")
        with started(Path(folder) / "large") as target:
            asyncio.run(large(target))
        for count in asked.servers:
            kept = "wherever the system puts them" if asked.unpinned else "each kept on one core"
            print(f"\nservers: {count}, {kept}; load {os.getloadavg()[0]:.1f}")
            with ExitStack() as stack:
                home = Path(folder) / f"many-{count}"
                cores = [None] * count if asked.unpinned else islice(cycle(sorted(os.sched_getaffinity(0))), count)
                targets = [stack.enter_context(started(home, core)) for core in cores]
                asyncio.run(measured(targets, asked.listeners, asked.rate, asked.seconds))


if __name__ == "__main__":
    main()
