"""Leads a run: starts the provider and the callers' processes, strikes them at given instants, and ends them all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from chaos.limits.adapter import Settings
from chaos.limits.lines import ROOT, Line, Message, serving
from chaos.limits.worker import Orders

READY_WITHIN_S = 30.0
_END_S = 5.0
_TICK_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """Befalls one process at an instant after the beginning; without a name the one with most calls in progress."""

    at_s: float
    what: Literal["kill", "stop"]
    for_s: float = 1.0
    """How long it is frozen."""
    who: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """From an instant on, a process dawdles, and kills itself as soon as it has sent a call so late.

    It has one caller: others of it would wait, and be given slots when it is dead.
    """

    who: str
    at_s: float
    late_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """From an instant on the provider answers so many calls, or all for so long, with this status."""

    at_s: float
    status: int = 429
    retry_after_s: float = 1.0
    calls: int | None = 1
    for_s: float | None = None
    worked: bool = False
    """It comes when the work would have been done, so that several are refused before any caller knows."""

    def order(self, limit: str) -> Message:
        order: Message = {
            "do": "refuse",
            "limit": limit,
            "status": self.status,
            "retry_after_s": self.retry_after_s,
            "calls": self.calls,
            "for_s": self.for_s,
            "worked": self.worked,
        }
        return {name: value for name, value in order.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something else that happens at an instant; marked by its name, and by `<name>, done` when it is over."""

    at_s: float
    name: str
    do: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where, who calls how, for how long, and what befalls them."""

    folder: Path
    adapter: str
    address: str = ""
    settings: Settings = field(default_factory=dict)
    processes: int = 2
    callers: int = 4
    tasks: bool = False
    mixed: bool = False
    """Every other process has tasks where the others have threads."""
    loops: int = 0
    forks: int = 0
    """Each process is so many, forked after all is loaded, which live and die with it."""
    seconds: float = 5.0
    limit: str = "chaos"
    work_s: float = 0.05
    units: int = 1
    sizes: tuple[int, ...] = ()
    """The units of a call, by process in turn, where they differ."""
    sticky: bool = False
    strikes: tuple[Strike, ...] = ()
    deaths: tuple[Death, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    acts: tuple[Act, ...] = ()
    turn: tuple[float, float] | None = None
    """(every_s, before_s): begin so long before the wall clock is a multiple of it, where calendar windows turn."""

    @property
    def record(self) -> Path:
        return self.folder / "provider.jsonl"


class Load:
    """All processes are started by it and ended by their numbers."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._frozen: dict[str, float] = {}
        self._killed: set[str] = set()

    def run(self) -> Path:
        """All of it; gives what the provider wrote down."""
        plan = self._plan
        plan.folder.mkdir(parents=True, exist_ok=True)
        sticky = ["--sticky"] if plan.sticky else []
        with ExitStack() as stack:
            provider = stack.enter_context(serving("chaos.limits.provider", "--record", str(plan.record), *sticky))
            self._control = stack.enter_context(Line(provider))
            stack.callback(self._kill_all)
            self._start(provider, stack)
            self._wait_for_the_turn()
            self._mark("go")
            for process in self._workers.values():
                _stdin(process).write(b"go\n")
                _stdin(process).flush()
            self._strike_and_wait()
            self._mark("over")
            self._end()
        return plan.record

    def _mark(self, name: str, **more: str | int) -> None:
        self._control.ask({"do": "mark", "name": name, **more})

    def _start(self, provider: str, stack: ExitStack) -> None:
        plan = self._plan
        for number in range(plan.processes):
            units = plan.sizes[number % len(plan.sizes)] if plan.sizes else plan.units
            name = f"w{number}"
            death = next((each for each in plan.deaths if each.who == name), None)
            orders = Orders(
                name=name,
                provider=provider,
                adapter=plan.adapter,
                address=plan.address,
                settings=plan.settings | {"units": units},
                callers=plan.callers if death is None else 1,
                tasks=plan.tasks or (plan.mixed and number % 2 == 1),
                loops=plan.loops,
                forks=plan.forks,
                dies_at_s=None if death is None else death.at_s,
                dies_late_s=0.0 if death is None else death.late_s,
                limit=plan.limit,
                work_s=plan.work_s,
                units=units,
            )
            complaints = stack.enter_context((plan.folder / f"{orders.name}.stderr").open("wb"))
            self._workers[orders.name] = subprocess.Popen(
                [sys.executable, "-m", "chaos.limits.worker", orders.text()],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
        for name, process in self._workers.items():
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                process.wait(_END_S)
                raise RuntimeError(f"{name} did not start:\n{(plan.folder / f'{name}.stderr').read_text()}")

    def _wait_for_the_turn(self) -> None:
        if self._plan.turn is None:
            return
        every_s, before_s = self._plan.turn
        time.sleep((-before_s - time.time()) % every_s)

    def _strike_and_wait(self) -> None:
        begun_at = time.monotonic()
        strikes = sorted(self._plan.strikes, key=lambda one: one.at_s)
        refusals = sorted(self._plan.refusals, key=lambda one: one.at_s)
        acts = sorted(self._plan.acts, key=lambda one: one.at_s)
        while (now_s := time.monotonic() - begun_at) < self._plan.seconds:
            while strikes and strikes[0].at_s <= now_s:
                self._strike(strikes.pop(0))
            while refusals and refusals[0].at_s <= now_s:
                self._control.ask(refusals.pop(0).order(self._plan.limit))
            while acts and acts[0].at_s <= now_s:
                self._act(acts.pop(0))
            for name in [name for name, until in self._frozen.items() if until <= time.monotonic()]:
                self._thaw(name)
            time.sleep(_TICK_S)

    def _act(self, act: Act) -> None:
        self._mark(act.name)
        act.do()
        self._mark(f"{act.name}, done")

    def _strike(self, strike: Strike) -> None:
        name = strike.who or self._busiest()
        if name is None or self._workers[name].poll() is not None:
            return
        self._mark(strike.what, who=name)
        if strike.what == "kill":
            self._killed.add(name)
            os.kill(self._workers[name].pid, signal.SIGKILL)
        else:
            os.kill(self._workers[name].pid, signal.SIGSTOP)
            self._frozen[name] = time.monotonic() + strike.for_s

    def _busiest(self) -> str | None:
        has_open: dict[str, int] = self._control.ask({"do": "open"})["open"]
        free = [name for name in self._workers if name not in self._killed and name not in self._frozen]
        return max(free, key=lambda name: has_open.get(name, 0), default=None)

    def _thaw(self, name: str) -> None:
        del self._frozen[name]
        self._mark("cont", who=name)
        with suppress(ProcessLookupError):
            os.kill(self._workers[name].pid, signal.SIGCONT)

    def _end(self) -> None:
        for name in list(self._frozen):
            self._thaw(name)
        for process in self._workers.values():
            with suppress(BrokenPipeError):
                _stdin(process).close()
        gives_up_at = time.monotonic() + _END_S + self._plan.work_s
        for name, process in self._workers.items():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, gives_up_at - time.monotonic()))
            self._mark("exit", who=name, code=99 if process.poll() is None else process.returncode)
        while self._control.ask({"do": "open"})["open"] and time.monotonic() < gives_up_at:
            time.sleep(_TICK_S)

    def _kill_all(self) -> None:
        for process in self._workers.values():
            if process.poll() is None:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()


def _stdin(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin
