"""One ledger is used by many threads, closed under their hands and carried across a fork: nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.errors import ForebayError, StoreClosed
from forebay.model.task import NewTask
from forebay.stores.sqlite.ledger import SqliteLedger
from forebay.testing.invariants import all_tasks
from tests.faults import children


def submit(ledger: SqliteLedger) -> str:
    return ledger.submit([NewTask(kind="work")])[0].id


def stored(path: Path) -> set[str]:
    ledger = SqliteLedger(path)
    try:
        assert ledger.check() == []
        return {task.id for task in all_tasks(ledger)}
    finally:
        ledger.close()


def in_threads(count: int, work: Callable[[list[str]], None]) -> list[str]:
    """What the threads wrote down; whatever one of them raises beyond `ForebayError` fails the test."""
    notes: list[str] = []
    threads = [threading.Thread(target=work, args=(notes,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return notes


def test_many_threads_share_one_ledger(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")

    def work(notes: list[str]) -> None:
        for _ in range(25):
            task_id = submit(ledger)
            assert ledger.get(task_id) is not None
            notes.append(task_id)

    acknowledged = in_threads(8, work)
    ledger.close()
    assert len(acknowledged) == 200
    assert stored(tmp_path / "ledger.db") == set(acknowledged)


@pytest.mark.slow
def test_calls_that_meet_a_close_are_answered_or_told_so(tmp_path: Path) -> None:
    now: list[SqliteLedger] = [SqliteLedger(tmp_path / "ledger.db")]
    kept = submit(now[0])
    over = threading.Event()
    refused: list[type[ForebayError]] = []

    def work(notes: list[str]) -> None:
        while not over.is_set():
            ledger = now[0]
            try:
                notes.append(submit(ledger))
                assert ledger.get(kept) is not None
                ledger.renew("a" * 26)
                ledger.check()
            except ForebayError as error:
                refused.append(type(error))

    def close_often() -> None:
        for _ in range(40):
            over.wait(0.02)
            old, now[0] = now[0], SqliteLedger(tmp_path / "ledger.db")
            old.close()
        over.set()

    closer = threading.Thread(target=close_often)
    closer.start()
    acknowledged = in_threads(4, work)
    closer.join()
    now[0].close()
    assert set(refused) <= {StoreClosed}
    assert len(acknowledged) > 40
    assert set(acknowledged) <= stored(tmp_path / "ledger.db")


def test_a_ledger_can_be_closed_before_it_was_used_and_twice(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    ledger.close()
    ledger.close()
    with pytest.raises(StoreClosed):
        submit(ledger)
    assert list(tmp_path.iterdir()) == []


def test_parent_and_child_both_work_on_after_a_fork(tmp_path: Path) -> None:
    """The parent closes first: what the child is told afterwards must not go into a log that the parent deleted."""
    script = """
ledger = SqliteLedger(path)
ids = [ledger.submit([NewTask(kind="parent")])[0].id]
to_parent, to_child = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    first = ledger.submit([NewTask(kind="child")])[0].id
    os.write(to_parent[1], first.encode())
    os.read(to_child[0], 1)
    second = ledger.submit([NewTask(kind="child")])[0].id
    os.write(to_parent[1], second.encode())
    os._exit(0)
ids.append(os.read(to_parent[0], 26).decode())
ids.append(ledger.submit([NewTask(kind="parent")])[0].id)
ledger.close()
os.write(to_child[1], b"x")
ids.append(os.read(to_parent[0], 26).decode())
_, status = os.waitpid(pid, 0)
ledger = SqliteLedger(path)
ids.append(ledger.submit([NewTask(kind="parent")])[0].id)
ledger.close()
tell([status, ids])
"""
    status, ids = children.run(script, tmp_path / "ledger.db")
    assert status == 0
    assert len(ids) == 5
    assert stored(tmp_path / "ledger.db") == set(ids)


@pytest.mark.slow
def test_forks_in_the_middle_of_the_work_of_other_threads_lose_nothing(tmp_path: Path) -> None:
    script = """
import threading, warnings
warnings.simplefilter("ignore")
ledger = SqliteLedger(path)
over, ids = threading.Event(), []
def work():
    while not over.is_set():
        task_id = ledger.submit([NewTask(kind="thread")])[0].id
        assert ledger.get(task_id) is not None
        ledger.renew("a" * 26)
        ids.append(task_id)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
statuses = []
for _ in range(15):
    time.sleep(0.01)
    ends = os.pipe()
    pid = os.fork()
    if pid == 0:
        mine = [ledger.submit([NewTask(kind="child")])[0].id for _ in range(3)]
        ledger.close()
        os.write(ends[1], "".join(mine).encode())
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    statuses.append(status)
    told = os.read(ends[0], 3 * 26).decode()
    ids += [told[at:at + 26] for at in range(0, len(told), 26)]
over.set()
for thread in threads:
    thread.join()
ledger.close()
tell([statuses, ids])
"""
    statuses, ids = children.run(script, tmp_path / "ledger.db")
    assert statuses == [0] * 15
    assert len(ids) > 60
    assert stored(tmp_path / "ledger.db") == set(ids)
