"""Timeouts, cancels, crashes and drains: what runs is really stopped, and nothing is lost or burnt."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.app.working import make_worker
from forebay.errors import BadInput, StoreReadOnly
from forebay.model.exchange import Action, Usage
from forebay.model.task import Status
from tests.engine.ground import HANDLERS, Ground, run

Make = Callable[..., Ground]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _deaf_processes() -> set[int]:
    """Those that the handler `stuck` started and that went away into sessions of their own."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"signal.SIGTERM, signal.SIG_IGN" in command and _alive(int(entry.name)):
                found.add(int(entry.name))
    return found


@pytest.mark.slow
def test_a_handler_stuck_in_c_is_gone_with_its_grandchildren_and_siblings_go_on(ground: Make) -> None:
    here = ground()
    before = _deaf_processes()
    stuck = here.app.submit("stuck")
    sibling = here.app.submit("sleeps_blocking", {"seconds": 2.5})

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: any(line.startswith("pids") for line in here.notes))
            assert len(_deaf_processes() - before) == 2
            started = here.task(stuck.id).claimed_at or 0.0
            pids = [int(word) for line in here.notes if line.startswith("pids") for word in line.split()[1:]]
            await here.until(lambda: not _deaf_processes() - before and not any(map(_alive, pids)))
            assert time.time() - started < 30  # of the 600 that they would sleep
            await here.ended(stuck.id)
            await here.ended(sibling.id)

    run(scenario)
    assert here.task(stuck.id).error_class == "timeout"
    assert [attempt.error_class for attempt in here.app.history(stuck.id)] == ["timeout"]
    assert here.outcomes(sibling.id) == ["completed"]


@pytest.mark.slow
def test_an_async_handler_that_runs_too_long_is_cancelled(ground: Make) -> None:
    here = ground()
    slow = here.app.submit("sleeps", {"seconds": 30}, timeout_s=0.2, max_retries=0)
    stubborn = here.app.submit("stubborn")
    after = here.app.submit("echo", {"value": 1}, priority=-1)

    async def scenario() -> None:
        async with here.worker(concurrency=2):
            await here.ended(slow.id)
            await here.ended(stubborn.id)
            await here.ended(after.id)

    run(scenario)
    assert [here.task(each.id).error_class for each in (slow, stubborn)] == ["timeout", "timeout"]
    assert here.task(slow.id).error_text == "It ran longer than 0.2 s"


@pytest.mark.slow
def test_a_memory_hog_ends_as_its_class_and_gets_a_fresh_child(ground: Make) -> None:
    here = ground(handler_memory_mb=512)
    hog = here.app.submit("hog")
    after = here.app.submit("echo_blocking", {"value": 1})

    async def scenario() -> None:
        async with here.worker(processes=1):
            await here.ended(hog.id)
            await here.ended(after.id)

    run(scenario)
    assert here.task(hog.id).error_class == "handler_memory"
    assert here.outcomes(hog.id) == ["retried", "failed"]
    pids = [line.split()[1] for line in here.notes if line.startswith("hog")]
    assert len(set(pids)) == 2


@pytest.mark.slow
def test_a_crash_of_a_handler_is_retried_in_a_fresh_child_as_often_as_the_task_allows(ground: Make) -> None:
    here = ground()
    crash = here.app.submit("crash", max_retries=2)

    async def scenario() -> None:
        async with here.worker(processes=1):
            await here.ended(crash.id)

    run(scenario)
    assert here.task(crash.id).error_class == "handler_crashed"
    assert "SIGSEGV" in (here.task(crash.id).error_text or "")
    assert here.outcomes(crash.id) == ["retried", "retried", "failed"]
    assert len({line for line in here.notes if line.startswith("crash")}) == 3


def test_how_a_crashed_process_ended_is_told_however_long_its_end_takes(ground: Make) -> None:
    here = ground()
    crash = here.app.submit("ends_slowly")

    async def scenario() -> None:
        async with here.worker(processes=1):
            await here.ended(crash.id)

    run(scenario)
    assert here.task(crash.id).error_text == "Its process ended: exit code 3"


@pytest.mark.slow
def test_a_handler_may_use_only_so_much_cpu(ground: Make) -> None:
    here = ground(handler_cpu_s=1)
    burns = here.app.submit("burns")

    async def scenario() -> None:
        async with here.worker():
            await here.ended(burns.id)

    run(scenario)
    assert here.task(burns.id).error_class == "timeout"
    assert "CPU" in (here.task(burns.id).error_text or "")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sleeps", "sleeps_blocking", "checks"])
def test_a_running_task_is_canceled_soon(ground: Make, kind: str) -> None:
    here = ground()
    task = here.app.submit(kind, {"seconds": 30} if kind != "checks" else None)

    async def scenario() -> None:
        async with here.worker():
            await here.started(task.id)
            here.app.cancel(task.id)
            assert here.task(task.id).cancel_requested_at is not None
            await here.ended(task.id, within_s=20)  # of its 30

    run(scenario)
    assert here.task(task.id).status is Status.CANCELED
    assert here.outcomes(task.id) == ["canceled"]
    if kind == "checks":
        assert "stopped at a checkpoint" in here.notes[-1]


@pytest.mark.slow
def test_a_drain_lets_short_work_end_and_hands_back_the_rest_unburnt(ground: Make) -> None:
    here = ground(drain_grace_s=1.0)
    short = here.app.submit("sleeps", {"seconds": 0.3})
    long_async = here.app.submit("sleeps", {"seconds": 30})
    long_blocking = here.app.submit("sleeps_blocking", {"seconds": 30})

    async def scenario() -> float:
        async with here.worker() as worker:
            for task in (short, long_async, long_blocking):
                await here.started(task.id)
            worker.drain()
            began = time.monotonic()
        return time.monotonic() - began

    assert run(scenario) < 5
    assert here.outcomes(short.id) == ["completed"]
    for task in (long_async, long_blocking):
        found = here.task(task.id)
        assert (found.status, found.retry_count, found.lost_count) == (Status.PENDING, 0, 0)
        assert here.outcomes(task.id) == ["released"]
    assert here.app.ledger.sessions() == []


def test_a_second_drain_hands_back_at_once(ground: Make) -> None:
    here = ground(drain_grace_s=100)
    task = here.app.submit("sleeps", {"seconds": 100})

    async def scenario() -> float:
        async with here.worker() as worker:
            await here.started(task.id)
            worker.drain()
            worker.drain()
            began = time.monotonic()
        return time.monotonic() - began

    assert run(scenario) < 50
    assert here.task(task.id).status is Status.PENDING


@pytest.mark.slow
def test_a_worker_whose_session_was_taken_away_starts_over(ground: Make) -> None:
    here = ground()
    task = here.app.submit("sleeps", {"seconds": 1.0})

    async def scenario() -> None:
        async with here.worker() as worker:
            await here.started(task.id)
            first = worker.session_id
            here.app.ledger.close_session(first)
            await here.ended(task.id)
            assert worker.session_id != first

    run(scenario)
    assert here.task(task.id).status is Status.COMPLETED
    assert here.outcomes(task.id) == ["released", "completed"]


@pytest.mark.slow
def test_a_paused_lane_rests_until_it_is_resumed(ground: Make) -> None:
    here = ground()
    here.app.ledger.pause("echo", Action(who="test"))
    task = here.app.submit("echo", {"value": 1})

    async def scenario() -> None:
        async with here.worker():
            await asyncio.sleep(0.7)
            assert here.task(task.id).status is Status.PENDING
            assert here.app.why(task.id)[0].code == "paused"
            here.app.ledger.resume("echo", Action(who="test"))
            await here.ended(task.id)

    run(scenario)


def test_what_is_older_than_its_retention_is_deleted(ground: Make) -> None:
    here = ground(retention_completed_s=0)
    task = here.app.submit("echo", {"value": 1})

    async def scenario() -> None:
        async with here.worker():
            await here.until(lambda: here.app.ledger.get(task.id) is None)

    # The first look of a worker may come before the task ends; the next is a minute later.
    async def twice() -> None:
        async with here.worker():
            await here.ended(task.id)
        await scenario()

    run(twice)


@pytest.mark.slow
def test_children_and_what_they_started_end_with_a_worker_that_was_killed(ground: Make, tmp_path: Path) -> None:
    here = ground()
    task = here.app.submit("shells")
    code = (
        "import sys; from forebay.app.target import load; from forebay.app.working import work; "
        "work(load(sys.argv[1]), target=sys.argv[1])"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", code, f"{HANDLERS}:app"], env={**os.environ, "FOREBAY_HOME": str(tmp_path)}
    )
    try:
        run(lambda: here.started(task.id))
        children = [int(pid) for pid in Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()]
        assert len(children) == 2
        children += [int(line.split()[1]) for line in here.notes if line.startswith("grandchild")]
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    run(lambda: here.until(lambda: not any(map(_alive, children))))


@pytest.mark.slow
def test_what_a_stopped_attempt_has_used_is_booked(ground: Make) -> None:
    here = ground()
    tasks = [here.app.submit("pays"), here.app.submit("pays_blocking")]

    async def scenario() -> None:
        async with here.worker():
            for task in tasks:
                await here.ended(task.id)

    run(scenario)
    assert [here.task(task.id).error_class for task in tasks] == ["timeout", "timeout"]
    assert here.app.ledger.used() == [Usage("pages", "pages", 5)]


def test_a_worker_whose_children_cannot_load_the_application_says_so_and_ends(ground: Make, tmp_path: Path) -> None:
    here = ground()
    task = here.app.submit("echo_blocking", {"value": 1})
    broken = tmp_path / "broken_module.py"
    broken.write_text("raise RuntimeError('no licence file')")

    async def scenario() -> None:
        worker = make_worker(here.app, target=f"{broken}:app")
        with pytest.raises(BadInput, match="no licence file"):
            await worker.run()

    run(scenario)
    assert here.task(task.id).status is Status.PENDING


@pytest.mark.slow
def test_a_wedged_loop_lets_its_session_go_and_its_late_result_changes_nothing(ground: Make) -> None:
    here = ground(lease_s=1)
    task = here.app.submit("wedges")
    rescued: list[str] = []

    def others() -> None:
        while not rescued:
            rescued.extend(here.app.ledger.rescue())
            time.sleep(0.05)

    async def scenario() -> None:
        async with here.worker():
            await here.ended(task.id)

    looking = threading.Thread(target=others)
    looking.start()
    run(scenario)
    looking.join(10)
    assert rescued == [task.id]
    assert here.outcomes(task.id) == ["lost", "completed"]
    assert here.task(task.id).result == 2


@pytest.mark.slow
def test_a_drain_gives_up_on_a_ledger_that_refuses_everything(ground: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here = ground()

    def refuse(*_: object, **__: object) -> None:
        raise StoreReadOnly("The ledger takes nothing.", remedy="Give it the right to.")

    async def scenario() -> float:
        worker = make_worker(here.app, target=f"{HANDLERS}:app")
        running = asyncio.create_task(worker.run())
        await here.until(here.app.ledger.sessions)
        monkeypatch.setattr(here.app.ledger, "exchange", refuse)
        here.app.submit("echo")
        await asyncio.sleep(0.5)
        told_at = time.monotonic()
        worker.drain()
        with pytest.raises(StoreReadOnly):
            await running
        return time.monotonic() - told_at

    assert run(scenario) < 40


@pytest.mark.slow
def test_tasks_that_a_frozen_child_has_not_taken_are_handed_back_when_the_worker_ends(ground: Make) -> None:
    here = ground()

    async def scenario() -> None:
        worker = make_worker(here.app, target=f"{HANDLERS}:app", processes=1)
        running = asyncio.create_task(worker.run())
        pool = worker._pool
        assert pool is not None
        # Once they are known to be quick, several queue up at a child.
        here.app.submit_many("echo_blocking", [{"value": n} for n in range(100)])
        await here.until(lambda: here.app.ledger.count() == {("echo_blocking", Status.COMPLETED): 100})
        (child,) = pool._children
        os.kill(child.pid, signal.SIGSTOP)
        tasks = here.app.submit_many("echo_blocking", [{"value": n} for n in range(3)])
        await here.until(lambda: len(child.queue) > 1)
        worker.drain()
        async with asyncio.timeout(20):
            await running
        assert all(here.task(task.id).status is Status.PENDING for task in tasks)

    run(scenario)
