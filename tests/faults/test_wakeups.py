"""An idle worker in another process hears of new work at once, and sockets of the dead are cleared away."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay import ids
from forebay.model.exchange import Release, Session, Want
from forebay.model.task import NewTask
from forebay.stores.sqlite.ledger import SqliteLedger
from tests.faults import children

LISTEN = """
ledger = SqliteLedger(path)
ledger.listen(lambda: tell(time.monotonic()))
tell("ready")
sys.stdin.read()
ledger.close()
"""
LONG = Path(*(letter * 90 for letter in "xyz"))


@pytest.fixture(params=[Path(), LONG], ids=["short", "long"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteLedger]:
    """Also at a path that is longer than a socket's address may be."""
    ledger = SqliteLedger(tmp_path / request.param / "ledger.db")
    yield ledger
    ledger.close()


def sockets(ledger: SqliteLedger) -> list[Path]:
    return list(ledger._path.with_name("ledger.db-wake").iterdir())


def test_a_listener_in_another_process_is_woken_in_a_few_milliseconds(ledger: SqliteLedger) -> None:
    ledger.submit([NewTask(kind="work")])
    child = children.start(LISTEN, ledger._path)
    try:
        assert children.told(child) == "ready"
        delays = []
        for _ in range(11):
            began_at = time.monotonic()
            ledger.submit([NewTask(kind="work")])
            committed_at = time.monotonic()
            delays.append(children.told(child) - committed_at)
            assert delays[-1] > began_at - committed_at, "woken for this submission, not for an earlier one"
            time.sleep(0.01)
        assert statistics.median(delays) < 0.05
    finally:
        children.end(child)


def test_work_that_comes_back_wakes_a_listener_too(ledger: SqliteLedger) -> None:
    session = Session(id=ids.random_id(), worker="w")
    ledger.open_session(session)
    ledger.submit([NewTask(kind="work")])
    (task,) = ledger.exchange(session.id, 1, wants=[Want("work", 1)]).claims
    child = children.start(LISTEN, ledger._path)
    try:
        assert children.told(child) == "ready"
        ledger.exchange(session.id, 2, releases=[Release(task.id, task.claim_count)])
        assert children.told(child) > 0
    finally:
        children.end(child)


def test_a_killed_listener_leaves_a_socket_that_the_next_submission_clears_away(ledger: SqliteLedger) -> None:
    ledger.submit([NewTask(kind="work")])
    child = children.start(LISTEN, ledger._path)
    assert children.told(child) == "ready"
    assert len(sockets(ledger)) == 1
    children.end(child)
    assert len(sockets(ledger)) == 1
    ledger.submit([NewTask(kind="work")])
    gives_up_at = time.monotonic() + 20
    while sockets(ledger) and time.monotonic() < gives_up_at:
        time.sleep(0.005)  # others are woken after the answer is given
    assert sockets(ledger) == []


def test_a_listener_that_closes_takes_its_socket_along(ledger: SqliteLedger) -> None:
    ledger.listen(lambda: None)
    assert len(sockets(ledger)) == 1
    ledger.close()
    assert sockets(ledger) == []


def test_a_listener_in_a_forked_child_leaves_that_of_its_parent_alone(tmp_path: Path) -> None:
    script = """
ledger = SqliteLedger(path)
heard = []
ledger.listen(lambda: heard.append(1))
pid = os.fork()
if pid == 0:
    ledger.listen(lambda: None)
    ledger.close()
    os._exit(0)
_, status = os.waitpid(pid, 0)
other = SqliteLedger(path)
other.submit([NewTask(kind="work")])
deadline = time.monotonic() + 20
while not heard and time.monotonic() < deadline:
    time.sleep(0.005)
tell([status, len(heard)])
other.close()
ledger.close()
"""
    assert children.run(script, tmp_path / "ledger.db") == [0, 1]


def test_a_folder_that_takes_no_sockets_costs_only_the_wake_ups(ledger: SqliteLedger) -> None:
    ledger.submit([NewTask(kind="work")])
    ledger._path.with_name("ledger.db-wake").write_text("in the way")
    ledger.listen(lambda: None)
    assert ledger.submit([NewTask(kind="work")])[0].outcome == "created"
