"""The demonstration itself: the naive way, then Forebay with a worker killed, each against a simulator of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from forebay.app.forebay import Forebay
from forebay.demo import judging, pile, place
from forebay.demo.crew import Crew
from forebay.demo.judging import Killed, Promise
from forebay.demo.naive import Ended, Naive
from forebay.demo.scene import Scene
from forebay.demo.stopping import Stop
from forebay.demo.watching import Progress, Watch
from forebay.simulate.starting import Simulated, simulator

_LOOK_S: Final = 0.2
_SETTLES_S: Final = 0.3
_KILL_SHARE: Final = 0.3
_PREFIX: Final = "forebay-demo-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to do the load: how it ended, and what its simulator saw."""

    ended: Ended
    verdict: dict[str, Any]
    repeated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    promises: list[Promise]
    forebay: Way
    naive: Way | None
    killed: Killed | None

    @property
    def held(self) -> bool:
        return all(each.held for each in self.promises)


class Play:
    """`say` hears what happens, `told` how the documents get on."""

    def __init__(self, scene: Scene, *, say: Callable[[str], None], told: Callable[[Progress], None]) -> None:
        self._scene = scene
        self._say = say
        self._told = told

    def run(self, *, naive: bool, times: int) -> Shown:
        """The workers are given so many times the quotas; all that is started and written is gone at the end."""
        with Stop() as stop, tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
            documents = self._documents(Path(folder))
            other = self._naive(documents, stop) if naive else None
            return self._forebay(Path(folder), documents, stop, other, times)

    def _documents(self, folder: Path) -> dict[str, list[Path]]:
        made = {each.api: pile.written(folder, each.api, each.document_count) for each in self._scene.loads}
        counts = [pile.page_count(number) for paths in made.values() for number in range(1, len(paths) + 1)]
        quotas = "; ".join(
            f"{each.api} {each.in_flight} calls at once and {each.n} in any {each.per_s:g} s"
            for each in self._scene.loads
        )
        self._say(f"{len(counts)} documents, {sum(counts)} pages. Quotas of the simulator: {quotas}.")
        return made

    def _naive(self, documents: dict[str, list[Path]], stop: Stop) -> Way:
        count = self._scene.thread_count
        self._say(f"The naive way: {count} threads, each backs off when it is refused.")
        with self._simulator(stop) as simulated:
            ended = Naive(simulated).run(documents["docai"], count, stop, within_s=self._scene.within_s)
            way = _way(simulated, ended)
        left = ended.document_count - ended.done_count
        self._say(
            f"  {way.verdict['refused_429']} of {way.verdict['calls']} calls were refused in {ended.took_s:.0f} s"
            + (f", and {left} documents are not done." if left else ".")
        )
        return way

    def _forebay(
        self, folder: Path, documents: dict[str, list[Path]], stop: Stop, naive: Way | None, times: int
    ) -> Shown:
        workers = self._scene.worker_count
        more = f", told {times} times the quotas" if times > 1 else ""
        self._say(f"Forebay: {workers} worker processes{more}, one SQLite file.")
        with self._simulator(stop) as simulated:
            environment = place.furnished(folder, self._scene, simulated, times=times)
            with place.opened(folder, environment) as app, Crew(folder, environment) as crew:
                jobs = {
                    app.process(path, processor=api).id: pile.page_count(number)
                    for api, paths in documents.items()
                    for number, path in enumerate(paths, 1)
                }
                for number in range(1, workers + 1):
                    crew.start(f"worker-{number}")
                watch = Watch(app, jobs, list(documents))
                began = time.monotonic()
                killed = self._followed(app, watch, crew, simulated, stop)
                took_s = time.monotonic() - began
                whole = watch.whole()
                self._again(app, documents, stop, began)
                way = _way(simulated, Ended(whole, len(jobs), took_s))
                held = judging.promises(
                    way.verdict,
                    simulated.calls(),
                    watch.chunks(),
                    whole_count=whole,
                    document_count=len(jobs),
                    killed=killed,
                )
        return Shown(promises=held, forebay=way, naive=naive, killed=killed)

    def _followed(self, app: Forebay, watch: Watch, crew: Crew, simulated: Simulated, stop: Stop) -> Killed | None:
        """Until all documents have ended or the time is over; somewhere on the way a worker is killed."""
        killed = None
        until = time.monotonic() + self._scene.within_s
        while time.monotonic() < until:
            stop.pause(_LOOK_S)
            crew.check()
            now = watch.look()
            self._told(now)
            if now.ended_count == now.document_count:
                break
            if killed is None and now.chunk_done_count >= _KILL_SHARE * max(1, now.chunk_count, now.document_count):
                killed = self._kill(app, crew, simulated, stop)
        return killed

    def _kill(self, app: Forebay, crew: Crew, simulated: Simulated, stop: Stop) -> Killed | None:
        """One that has a call under way; None if there is none at the moment."""
        under_way = {call["fingerprint"] for call in simulated.calls() if call["ended"] is None}
        for session in app.ledger.sessions():
            blobs = {task.payload_blob for task in app.ledger.mine(session.id)}
            if session.worker in crew.names and blobs & under_way:
                pid = crew.kill(session.worker)
                stop.pause(_SETTLES_S)  # what it had sent arrives
                # Nobody takes its tasks before its lease is over, so these are what it had in hand when it was killed.
                mine = {task.payload_blob for task in app.ledger.mine(session.id)}
                sent = len({call["fingerprint"] for call in simulated.calls()} & mine)
                self._say(f"  kill -9 {pid}: {session.worker} is gone, with {sent} calls under way.")
                return Killed(name=session.worker, pid=pid, calls_under_way=sent)
        return None

    def _again(self, app: Forebay, documents: dict[str, list[Path]], stop: Stop, began: float) -> None:
        """As jobs of their own, under other terms, for which no page may be bought once more."""
        count = self._scene.again_count
        self._say(f"  {count} documents are handed in again, as jobs of their own.")
        ids = [
            app.process(path, processor=api, allow_holes=True).id
            for api, paths in documents.items()
            for path in paths[:count]
        ]
        while time.monotonic() - began < 2 * self._scene.within_s:
            if all(app.get(identifier).status.terminal for identifier in ids):
                return
            stop.pause(_LOOK_S)

    @contextmanager
    def _simulator(self, stop: Stop) -> Iterator[Simulated]:
        options = ["--sticky"]
        for each in self._scene.loads:
            options += ["--quota", f"{each.api}={each.in_flight},{each.n}/{each.per_s:g}"]
            options += ["--latency", f"{each.api}={each.call_s[0]:g}..{each.call_s[1]:g}"]
        with simulator(*options) as found:
            stop.check()
            yield found


def _way(simulated: Simulated, ended: Ended) -> Way:
    return Way(ended=ended, verdict=simulated.verdict(), repeated=judging.repeated(simulated.calls()))
