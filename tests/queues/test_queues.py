"""No slot is lost in tasks of RQ, Dramatiq and Celery, however their processes end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis
from rq import Queue

from forebay.limits import Limit, Limiter
from tests.queues.calls import LIMIT
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_name
from tests.servers.server import Server

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
FEW = pytest.param(20, id="20 tasks")
MANY = pytest.param(200, id="200 tasks", marks=[pytest.mark.slow, pytest.mark.timeout(300)])
_PATIENCE_S = 240.0

pytestmark = pytest.mark.timeout(120)


class Corner:
    """One test's queue and limit on the server."""

    def __init__(self, server: Server, client: redis.Redis) -> None:
        self.address = server.url
        self.name = fresh_name()
        self.client = client
        self.extra: dict[str, str] = {}

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "QUEUES_ADDRESS": self.address, "QUEUES_NAME": self.name, **self.extra}

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker in a session of its own; whatever happens, it and its children have ended afterwards."""
        worker = subprocess.Popen(command, cwd=ROOT, env=self.environment, start_new_session=True)
        try:
            yield worker
        finally:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()

    @property
    def done_count(self) -> int:
        return int(self.client.llen(f"{self.name}:done"))

    def wait_until_done(self, count: int, *workers: subprocess.Popen[bytes]) -> None:
        gives_up_at = time.monotonic() + _PATIENCE_S
        while self.done_count < count:
            assert time.monotonic() < gives_up_at, f"{self.done_count} of {count} tasks were done"
            assert all(worker.poll() is None for worker in workers), "a worker has ended"
            time.sleep(0.01)

    def slots_lost(self) -> int:
        with Limiter(self.address, environment=self.name) as limiter:
            return limiter.usage(LIMIT).in_flight

    def define(self, in_flight: int) -> None:
        with Limiter(self.address, environment=self.name) as limiter:
            limiter.define(Limit(LIMIT, in_flight=in_flight))


@pytest.fixture
def corner(valkey_server: Server) -> Iterator[Corner]:
    with redis_client(valkey_server.url) as client:
        here = Corner(valkey_server, client)
        here.define(in_flight=3)
        yield here
        for pattern in (f"{here.name}*", f"*:{here.name}*", f"*{{forebay:{here.name}:*", "rq:*", "_kombu*"):
            for key in client.scan_iter(match=pattern, count=1000):
                client.unlink(key)


def run_in_rq(corner: Corner, tasks: int, when: str) -> None:
    queue = Queue(corner.name, connection=corner.client)
    for _ in range(tasks):
        queue.enqueue("tests.queues.calls.call", result_ttl=0)
    command = (sys.executable, "-m", "tests.queues.rq_worker", corner.address, corner.name, when)
    with ExitStack() as stack:
        workers = [stack.enter_context(corner.running(*command)) for _ in range(2)]
        for worker in workers:
            worker.wait(_PATIENCE_S)
    assert corner.done_count == tasks


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [FEW, MANY])
@pytest.mark.parametrize("when", ["before", "after"], ids=["loaded before the fork", "loaded in the work horse"])
def test_rq_loses_no_slot(corner: Corner, tasks: int, when: str) -> None:
    run_in_rq(corner, tasks, when)
    assert corner.slots_lost() == 0


def test_slots_that_are_lost_are_found(corner: Corner) -> None:
    """The negative control: work horses whose limiter does not tell the store that their calls have ended."""
    corner.define(in_flight=100)
    corner.extra = {"QUEUES_SEND_NOTHING": "1"}
    run_in_rq(corner, 3, "after")
    assert corner.slots_lost() == 3


@pytest.mark.parametrize("tasks", [FEW, MANY])
def test_celery_loses_no_slot_with_a_child_for_each_task(corner: Corner, tasks: int) -> None:
    command = (
        str(BIN / "celery"),
        *("-A", "tests.queues.celery_app", "worker", "--pool", "prefork", "--concurrency", "8"),
        *("--max-tasks-per-child", "1", "--loglevel", "ERROR", "--without-gossip", "--without-mingle"),
        "--without-heartbeat",
    )
    send = f"from tests.queues.celery_app import call\nfor _ in range({tasks}): call.delay()"
    subprocess.run([sys.executable, "-c", send], cwd=ROOT, env=corner.environment, check=True, timeout=150)
    with corner.running(*command) as worker:
        corner.wait_until_done(tasks, worker)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    assert corner.slots_lost() == 0


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [FEW, MANY])
def test_dramatiq_loses_no_slot_also_when_it_is_killed(corner: Corner, tasks: int) -> None:
    send = f"from tests.queues.dramatiq_app import call\nfor _ in range({tasks}): call.send()"
    subprocess.run([sys.executable, "-c", send], cwd=ROOT, env=corner.environment, check=True, timeout=150)
    command = (str(BIN / "dramatiq"), "tests.queues.dramatiq_app", "--processes", "2", "--threads", "4")
    with corner.running(*command) as worker:
        corner.wait_until_done(tasks, worker)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    assert corner.slots_lost() == 0
