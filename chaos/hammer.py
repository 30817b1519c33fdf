"""Lets several processes work on one ledger, and kills and stops them at random moments."""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from chaos import worker
from chaos.journal import Journal

DRAIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long, how many, and which of the dice."""

    folder: Path
    seconds: float
    seed: str
    processes: int = 2
    sabotage: str = ""
    address: str = ""
    """A PostgreSQL database to hammer, instead of the SQLite file."""

    @property
    def file(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"


@dataclass(slots=True)
class _Place:
    name: str
    life: int = 0
    pid: int = 0
    stopped_until: float = 0.0


@dataclass(slots=True)
class Hammer:
    """The parent. It opens no ledger and starts no thread, so that its children begin clean and at once."""

    plan: Plan
    journal: Journal = field(init=False)
    places: list[_Place] = field(init=False)
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.plan.logs.mkdir(parents=True)
        self.journal = Journal(self.plan.logs / "hammer.jsonl")
        self.places = [_Place(f"w{number}") for number in range(self.plan.processes)]
        self.chance = random.Random(self.plan.seed)

    def run(self) -> None:
        self.journal.note("plan", seconds=self.plan.seconds, seed=self.plan.seed, places=[p.name for p in self.places])
        try:
            for place in self.places:
                self._start(place)
            ends_at = time.monotonic() + self.plan.seconds
            while time.monotonic() < ends_at:
                time.sleep(self.chance.uniform(0.05, 0.4))
                self._strike()
        finally:
            for place in self.places:
                self._kill(place)
        self._drain()
        self.journal.close()

    def _start(self, place: _Place) -> None:
        place.pid = os.fork()
        if place.pid:
            return
        try:
            worker.run(self._options(place))
        finally:
            os._exit(0)

    def _options(self, place: _Place) -> worker.Options:
        return worker.Options(
            file=self.plan.file,
            logs=self.plan.logs,
            place=place.name,
            life=place.life,
            seed=self.plan.seed,
            heir_of=((place.name, place.life),) if place in self.places else self._lives(),
            drain=place not in self.places,
            sabotage=self.plan.sabotage,
            address=self.plan.address,
        )

    def _lives(self) -> tuple[tuple[str, int], ...]:
        return tuple((place.name, place.life + 1) for place in self.places)

    def _strike(self) -> None:
        now = time.monotonic()
        for place in self.places:
            if place.stopped_until and now >= place.stopped_until:
                place.stopped_until = 0.0
                self.journal.note("cont", place=place.name, life=place.life)
                os.kill(place.pid, signal.SIGCONT)
        place = self.chance.choice([place for place in self.places if not place.stopped_until] or self.places)
        if self.chance.random() < 0.15:
            stop_s = worker.LEASE_S * self.chance.uniform(1.3, 2.5)
            place.stopped_until = now + stop_s
            self.journal.note("stop", place=place.name, life=place.life, stop_s=stop_s)
            os.kill(place.pid, signal.SIGSTOP)
        else:
            self._kill(place)
            place.life += 1
            self._start(place)

    def _kill(self, place: _Place) -> None:
        if not place.pid:
            return
        # Noted before, so that whatever the victim wrote is older than a note of its death would be.
        self.journal.note("kill", place=place.name, life=place.life)
        os.kill(place.pid, signal.SIGKILL)
        _, status = os.waitpid(place.pid, 0)
        self.journal.note("ended", place=place.name, life=place.life, killed=os.WIFSIGNALED(status))
        place.pid, place.stopped_until = 0, 0.0

    def _drain(self) -> None:
        """A last worker, which nobody disturbs, has to bring everything to an end."""
        place = _Place("drain")
        self._start(place)
        gives_up_at = time.monotonic() + DRAIN_S
        while time.monotonic() < gives_up_at:
            pid, status = os.waitpid(place.pid, os.WNOHANG)
            if pid:
                self.journal.note("drained", ok=os.waitstatus_to_exitcode(status) == 0)
                return
            time.sleep(0.05)
        os.kill(place.pid, signal.SIGKILL)
        os.waitpid(place.pid, 0)
        self.journal.note("drained", ok=False)
