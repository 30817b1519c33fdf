"""The demonstration itself: the naive way, then Forebay's, each against a simulator of its own, and what they saw."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from forebay.demo import judging, naive, pile, place
from forebay.demo.crew import Crew
from forebay.demo.fleet import Fleet, Piles
from forebay.demo.judging import Killed, Promise
from forebay.demo.naive import Ended
from forebay.demo.scene import Scene
from forebay.demo.stopping import Stop
from forebay.demo.watching import Progress
from forebay.simulate.starting import Simulated, simulator

_PREFIX: Final = "forebay-demo-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to do the load: how it ended, and what its simulator saw."""

    ended: Ended
    verdict: dict[str, Any]
    repeated_count: int


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

    def run(self, *, compare: bool, times: int) -> Shown:
        """The workers are told so many times the quotas; whatever was started or written is gone at the end."""
        with Stop() as stop, tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
            try:
                piles = self._piles(Path(folder))
                other = self._naive(piles, stop) if compare else None
                shown = self._forebay(Path(folder), piles, stop, other, times)
            except Exception:
                # On a terminal, Ctrl-C reaches the simulator as well, and a request to it then gets no answer.
                stop.check()
                raise
            stop.check()
            return shown

    def _piles(self, folder: Path) -> Piles:
        made = {each.api: pile.written(folder, each.api, each.document_count) for each in self._scene.loads}
        counts = [pile.page_count(number) for paths in made.values() for number in range(1, len(paths) + 1)]
        self._say(f"{len(counts)} documents with {sum(counts)} pages, and a simulator with these quotas:")
        for each in self._scene.loads:
            self._say(f"  {each.api}: {each.in_flight} calls at once, {each.n} in any {each.per_s:g} s")
        return made

    def _naive(self, piles: Piles, stop: Stop) -> Way:
        scene = self._scene
        self._say(f"The naive way: {scene.thread_count} threads that back off when they are refused.")
        with self._simulator(stop) as simulated:
            way = _way(simulated, naive.run(simulated.base, piles, scene.thread_count, stop, within_s=scene.naive_s))
        left = way.ended.document_count - way.ended.done_count
        self._say(
            f"  {way.verdict['refused_429']} of {way.verdict['calls']} calls were refused; "
            f"documents not done after {way.ended.took_s:.0f} s: {left}."
        )
        return way

    def _forebay(self, folder: Path, piles: Piles, stop: Stop, other: Way | None, times: int) -> Shown:
        scene = self._scene
        more = f" that are told {times} times the quotas" if times > 1 else ""
        self._say(f"Forebay: {scene.worker_count} worker processes{more}, stores in one folder.")
        with self._simulator(stop) as simulated:
            environment = place.furnished(folder, scene, simulated, times=times)
            with place.opened(folder, environment) as app, Crew(folder, environment) as crew:
                fleet = Fleet(app, crew, simulated, stop, say=self._say, told=self._told)
                began = time.monotonic()
                watch = fleet.work(piles, scene)
                ended = Ended(watch.whole(), len(watch.jobs), time.monotonic() - began)
                if ended.done_count == ended.document_count:
                    fleet.again(piles, scene.again_count)
                way = _way(simulated, ended)
                held = judging.promises(
                    way.verdict,
                    simulated.calls(),
                    watch.chunks(),
                    whole_count=ended.done_count,
                    document_count=ended.document_count,
                    killed=fleet.killed,
                )
        return Shown(promises=held, forebay=way, naive=other, killed=fleet.killed)

    @contextmanager
    def _simulator(self, stop: Stop) -> Iterator[Simulated]:
        options = ["--sticky"]
        for each in self._scene.loads:
            options += ["--quota", f"{each.api}={each.in_flight},{each.n}/{each.per_s:g}"]
            for latency in each.latency:
                options += ["--latency", latency]
        with simulator(*options) as found:
            stop.check()
            yield found


def _way(simulated: Simulated, ended: Ended) -> Way:
    return Way(ended=ended, verdict=simulated.verdict(), repeated_count=judging.repeated(simulated.calls()))
