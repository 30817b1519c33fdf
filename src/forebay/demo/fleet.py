"""Forebay's way: documents are handed in, workers do them, one worker is killed, and some documents come again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from forebay.app.forebay import Forebay
from forebay.demo import judging, pile
from forebay.demo.crew import Crew
from forebay.demo.judging import Killed
from forebay.demo.scene import Scene
from forebay.demo.stopping import Stop
from forebay.demo.watching import Progress, Watch
from forebay.simulate.starting import Simulated

Piles = Mapping[str, Sequence[Path]]
_LOOK_S: Final = 0.2
_ARRIVES_S: Final = 0.3
_KILL_SHARE: Final = 0.25
_AGAIN_S: Final = 10.0


class Fleet:
    """`say` hears what happens, `told` how the documents get on."""

    def __init__(
        self,
        app: Forebay,
        crew: Crew,
        simulated: Simulated,
        stop: Stop,
        *,
        say: Callable[[str], None],
        told: Callable[[Progress], None],
    ) -> None:
        self._app = app
        self._crew = crew
        self._simulated = simulated
        self._stop = stop
        self._say = say
        self._told = told
        self.killed: Killed | None = None

    def work(self, piles: Piles, scene: Scene) -> Watch:
        """Until all documents have ended, or the time is over."""
        for number in range(1, scene.worker_count + 1):
            self._crew.start(f"worker-{number}")
        jobs = {
            self._app.process(path, processor=api).id: pile.page_count(number)
            for api, paths in piles.items()
            for number, path in enumerate(paths, 1)
        }
        watch = Watch(self._app, jobs, list(piles))
        self._follow(watch, scene.within_s)
        return watch

    def again(self, piles: Piles, count: int) -> None:
        """As jobs of their own, under other terms; what is stored of them must not be bought once more."""
        self._say(f"  {count} documents of each API are handed in again, as new jobs.")
        jobs = {
            self._app.process(path, processor=api, allow_holes=True).id: pile.page_count(number)
            for api, paths in piles.items()
            for number, path in enumerate(paths[:count], 1)
        }
        self._follow(Watch(self._app, jobs, list(piles)), _AGAIN_S)

    def _follow(self, watch: Watch, within_s: float) -> None:
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            self._stop.pause(_LOOK_S)
            self._crew.check()
            now = watch.look()
            self._told(now)
            if now.ended_count == now.document_count:
                return
            if self.killed is None and now.chunk_done_count >= _KILL_SHARE * max(now.chunk_count, now.document_count):
                self._kill()

    def _kill(self) -> None:
        """One that has a paid call under way; if there is none at the moment, the next look finds one."""
        open_calls = {call["fingerprint"] for call in judging.work(self._simulated.calls()) if call["ended"] is None}
        for session in self._app.ledger.sessions():
            if session.worker in self._crew.names and open_calls & self._in_hand(session.id):
                pid = self._crew.kill(session.worker)
                self._stop.pause(_ARRIVES_S)
                # Nobody takes its tasks before its lease is over: these are what it had in hand when it was killed.
                sent = {call["fingerprint"] for call in judging.work(self._simulated.calls())}
                count = len(sent & self._in_hand(session.id))
                self._say(f"  kill -9 {pid}: {session.worker} is gone; calls under way in it: {count}.")
                self.killed = Killed(name=session.worker, pid=pid, calls_under_way=count)
                return

    def _in_hand(self, session_id: str) -> set[str | None]:
        return {task.payload_blob for task in self._app.ledger.mine(session_id)}
