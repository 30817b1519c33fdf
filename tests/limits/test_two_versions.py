"""A limit holds for two versions of the program that share its store, whichever of them defined it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import pytest

from tests.limits.conftest import Place

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NEW = Path(__file__).resolve().parents[2] / "src"
IN_FLIGHT, N, PER_S = 3, 30, 2.0
LEASE_S = 3.3  # with the way to the provider: until then the older one may be served, and is counted
Calls = list[tuple[float, float]]


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


# The newer version keeps a limit in another form, which the older one refuses to read: what it then says.
REFUSED = {
    "redis": ["WRONGTYPE"],
    "sqlite": ["knows 1"],
    "postgres": ["knows 1"],
}


def is_refused(place: Place, text: str) -> bool:
    scheme = place.address.partition(":")[0]
    return any(each in text for each in REFUSED.get(scheme, REFUSED["postgres"]))


SHARED = """
import json, sys, threading, time
from forebay.errors import ForebayError
from forebay.limits import Limit, Limiter, Window

address, environment, in_flight, n, per_s, seconds = sys.argv[1:]
limiter = Limiter(address, environment=environment)
limit = Limit("shared", in_flight=int(in_flight), windows=[Window(int(n), per_s=float(per_s))],
              call_timeout_s=2, lease_s=3, heartbeat_s=1)
calls, errors = [], []

def call():
    ends_at = time.monotonic() + float(seconds)
    while time.monotonic() < ends_at:
        try:
            with limiter.slot("shared", timeout_s=1):
                began = time.monotonic()
                time.sleep(0.02)
                calls.append((began, time.monotonic()))
        except ForebayError as error:
            errors.append((time.monotonic(), f"{type(error).__name__}: {error}"))
            time.sleep(0.05)

try:
    limiter.define(limit)
except ForebayError as error:
    errors.append((time.monotonic(), f"{type(error).__name__}: {error}"))
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(time.monotonic()), flush=True)
threads = [threading.Thread(target=call) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
limiter.close()
print(json.dumps([calls, errors]))
"""


class Program:
    """A version of the program that calls for some seconds, from the moment that it is told to."""

    def __init__(self, sources: Path, place: Place, seconds: float) -> None:
        command = [sys.executable, "-c", SHARED, *place, str(IN_FLIGHT), str(N), str(PER_S), str(seconds)]
        environment = {**os.environ, "PYTHONPATH": str(sources)}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._said() == "ready\n"

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def goes(self) -> float:
        """Return when it began, by the clock that it shares with the others."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(json.loads(self._said()))

    def ends(self) -> tuple[Calls, list[tuple[float, str]]]:
        calls, errors = json.loads(self._process.communicate(timeout=200)[0])
        return calls, errors


@pytest.mark.parametrize("place", ["redis", "sqlite", "postgres"], indirect=True)
def test_an_older_version_that_comes_to_a_newer_ones_limit_says_so_and_calls_nothing(
    place: Place, old_sources: Path
) -> None:
    newer, older = Program(NEW, place, 6), Program(old_sources, place, 6)
    newer.goes()
    older.goes()
    calls, _ = newer.ends()
    old_calls, old_errors = older.ends()
    assert old_calls == []
    assert any(is_refused(place, text) for _, text in old_errors), old_errors[:3]
    assert peak(calls) <= IN_FLIGHT
    assert worst(calls) <= N
    assert len(calls) > N


@pytest.mark.parametrize("place", ["redis", "sqlite", "postgres"], indirect=True)
def test_a_newer_version_takes_over_an_older_ones_limit_with_the_calls_that_are_under_way(
    place: Place, old_sources: Path
) -> None:
    older = Program(old_sources, place, 12)
    older.goes()
    time.sleep(2)
    newer = Program(NEW, place, 10)
    taken_over_at = newer.goes()
    calls, errors = newer.ends()
    old_calls, old_errors = older.ends()
    assert old_calls
    assert peak(old_calls + calls) <= IN_FLIGHT
    assert worst(old_calls + calls) <= N
    assert calls, errors[:3]
    late = [began for began, _ in old_calls if began > taken_over_at + LEASE_S]
    assert late == [], "an older version calls on, though nobody counts that"
    told = [text for at, text in old_errors if at > taken_over_at + LEASE_S]
    assert told
    assert all("waits for store" in text for text in told), told[:3]


@pytest.mark.parametrize("place", ["redis", "sqlite"], indirect=True)
def test_versions_that_do_not_know_of_each_other_are_seen_to_be_too_many(place: Place, old_sources: Path) -> None:
    address, environment = place
    apart = Place(address.replace("limits.db", "other.db"), f"{environment}-2")
    older, newer = Program(old_sources, place, 3), Program(NEW, apart, 3)
    older.goes()
    newer.goes()
    found = [*newer.ends()[0], *older.ends()[0]]
    assert peak(found) > IN_FLIGHT
    assert worst(found) > N
