"""Limits are used by many threads, closed under their hands and carried across a fork: every change counts once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from forebay.errors import ForebayError, StoreClosed
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.case import problems, stored
from tests.faults import limit_children
from tests.faults.limit_children import define, process


def test_the_sessions_of_many_threads_share_one_store(tmp_path: Path) -> None:
    most, count = [0], [0]
    lock = threading.Lock()
    with SqliteLimits(tmp_path / "limits.db") as store:
        define(store, 3)

        def work(sid: str) -> None:
            me = process(store, sid)
            for _ in range(30):
                me.joins()
                while not me.asks():
                    pass
                with lock:
                    count[0] += 1
                    most[0] = max(most[0], count[0])
                with lock:
                    count[0] -= 1
                me.gives_back([*me.calls])

        threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 0 < most[0] <= 3
        assert [len(seat["calls"]) for seat in stored(store)["sessions"].values()] == [0] * 6


def test_calls_that_meet_a_close_are_answered_or_told_so(tmp_path: Path) -> None:
    now = [SqliteLimits(tmp_path / "limits.db")]
    define(now[0], 3)
    over = threading.Event()
    refused: set[type[ForebayError]] = set()
    answered = [0]

    def work(sid: str) -> None:
        me = process(now[0], sid)
        while not over.is_set():
            me.store = now[0]
            try:
                assert me.exchanges()["status"] == "ok"
                me.beats()
                me.store.names()
                answered[0] += 1
            except ForebayError as error:
                refused.add(type(error))

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        over.wait(0.02)
        old, now[0] = now[0], SqliteLimits(tmp_path / "limits.db")
        old.close()
    over.set()
    for thread in threads:
        thread.join()
    now[0].close()
    assert refused <= {StoreClosed}
    assert answered[0] > 30


def test_a_store_can_be_closed_before_it_was_used_and_twice(tmp_path: Path) -> None:
    store = SqliteLimits(tmp_path / "limits.db")
    store.close()
    store.close()
    for call in (store.names, lambda: store.read("api"), lambda: process(store, "me").beats()):
        with pytest.raises(StoreClosed):
            call()
    assert list(tmp_path.iterdir()) == []


def test_parent_and_child_both_work_on_after_a_fork(tmp_path: Path) -> None:
    """The parent closes first: what the child does afterwards must not go into a log that the parent deleted."""
    script = """
define(store, 4)
me = process(store, "parent")
me.wants()
to_child, to_parent = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    child = process(store, "child")
    child.wants()
    os.write(to_parent[1], b"x")
    os.read(to_child[0], 1)
    child.wants()
    os._exit(0)
os.read(to_parent[0], 1)
me.wants()
store.close()
os.write(to_child[1], b"x")
_, status = os.waitpid(pid, 0)
store = SqliteLimits(path)
tell([status, {sid: len(seat["calls"]) for sid, seat in stored(store)["sessions"].items()}])
store.close()
"""
    status, calls = limit_children.run(script, tmp_path / "limits.db")
    assert status == 0
    assert calls == {"parent": 2, "child": 2}


@pytest.mark.slow
def test_forks_in_the_middle_of_the_work_of_other_threads_lose_nothing(tmp_path: Path) -> None:
    script = """
import warnings
warnings.simplefilter("ignore")
define(store, None, Window(1_000_000, 3600))
over = threading.Event()
crowd = [process(store, f"thread{number}") for number in range(3)]
def work(me):
    while not over.is_set():
        me.gives_back(me.wants())
        me.beats()
threads = [threading.Thread(target=work, args=(me,)) for me in crowd]
for thread in threads:
    thread.start()
statuses = []
for number in range(15):
    time.sleep(0.01)
    pid = os.fork()
    if pid == 0:
        child = process(store, f"child{number}")
        for _ in range(3):
            child.gives_back(child.wants())
        store.close()
        os._exit(0)
    statuses.append(os.waitpid(pid, 0)[1])
over.set()
for thread in threads:
    thread.join()
store.close()
tell([statuses, sum(grant["call_count"] for me in crowd for grant in me.grants) + 15 * 3])
"""
    statuses, granted = limit_children.run(script, tmp_path / "limits.db")
    assert statuses == [0] * 15
    assert granted > 60
    with SqliteLimits(tmp_path / "limits.db") as store:
        record = stored(store)
        assert problems(record) == []
        assert [log["sum"] for log in record["window_logs"].values()] == [granted]


def test_a_child_leaves_the_ears_of_its_parent_alone_and_has_its_own(tmp_path: Path) -> None:
    script = """
define(store, 1)
heard = queue.SimpleQueue()
stop = store.listen("parent", lambda limit, grants, now: heard.put("parent"))
def handed_over(to, first):
    held = first.wants()
    waiting = process(store, to)
    assert waiting.wants() == []
    first.gives_back(held)
    told = heard.get(timeout=30)
    waiting.gives_back(waiting.asks())
    return told
pid = os.fork()
if pid == 0:
    stop()
    store.listen("child", lambda limit, grants, now: heard.put("child"))
    told = handed_over("child", process(store, "first"))
    store.close()
    os._exit(0 if told == "child" else 1)
_, status = os.waitpid(pid, 0)
tell([status, handed_over("parent", process(store, "second")), os.listdir(f"{path}-wake")])
store.close()
"""
    assert limit_children.run(script, tmp_path / "limits.db") == [0, "parent", ["parent"]]
