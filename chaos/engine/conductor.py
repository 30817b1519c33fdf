"""Leads a run: lets workers work, strikes them at random moments, then calms down and waits until all is done."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import apsw

from chaos import journal
from chaos.engine import app, dice
from chaos.engine.life import LEASE_S, Folder, Life
from chaos.engine.small_disk import Filler
from chaos.engine.stable import Horse, Stable
from chaos.journal import Journal

FAULTS = (0.01, 0.03)
# The lease and its rescue, the longest waits before the retries of a crash, and the work; half of it on top.
DRAIN_S = 1.5 * (1.5 * LEASE_S + 2 + 4 + 10)
TICK_S = 0.02
_END_S = 20.0
_UNFENCED = 4  # settles under the token of another
_UNFENCED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long, how many kills at most, and which of the dice."""

    folder: Folder
    seconds: float
    seed: str
    kills: int | None = None
    workers: int = 4
    sabotage: str = ""

    @property
    def unfenced(self) -> bool:
        """Only those who come late find out whether there is a fence: many are stopped."""
        return self.sabotage == "unfenced"

    @property
    def drain_s(self) -> float:
        """What a broken ledger has lost is waited for in vain."""
        return DRAIN_S / 4 if self.sabotage else DRAIN_S


class Conductor:
    """It opens no ledger and starts no thread, so that what it forks begins clean and at once."""

    places: Mapping[str, float] = dice.PLACES
    pauses_s = (0.2, 0.6)
    """Between one strike and the next."""

    def __init__(self, plan: Plan) -> None:
        plan.folder.logs.mkdir(parents=True, exist_ok=True)
        self._plan = plan
        self._chance = random.Random(plan.seed)
        self._strikes = dice.strikes(random.Random(f"{plan.seed}/strikes"), only="stop" if plan.unfenced else "")
        self._journal = Journal(plan.folder.logs / "conductor.jsonl")
        mark = (app.JOURNAL, plan.folder.environment()[app.JOURNAL])
        self._stable = Stable(self._journal, mark, lambda: LEASE_S * self._chance.uniform(1.2, 1.7))
        self._workers = [Horse(f"w{number}") for number in range(plan.workers)]
        self._submitter = Horse("submitter")
        disk = plan.folder.disk
        dice_of_disk = random.Random(f"{plan.seed}/disk")
        self._filler = None if disk is None else Filler(disk, self._journal, dice_of_disk)
        self._again: list[tuple[float, Horse]] = []

    def run(self) -> None:
        plan = self._plan
        self._journal.note("plan", seed=plan.seed, seconds=plan.seconds, kills=plan.kills, drain_s=plan.drain_s)
        try:
            self._storm()
            if self._filler is not None:
                self._filler.free()
            self._journal.note("calm")
            self._calm_down()
            self._drain()
        finally:
            for horse in (*self._workers, self._submitter):
                if horse.pid:
                    self._stable.kill(horse)
                    self._wait([horse], seconds=5.0)
            self._stable.look_for_leftovers(to_the_last=True)
            self._journal.close()
            if plan.folder.disk is not None:
                shutil.copytree(plan.folder.disk, plan.folder.root, dirs_exist_ok=True)

    def _life(self, name: str, *, armed: bool, failpoints: str = "") -> Life:
        """What the next process is told."""
        return Life(
            folder=self._plan.folder,
            name=name,
            seed=self._plan.seed,
            failpoints=failpoints,
            faults=FAULTS if armed else (0.0, 0.0),
            sabotage="" if name == "submitter" else self._plan.sabotage,
            slow=self._plan.unfenced,
        )

    def _befall(self) -> None:
        """Strike what is not a worker: here the disk, if it is a small one."""
        if self._filler is not None:
            self._filler.look()

    def _storm(self) -> None:
        life = self._life("submitter", armed=True)
        self._stable.start(self._submitter, life, life.run_submitter)
        for horse in self._workers:
            self._start(horse, armed=True)
        ends_at = time.monotonic() + self._plan.seconds
        strikes_at = time.monotonic() + 1.0
        while (time.monotonic() < ends_at and not self._killed_enough) or self._shown_too_little(ends_at):
            time.sleep(TICK_S)
            for horse in self._workers:
                if not self._stable.watch(horse):
                    self._start(horse, armed=True)
            self._stable.look_for_leftovers()
            self._say_again()
            self._befall()
            if time.monotonic() >= strikes_at:
                self._strike()
                strikes_at = time.monotonic() + self._chance.uniform(*self.pauses_s)

    @property
    def _killed_enough(self) -> bool:
        return self._plan.kills is not None and self._stable.kills >= self._plan.kills

    def _shown_too_little(self, ends_at: float) -> bool:
        """Whether a ledger without a fence has hardly been asked for one yet; on a busy machine that takes longer."""
        if not self._plan.unfenced or time.monotonic() > ends_at + _UNFENCED_S:
            return False
        forged = self._plan.folder.forged
        return not forged.exists() or forged.stat().st_size < _UNFENCED

    def _start(self, horse: Horse, *, armed: bool) -> None:
        horse.aim = dice.aim(self._chance, self._struck(), self.places) if armed else ""
        stops = 0.8 if self._plan.unfenced else 0.2
        failpoints = dice.failpoints(self._chance, horse.aim, self.places, stops=stops) if armed else ""
        life = self._life(f"{horse.place}-{horse.lives}", armed=armed, failpoints=failpoints)
        self._stable.start(horse, life, life.run_worker)
        # One that has not begun to work yet proves nothing by its end.
        horse.spared_until = time.monotonic() + self._chance.uniform(0.4, 1.2)

    def _fired(self) -> list[str]:
        """The places at which somebody fell, or was stopped, by itself."""
        log = self._plan.folder.logs / "failpoints.jsonl"
        return [record["place"] for record in journal.read(log)] if log.exists() else []

    def _struck(self) -> Counter[str]:
        """How often each failpoint has fired, or is about to."""
        return Counter([*self._fired(), *(horse.aim for horse in self._workers if horse.pid)])

    def _strike(self) -> None:
        now = time.monotonic()
        free = [
            horse
            for horse in self._workers
            if horse.wakes_at is None and horse.told_at is None and horse.spared_until < now
        ]
        if not free:
            return
        horse = self._chance.choice(free)
        match next(self._strikes):
            case "kill":
                self._stable.kill(horse)
            case "stop":
                self._stable.stop(horse)
                horse.spared_until = now + 1.0
            case "term":
                self._stable.term(horse)
            case _:
                self._stable.term(horse)
                self._again.append((now + self._chance.uniform(0.01, 0.4), horse))

    def _say_again(self) -> None:
        """The second SIGTERM of those that get two."""
        for due, horse in list(self._again):
            if horse.told_at is None:
                self._again.remove((due, horse))
            elif time.monotonic() >= due:
                self._again.remove((due, horse))
                self._stable.term(horse)

    def _calm_down(self) -> None:
        self._end([self._submitter])
        self._end(self._workers)

    def _end(self, horses: list[Horse]) -> None:
        for horse in horses:
            if horse.pid and horse.told_at is None:
                self._stable.term(horse)
        if not self._wait(horses, seconds=_END_S):
            self._journal.note("hung", lives=[horse.name for horse in horses if horse.pid])
            for horse in horses:
                if horse.pid:
                    self._stable.kill(horse)
            self._wait(horses, seconds=5.0)

    def _wait(self, horses: list[Horse], *, seconds: float) -> bool:
        gives_up_at = time.monotonic() + seconds
        while any(horse.pid for horse in horses) and time.monotonic() < gives_up_at:
            time.sleep(TICK_S)
            # All of them: one that is stopped within a transaction holds up the others until it is woken.
            for horse in (*self._workers, self._submitter):
                if horse.pid:
                    self._stable.watch(horse)
            self._stable.look_for_leftovers()
        return not any(horse.pid for horse in horses)

    def _drain(self) -> None:
        """Fresh workers, which nobody disturbs, have to bring everything to an end in time."""
        began_at = time.monotonic()
        for horse in self._workers:
            self._start(horse, armed=False)
        left = self._open()
        while left and time.monotonic() < began_at + self._plan.drain_s and all(horse.pid for horse in self._workers):
            time.sleep(TICK_S)
            for horse in self._workers:
                self._stable.watch(horse)
            self._stable.look_for_leftovers()
            left = self._open()
        self._journal.note("drained", left=left, took_s=time.monotonic() - began_at)
        self._end(self._workers)

    def _open(self) -> int:
        db = apsw.Connection(str(self._plan.folder.file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            with suppress(apsw.BusyError):
                tasks = "SELECT count(*) FROM tasks WHERE status IN ('pending', 'running')"
                jobs = "SELECT count(*) FROM jobs WHERE status IN ('pending', 'running')"
                return sum(int(str(db.execute(query).get)) for query in (tasks, jobs))
            return 1
        finally:
            db.close()
