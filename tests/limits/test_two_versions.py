"""A limit holds for two versions of the program that share its store, whichever of them defined it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest

from tests.limits.conftest import Place

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NEW = Path(__file__).resolve().parents[2] / "src"
IN_FLIGHT, N, PER_S = 3, 30, 2.0
PROGRAM = """
import json, sys, threading, time
from forebay.limits import Limit, Limiter, Window

address, environment, limit, in_flight, n, per_s = sys.argv[1:]
limiter = Limiter(address, environment=environment)
limiter.define(Limit(limit, in_flight=int(in_flight), windows=[Window(int(n), per_s=float(per_s))]))
print("ready", flush=True)
sys.stdin.readline()
calls = []

def call():
    ends_at = time.monotonic() + 6
    while time.monotonic() < ends_at:
        with limiter.slot(limit, timeout_s=60):
            began = time.monotonic()
            time.sleep(0.02)
            calls.append((began, time.monotonic()))

threads = [threading.Thread(target=call) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
limiter.close()
print(json.dumps(calls))
"""
Calls = list[tuple[float, float]]


def together(sources: Iterable[Path], place: Place, limits: tuple[str, str]) -> tuple[Calls, Calls]:
    """Run both programs at once, the first one defining its limit first; return what each of them called."""
    programs = []
    for source, limit in zip(sources, limits, strict=True):
        command = [sys.executable, "-c", PROGRAM, *place, limit, str(IN_FLIGHT), str(N), str(PER_S)]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        program = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        programs.append(program)
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    first, second = (json.loads(program.communicate(timeout=200)[0]) for program in programs)
    return first, second


def peak(calls: Calls) -> int:
    steps = sorted(chain(((began, 1) for began, _ in calls), ((ended, -1) for _, ended in calls)))
    most = current = 0
    for _, step in steps:
        current += step
        most = max(most, current)
    return most


def worst(calls: Calls) -> int:
    begun = sorted(began for began, _ in calls)
    return max(sum(at <= each < at + PER_S for each in begun) for at in begun)


@pytest.mark.parametrize("place", ["sqlite", "redis", "postgres"], indirect=True)
@pytest.mark.parametrize("older_first", [True, False], ids=["older first", "newer first"])
def test_both_keep_to_one_limit(place: Place, old_sources: Path, older_first: bool) -> None:  # noqa: FBT001 - parametrized
    sources = (old_sources, NEW) if older_first else (NEW, old_sources)
    first, second = together(sources, place, ("shared", "shared"))
    assert first
    assert second
    assert peak(first + second) <= IN_FLIGHT
    assert worst(first + second) <= N


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_two_limits_of_their_own_are_seen_to_be_more(place: Place, old_sources: Path) -> None:
    first, second = together((old_sources, NEW), place, ("one", "other"))
    assert peak(first + second) > IN_FLIGHT
    assert worst(first + second) > N
