"""A ledger on a PostgreSQL server that is killed, cut off, locked or pooled, and across a fork."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from chaos import checker
from forebay.clock import SystemClock
from forebay.errors import MaybeApplied, StoreBusy, StoreClosed, StoreError, StoreUnreachable
from forebay.model.exchange import Want
from forebay.model.job import Job, NewJob
from forebay.model.outcome import Completed
from forebay.model.query import Query
from forebay.model.task import NewTask, Status
from forebay.rules import unit as units
from forebay.stores.postgres import binding, driver
from forebay.stores.postgres import ledger as module
from forebay.stores.postgres.connection import Link
from forebay.stores.postgres.ledger import PostgresLedger
from forebay.testing.invariants import problems
from forebay.testing.workers import Worker, action, job_of, lone
from tests.servers.fresh import fresh_database, fresh_schema
from tests.servers.pooler import pooler
from tests.servers.postgres import postgres
from tests.servers.server import Server

ROOT = Path(__file__).parents[2]


@pytest.fixture
def address(postgres_server: Server) -> Iterator[str]:
    with fresh_schema(postgres_server) as address:
        yield address


@pytest.fixture
def ledger(address: str) -> Iterator[PostgresLedger]:
    with PostgresLedger(address) as ledger:
        yield ledger


@contextmanager
def locked(address: str, statement: str) -> Iterator[psycopg.Connection]:
    """Somebody else's transaction, which has done something and stays open."""
    with psycopg.connect(address) as other:
        other.execute(statement.encode())
        yield other
        other.rollback()


def worker_of(ledger: PostgresLedger) -> Worker:
    return Worker(ledger, SystemClock(), lease_s=600.0)


def within(seconds: float, what: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not what() and time.monotonic() < until:
        time.sleep(0.02)
    return what()


def terminate(address: str) -> int:
    """End all connections of ours; how many there were."""
    with psycopg.connect(address, autocommit=True, application_name="terminator") as admin:
        found = admin.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'forebay'"
        ).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.slow
def test_a_server_that_was_killed_is_used_again_when_it_is_back() -> None:
    with postgres(own=True) as server, PostgresLedger(server.url) as ledger:
        worker = worker_of(ledger)
        ledger.submit([lone(n) for n in range(4)])
        held = worker.claim(2)
        server.kill()
        with pytest.raises(StoreError):
            ledger.submit([lone("lost")])
        with pytest.raises(StoreUnreachable):
            ledger.count()
        server.start()
        settles = [worker.ending(task, Completed()) for task in held]
        reply = worker.exchange(settles=settles, wants=[Want("work", 9)])
        assert [each.fenced for each in reply.settled] == [False, False]
        assert len(reply.claims) == 2


def test_connections_that_were_ended_between_calls_are_not_noticed(address: str, ledger: PostgresLedger) -> None:
    worker = worker_of(ledger)
    ledger.submit([lone(1)])
    (task,) = worker.claim(1)
    assert terminate(address)
    time.sleep(0.15)  # a connection that was used just now is not looked at before it is used again
    assert not worker.complete(task).fenced


def test_a_step_that_is_cut_off_before_its_end_is_done_again(address: str, ledger: PostgresLedger) -> None:
    worker = worker_of(ledger)
    ledger.submit([lone(1)])
    (task,) = worker.claim(1)
    with ThreadPoolExecutor(1) as pool, locked(address, "SELECT 1 FROM forebay_tasks FOR UPDATE") as other:
        settled = pool.submit(worker.complete, task)
        assert within(5, lambda: waiting(address) == 1)
        terminate(address)
        assert within(5, lambda: waiting(address) == 1)
        other.rollback()
        assert not settled.result(10).fenced
    assert len(ledger.history(task.id)) == 1


def test_a_submit_that_is_cut_off_before_its_commit_was_sent_is_done_again(
    address: str, ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.submit([lone(1)])
    ended: list[bool] = []
    make = units.new_job

    def end_connection(new: NewJob, now: float) -> Job:
        if not ended:
            ended.append(within(5, lambda: terminate(address) == 0))
        return make(new, now)

    monkeypatch.setattr(units, "new_job", end_connection)
    assert [each.outcome for each in ledger.submit([job_of(2)])] == ["created"]
    assert ended == [True]
    assert len(worker_of(ledger).claim(9)) == 3


def test_a_submit_that_is_cut_off_is_done_once(address: str, ledger: PostgresLedger) -> None:
    ledger.submit([lone(1)])
    new = lone(2)
    with ThreadPoolExecutor(1) as pool, locked(address, "LOCK TABLE forebay_ready IN SHARE MODE") as other:
        submitted = pool.submit(ledger.submit, [new])
        assert within(5, lambda: waiting(address) == 1)
        terminate(address)
        assert within(5, lambda: waiting(address) == 1)
        other.rollback()
        assert [each.id for each in submitted.result(10)] == [new.id]
    assert len(worker_of(ledger).claim(9)) == 2


def lose_next_answer(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object] = bool) -> list[Link]:
    """End the next connection once it has committed, before its client reads the answer; the connections so ended."""
    received = driver._received
    lost: list[Link] = []

    def lose_first(link: Link, *rest: object) -> object:
        replies = received(link, *rest)  # type: ignore[arg-type]
        if lost:
            return replies
        lost.append(link)
        link.close()
        then()
        raise psycopg.OperationalError("the connection was lost")

    monkeypatch.setattr(driver, "_received", lose_first)
    return lost


@pytest.mark.parametrize(("key", "outcome"), [(None, "created"), ("once", "existing")])
def test_a_submit_whose_answer_is_lost_is_done_once(
    ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch, key: str | None, outcome: str
) -> None:
    """A drawn id can only be there by the same submit; a key may have come before."""
    ledger.submit([lone(1)])
    lost = lose_next_answer(monkeypatch)
    new = lone(2, idempotency_key=key)
    assert [(each.id, each.outcome) for each in ledger.submit([new])] == [(new.id, outcome)]
    assert lost
    assert [each.outcome for each in ledger.submit([new])] == ["existing"]
    assert len(worker_of(ledger).claim(9)) == 2


def test_a_submit_that_may_be_stored_is_in_doubt_when_the_server_is_gone(
    ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.submit([lone(1)])
    new = lone(2)
    with monkeypatch.context() as patch:
        lost = lose_next_answer(patch, lambda: patch.setitem(ledger._server._options, "port", "1"))
        with pytest.raises(MaybeApplied, match="cannot be reached"):
            ledger.submit([new])
        assert lost
        with pytest.raises(StoreUnreachable):
            ledger.submit([lone(3)])
    assert ledger.get(new.id) is not None


def test_a_submit_that_may_be_stored_is_in_doubt_when_its_repeat_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module.SETTINGS, "lock_timeout", "100ms")
    with PostgresLedger(address) as ledger:
        ledger.submit([lone(1)])
        new = lone(2)
        with ExitStack() as stack:
            lock = locked(address, "LOCK TABLE forebay_tasks")
            lost = lose_next_answer(monkeypatch, lambda: stack.enter_context(lock))
            with pytest.raises(MaybeApplied, match="lock timeout"):
                ledger.submit([new])
            assert lost
            with pytest.raises(StoreBusy):
                ledger.submit([lone(3)])
        assert ledger.get(new.id) is not None


REFUSING = """
CREATE SEQUENCE commits;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('commits') = 1 THEN RAISE EXCEPTION 'refused at the commit' USING ERRCODE = '{}'; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER refused AFTER INSERT ON forebay_tasks DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def test_a_submit_that_is_refused_at_its_commit_is_done_again(address: str, ledger: PostgresLedger) -> None:
    ledger.submit([lone(1)])
    with psycopg.connect(address) as db:
        db.execute(REFUSING.format("40001").encode())
    assert [each.outcome for each in ledger.submit([lone(2)])] == ["created"]
    assert len(worker_of(ledger).claim(9)) == 2


def test_a_submit_that_is_refused_for_good_at_its_commit_is_told_so(address: str, ledger: PostgresLedger) -> None:
    ledger.submit([lone(1)])
    with psycopg.connect(address) as db:
        db.execute(REFUSING.format("P0001").encode())
        db.commit()
        before = backend(ledger)
        with pytest.raises(StoreError, match="refused a step: refused at the commit") as refused:
            ledger.submit([lone(2)])
        assert not isinstance(refused.value, MaybeApplied)
        assert [each.outcome for each in ledger.submit([lone(3)])] == ["created"]
    assert backend(ledger) == before, "the connection is in order"
    assert [task.payload for task in worker_of(ledger).claim(9)] == [1, 3]


def backend(ledger: PostgresLedger) -> int:
    with ledger._links.use() as link:
        return link.info.backend_pid


STRICT = """
CREATE FUNCTION check_mode() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN RAISE EXCEPTION 'not read committed'; END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER checked AFTER INSERT ON forebay_tasks FOR EACH STATEMENT EXECUTE FUNCTION check_mode();
"""


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize(
    "default", ["default_transaction_read_only = on", "default_transaction_isolation = serializable"]
)
def test_a_lone_submit_passes_over_the_defaults_of_transactions(
    postgres_server: Server, default: str, *, pooled: bool
) -> None:
    with fresh_database(postgres_server) as url, PostgresLedger(url) as ledger:
        ledger.submit([lone(1)])
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(STRICT.encode())
            name = urlsplit(url).path[1:]
            db.execute(f'ALTER DATABASE "{name}" SET {default}'.encode())
        with ExitStack() as stack:
            other = stack.enter_context(PostgresLedger(stack.enter_context(pooler(url)).url if pooled else url))
            assert [each.outcome for each in other.submit([lone(2)])] == ["created"]
            assert [each.outcome for each in other.submit([lone(3, delay_s=60.0)])] == ["created"]
        assert len(worker_of(ledger).claim(9)) == 2


def waiting(address: str) -> int:
    """How many of us wait for a lock; by a new connection each time, because a transaction sees what it saw first."""
    with psycopg.connect(address, autocommit=True) as db:
        found = db.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'forebay' AND wait_event_type = 'Lock'"
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_who_waits_too_long_for_a_lock_is_told_that_nothing_was_done(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module.SETTINGS, "lock_timeout", "100ms")
    with PostgresLedger(address) as ledger:
        worker = worker_of(ledger)
        ledger.submit([lone(1)])
        (task,) = worker.claim(1)
        with locked(address, "SELECT 1 FROM forebay_tasks FOR UPDATE"), pytest.raises(StoreBusy, match="lock"):
            worker.complete(task)
        assert not worker.complete(task).fenced


@pytest.mark.slow
def test_a_deadlock_is_repeated(address: str, ledger: PostgresLedger) -> None:
    worker = worker_of(ledger)
    ledger.submit([lone(n) for n in range(2)])
    first, second = sorted(worker.claim(2), key=lambda task: task.id)
    lock = "SELECT 1 FROM forebay_tasks WHERE id = '{}' FOR UPDATE"
    with ThreadPoolExecutor(1) as pool, locked(address, lock.format(second.id)) as other:
        settles = [worker.ending(task, Completed()) for task in (first, second)]
        settled = pool.submit(worker.exchange, settles=settles)
        assert within(5, lambda: waiting(address) == 1)
        other.execute(lock.format(first.id).encode())  # the ledger waited first, so it is the one that gives way
        other.rollback()
        assert [each.fenced for each in settled.result(10).settled] == [False, False]
    assert ledger.count() == {("work", Status.COMPLETED): 2}


def test_a_renewal_does_not_wait_for_an_exchange(address: str, ledger: PostgresLedger) -> None:
    worker = worker_of(ledger)
    ledger.submit([lone(n) for n in range(2)])
    task, _ = worker.claim(2)
    with ThreadPoolExecutor(1) as pool, locked(address, "SELECT 1 FROM forebay_tasks FOR UPDATE") as other:
        settled = pool.submit(worker.complete, task)
        assert within(5, lambda: waiting(address) == 1)
        assert ledger.renew(worker.id).alive
        assert not settled.done()
        other.rollback()
        assert not settled.result(10).fenced


def test_jobs_that_others_are_busy_with_are_left_out_while_there_is_other_work(
    address: str, ledger: PostgresLedger
) -> None:
    worker = worker_of(ledger)
    jobs = [job_of(2), job_of(2)]
    ledger.submit(jobs)
    with locked(address, f"SELECT 1 FROM forebay_jobs WHERE id = '{jobs[0].id}' FOR UPDATE"):
        assert {task.job_id for task in worker.claim(9)} == {jobs[1].id}
    assert {task.job_id for task in worker.claim(9)} == {jobs[0].id}


def test_a_job_that_others_are_busy_with_is_waited_for_when_there_is_nothing_else(
    address: str, ledger: PostgresLedger
) -> None:
    worker = worker_of(ledger)
    ledger.submit([job_of(3)])
    with ThreadPoolExecutor(1) as pool, locked(address, "SELECT 1 FROM forebay_jobs FOR UPDATE") as other:
        claims = pool.submit(worker.claim, 9)
        assert within(5, lambda: waiting(address) == 1)
        other.rollback()
        assert len(claims.result(10)) == 3


def test_tasks_that_others_are_claiming_are_passed_over(address: str, ledger: PostgresLedger) -> None:
    worker = worker_of(ledger)
    ledger.submit([lone(n) for n in range(20)])
    head = "SELECT 1 FROM forebay_ready ORDER BY seq LIMIT 5 FOR UPDATE"
    with locked(address, head):
        assert [task.payload for task in worker.claim(5)] == [5, 6, 7, 8, 9]


CLAIM = """
WITH taken AS (DELETE FROM forebay_ready RETURNING seq)
INSERT INTO forebay_running SELECT seq, 1, 'somebody', 1, 1, 1e10 FROM taken
"""


def canceled_while_claimed(address: str, ledger: PostgresLedger) -> tuple[str, Status]:
    """What a cancel says that meets somebody's claim, and what is then to be seen of the task."""
    ledger.submit([lone(1)])
    (task,) = ledger.list_tasks(Query()).items
    with ThreadPoolExecutor(1) as pool, locked(address, CLAIM) as other:
        asked = pool.submit(ledger.cancel, [task.id], action())
        within(1, lambda: waiting(address) == 1 or asked.done())
        other.commit()
        (acted,) = asked.result(10)
    found = ledger.get(task.id)
    assert found is not None
    with psycopg.connect(address) as db:
        stored = db.execute("SELECT status FROM forebay_tasks").fetchone()
    assert stored is not None
    return acted.outcome, Status.RUNNING if (found.status, stored) == (
        Status.RUNNING,
        ("pending",),
    ) else Status.CANCELED


def test_a_cancel_that_meets_a_claim_asks_the_task_to_stop(address: str, ledger: PostgresLedger) -> None:
    assert canceled_while_claimed(address, ledger) == ("done", Status.RUNNING)
    assert [task.cancel_requested_at is not None for task in ledger.mine("somebody")] == [True]


def test_a_cancel_without_the_place_in_line_is_seen_to_end_a_task_that_runs(
    address: str, ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = binding.bound
    monkeypatch.setattr(
        driver, "bound", lambda name, given=None: bound("pauses" if name == "lock_lone" else name, given)
    )
    assert canceled_while_claimed(address, ledger) == ("done", Status.CANCELED)


def test_a_settle_that_meets_an_action_is_written_once_that_is_done(address: str, ledger: PostgresLedger) -> None:
    worker = worker_of(ledger)
    ledger.submit([lone(n) for n in range(3)])
    tasks = worker.claim(3)
    ask_to_stop = f"UPDATE forebay_tasks SET cancel_requested_at = 1 WHERE id = '{tasks[1].id}'"
    with ThreadPoolExecutor(1) as pool, locked(address, ask_to_stop) as other:
        settles = [worker.ending(task, Completed()) for task in tasks]
        settled = pool.submit(worker.exchange, settles=settles)
        assert within(5, lambda: waiting(address) == 1)
        other.commit()
        assert [each.fenced for each in settled.result(10).settled] == [False, False, False]
    assert ledger.count() == {("work", Status.COMPLETED): 3}
    assert [len(ledger.history(task.id)) for task in tasks] == [1, 1, 1]


def test_a_listener_hears_across_ledgers_and_again_after_its_connection_was_ended(address: str) -> None:
    heard = threading.Event()
    with PostgresLedger(address) as one, PostgresLedger(address) as two:
        stop = one.listen(heard.set)
        two.submit([lone(1)])
        assert heard.wait(30)
        heard.clear()
        terminate(address)
        assert heard.wait(30)  # something may have been missed
        heard.clear()
        two.submit([lone(2)])
        assert heard.wait(30)
        stop()


@pytest.mark.slow
@pytest.mark.parametrize("drops", [False, True])
def test_behind_a_pooler_all_but_the_wake_ups_works(postgres_server: Server, *, drops: bool) -> None:
    with (
        fresh_database(postgres_server) as url,
        pooler(url, drops=drops) as pooled,
        PostgresLedger(pooled.url) as ledger,
    ):
        work_through(ledger)


def work_through(ledger: PostgresLedger) -> None:
    worker = worker_of(ledger)
    heard = threading.Event()
    stop = ledger.listen(heard.set)
    ledger.submit([lone(1), job_of(2), NewTask(kind="work", delay_s=3600.0)])
    claims = worker.claim(9)
    assert len(claims) == 3
    assert ledger.renew(worker.id).alive
    worker.exchange(settles=[worker.ending(task, Completed()) for task in claims])
    assert ledger.cancel([claims[0].id], action())[0].id == claims[0].id
    assert len(ledger.history(claims[0].id)) == 1
    assert ledger.count()["work", Status.COMPLETED] == 3
    stop()


def test_a_forked_child_has_connections_of_its_own(address: str, ledger: PostgresLedger) -> None:
    script = """
import os, sys
from forebay.model.task import NewTask
from forebay.stores.postgres.ledger import PostgresLedger
ledger = PostgresLedger(sys.argv[1])
ledger.submit([NewTask(kind="work")])
pid = os.fork()
ledger.submit([NewTask(kind="work")])
if pid:
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sum(ledger.count().values()))
os._exit(0) if not pid else None
"""
    run = subprocess.run([sys.executable, "-c", script, address], capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["0", "3"], run.stderr


def test_a_closed_ledger_says_so(address: str) -> None:
    ledger = PostgresLedger(address)
    ledger.submit([lone(1)])
    ledger.close()
    for step in (ledger.count, lambda: ledger.submit([lone(2)]), lambda: ledger.listen(lambda: None)):
        with pytest.raises(StoreClosed):
            step()


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_nothing_is_lost_or_doubled_when_either_process_is_killed_again_and_again(address: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chaos", "ledger", "--minutes", "0.1", "--seed", "21", "--address", address]
    run = subprocess.run(
        [*command, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=150, check=False
    )
    assert run.returncode in {checker.OK, checker.VOID}, run.stdout + run.stderr


@pytest.mark.slow
def test_the_judge_catches_a_ledger_that_does_not_fence(address: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chaos", "ledger", "--minutes", "0.12", "--seed", "3", "--address", address]
    run = subprocess.run(
        [*command, "--folder", str(tmp_path), "--sabotage", "unfenced"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == checker.VIOLATION, run.stdout + run.stderr


def test_a_claim_that_does_not_get_a_chunk_counts_nothing(address: str, ledger: PostgresLedger) -> None:
    """A stranger's lock: of ours, whoever has a job has its tasks."""
    worker = worker_of(ledger)
    job = job_of(2)
    ledger.submit([job])
    with locked(address, "SELECT 1 FROM forebay_ready ORDER BY seq LIMIT 1 FOR UPDATE"), pytest.raises(StoreError):
        worker.claim(9)
    assert problems(ledger) == []
    assert len(worker.claim(9)) == 2


def test_a_session_that_ends_during_its_exchange_gets_nothing_and_counts_nothing(
    address: str, ledger: PostgresLedger
) -> None:
    worker = worker_of(ledger)
    ledger.submit([job_of(2)])
    with ThreadPoolExecutor(1) as pool, locked(address, "UPDATE forebay_sessions SET ended_at = 1") as other:
        reply = pool.submit(worker.exchange, wants=[Want("work", 9)])
        assert within(5, lambda: waiting(address) == 1)
        other.commit()
        assert not reply.result(10).alive
    assert problems(ledger) == []
