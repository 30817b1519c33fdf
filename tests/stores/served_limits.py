"""What the tests of limit stores on a server share: sessions that are woken, threads, and a fork."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay.errors import StoreClosed
from forebay.model.limit_record import Grant
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.case import define, known
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process

_FORKING = """
import os, sys, time
from {module} import {store}
store = {store}(sys.argv[1])
heard = []
stop = store.listen("parent", lambda *told: heard.append(told))
store.read("a")
pid = os.fork()
if pid == 0:
    for _ in range(200):
        assert store.read("a")[0] is None
    store.listen("child", lambda *told: None)
    store.close()
    os._exit(0)
for _ in range(200):
    assert store.read("a")[0] is None
assert os.waitpid(pid, 0)[1] == 0
assert store.read("a")[0] is None
{tell}
deadline = time.monotonic() + 20
while not heard and time.monotonic() < deadline:
    time.sleep(0.01)
assert heard == [("a", [], 1)], heard
store.close()
print("sound")
"""


class Heard:
    """What a session was woken with, and when."""

    def __init__(self) -> None:
        self.at = 0.0
        self.grants: list[Grant] = []
        self.event = threading.Event()

    def __call__(self, limit: str, grants: list[Grant], now: int) -> None:
        self.at = time.perf_counter()
        self.grants = grants
        self.event.set()


def process(store: LimitStore, sid: str) -> Process:
    return Process(store, HandClock(store.read(LIMIT)[1]), sid)


def hand_over(store: LimitStore, heard: Heard, sid: str = "waiter") -> float:
    """One session gives back what another waits for; how long that takes to hear of it."""
    holder, waiter = process(store, f"holder of {sid}"), process(store, sid)
    held = holder.wants()
    assert held
    waiter.wants()
    heard.event.clear()
    begun = time.perf_counter()
    holder.gives_back(held)
    assert heard.event.wait(30)
    waiter.asks()
    waiter.gives_back([*waiter.calls])
    return heard.at - begun


def wakes_come_at_once(store: LimitStore) -> None:
    define(store, 1)
    took = []
    for number in range(5):
        heard = Heard()
        store.listen(f"s{number}", heard)
        took.append(hand_over(store, heard, f"s{number}"))
        assert heard.grants[0]["call_count"] == 1
    assert min(took) < 0.3  # typically a millisecond; a loaded machine delays some of the five, not all


def threads_share(store: LimitStore) -> None:
    define(store, 1000)

    def use(sid: str) -> None:
        process = Process(store, HandClock(), sid)
        for _ in range(30):
            process.wants()

    with ThreadPoolExecutor(6) as threads:
        for each in [threads.submit(use, f"s{at}") for at in range(6)]:
            each.result()
    assert sum(len(seat["calls"]) for seat in known(store.read(LIMIT)[0])["sessions"].values()) == 180


def closing_ends_its_thread(store: LimitStore) -> None:
    """`store` is new."""
    before = threading.active_count()
    define(store, 1)
    stop = store.listen("waiter", Heard())
    assert threading.active_count() == before + 1
    store.close()
    stop()
    assert threading.active_count() == before
    with pytest.raises(StoreClosed):
        store.read(LIMIT)
    with pytest.raises(StoreClosed):
        store.listen("waiter", Heard())


def a_child_of_a_fork_is_apart(store: type[LimitStore], tell: str, url: str) -> None:
    """`tell` is what has the parent's session hear of limit `a`, at 1, without a grant."""
    script = _FORKING.format(module=store.__module__, store=store.__name__, tell=tell)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, url],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("sound\n", "")
