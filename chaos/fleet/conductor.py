"""Leads a run of the fleet: as on one file, with troubles of the servers and a rest before the end."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from chaos import journal
from chaos.engine import conductor as engine
from chaos.engine import dice
from chaos.fleet.life import LIMITS_BROKEN, Folder, Life
from chaos.fleet.promised import PACED, RULES
from chaos.fleet.weather import RESTART, Weather, kinds
from chaos.limits.lines import Line, serving

REST_S = 20.0
"""After the last fault, with work waiting: so long what was held back has to come free, and all to be in use."""
_LOOK_S = 0.5
_RECOVERED_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(engine.Plan):
    folder: Folder
    workers: int = 6

    @property
    def broken(self) -> frozenset[str]:
        return frozenset(filter(None, self.sabotage.split(",")))

    @property
    def unfenced(self) -> bool:
        return "unfenced" in self.broken


def lead(root: Path, *, ledger: str, seconds: float, seed: str, kills: int | None = None, sabotage: str = "") -> None:
    """All of it: servers, provider, storm, rest and end; what they left is in the folder."""
    logs = root / "logs"
    logs.mkdir(parents=True)
    with ExitStack() as stack:
        provider = stack.enter_context(
            serving("chaos.limits.provider", "--record", str(logs / "api.jsonl"), "--sticky")
        )
        site = stack.enter_context(serving("chaos.fleet.site", "--folder", str(root), "--ledger", ledger))
        told, asked = stack.enter_context(Line(site)), stack.enter_context(Line(provider))
        broken = next(iter(set(LIMITS_BROKEN) & set(sabotage.split(","))), "")
        folder = Folder(root=root, provider=provider, where=told.ask({"do": "where"}), broken=broken)
        plan = Plan(folder=folder, seconds=seconds, seed=seed, kills=kills, sabotage=sabotage)
        Conductor(plan, told, asked).run()
        told.ask({"do": "keep"})


class Conductor(engine.Conductor):
    # Where results go to S3 their bytes are never written without being stored.
    places: Mapping[str, float] = {place: share for place, share in dice.PLACES.items() if place != "result_written"}

    def __init__(self, plan: Plan, site: Line, provider: Line) -> None:
        super().__init__(plan)
        self._fleet = plan
        self._site = site
        self._provider = provider
        self._servers = sorted(plan.folder.where)
        self._weather = Weather(self._servers, site.ask, provider.ask, random.Random(f"{plan.seed}/weather"))
        # Whoever counts kills wants them soon; else there is time in which work gets done.
        self.pauses_s = (0.15, 0.45) if plan.kills else (0.25, 0.75)
        self._looks_at = 0.0
        self._all_struck = False

    def _life(self, name: str, *, armed: bool, failpoints: str = "") -> Life:
        broken = self._fleet.broken
        of_ledger = next(iter(broken & {"unfenced", "forgetful"}), "")
        # A server's troubles are those of its line; a file has none, and gets its faults by the call.
        faults = engine.FAULTS if armed and "ledger" not in self._servers else (0.0, 0.0)
        submits = name == "submitter"
        return Life(
            folder=self._fleet.folder,
            name=name,
            seed=self._fleet.seed,
            failpoints=failpoints,
            faults=faults,
            sabotage="" if submits else of_ledger,
            slow=self._fleet.unfenced,
            loses=submits and "losing" in broken,
        )

    def _befall(self) -> None:
        self._weather.look()

    @property
    def _killed_enough(self) -> bool:
        """Not before everything has happened once: a shorter run would prove less."""
        return super()._killed_enough and self._struck_all()

    def _struck_all(self) -> bool:
        if not self._all_struck and time.monotonic() >= self._looks_at:
            self._looks_at = time.monotonic() + _LOOK_S
            records = journal.read(self._fleet.folder.logs / "site.jsonl")
            seen = {(record["server"], record["fault"]) for record in records if record["e"] == "fired"}
            seen |= {(record["server"], RESTART) for record in records if record["e"] == "back"}
            self._all_struck = seen >= {*kinds(self._servers)} and {*self._fired()} >= {*self.places}
        return self._all_struck

    def _calm_down(self) -> None:
        """Fresh workers, which nobody disturbs, on servers that are well, with more to do than they may."""
        self._weather.calm()
        self._end(self._workers)
        for horse in self._workers:
            self._start(horse, armed=False)
        self._journal.note("rests")
        self._rest()
        self._journal.note("rested")
        self._end([self._submitter])
        self._end(self._workers)

    def _rest(self) -> None:
        until = time.monotonic() + (REST_S / 8 if self._fleet.sabotage else REST_S)
        refuses_at = time.monotonic() + _RECOVERED_S
        busy = {name: rules.in_flight for name, rules in RULES.items()}
        while (busy or refuses_at) and time.monotonic() < until:
            time.sleep(engine.TICK_S)
            if refuses_at and time.monotonic() >= refuses_at:
                # Of the other limit, and with nothing in the way of the news.
                self._provider.ask({"do": "refuse", "limit": PACED, "calls": 1, "retry_after_s": 1.0})
                refuses_at = 0.0
            seen = self._provider.ask({"do": "open"})["limits"]
            busy = {name: count for name, count in busy.items() if seen.get(name, 0) < (count or 0)}
            for horse in (*self._workers, self._submitter):
                if horse.pid:
                    self._stable.watch(horse)
            self._stable.look_for_leftovers()

    def _open(self) -> int:
        if "ledger" not in self._servers:
            return super()._open()
        time.sleep(0.1)
        return int(self._site.ask({"do": "open"})["open"])
