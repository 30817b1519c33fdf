"""Shows that a test run leaves no server and no folder behind, however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.selftest import holder
from tests.selftest.script import Script
from tests.selftest.traces import is_alive, traces, wait_until_gone
from tests.servers import valkey
from tests.servers.process import ServerProcess, started

pytestmark = pytest.mark.slow

ROOT = Path(holder.__file__).parents[2]
START_WITHIN_S = 120.0
FORKING = """
import os, pathlib, socket, sys, time
if not os.fork():
    os.setsid()
    pathlib.Path("child.new").write_text(str(os.getpid()))
    pathlib.Path("child.new").rename("child")
    time.sleep(600)
while not os.path.exists("child"):
    time.sleep(0.01)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(600)
"""


@dataclass(frozen=True)
class Held:
    """What a run told about the server that it holds."""

    pid: int
    child: int
    paths: list[Path]


@contextmanager
def holding(name: str, manner: str = "wait", end: signal.Signals = signal.SIGKILL) -> Iterator[Held]:
    """Let a run hold a server, and end that run."""
    with subprocess.Popen(
        [sys.executable, "-m", holder.__name__, name, manner],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as run:
        assert run.stdout is not None
        try:
            told = json.loads(run.stdout.readline())
            yield Held(told["pid"], told["child"], [Path(path) for path in told["paths"]])
        finally:
            run.send_signal(end)


@pytest.mark.parametrize("name", holder.RECIPES)
def test_killed_run_leaves_nothing(name: str) -> None:
    with holding(name) as held:
        # At least by number, by folder, and by a process that works there.
        assert len(traces(held.pid, held.paths)) >= 3
    wait_until_gone(held.pid, held.paths)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_run_ended_by_a_signal_leaves_nothing(end: signal.Signals) -> None:
    with holding("valkey", end=end) as held:
        pass
    wait_until_gone(held.pid, held.paths)


@pytest.mark.parametrize("manner", ["exit", "raise"])
def test_run_that_forgets_to_close_leaves_nothing(manner: str) -> None:
    with holding("valkey", manner, end=signal.SIGCONT) as held:
        pass
    wait_until_gone(held.pid, held.paths)


def test_child_of_a_killed_run_does_not_keep_the_server() -> None:
    with holding("valkey", "wait with a forked child") as held:
        pass
    try:
        wait_until_gone(held.pid, held.paths)
        assert is_alive(held.child)
    finally:
        os.kill(held.child, signal.SIGKILL)


def test_server_outlives_the_thread_that_started_it() -> None:
    with holding("valkey") as held:
        time.sleep(0.3)
        assert is_alive(held.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to the guard")
@pytest.mark.parametrize("end", [ServerProcess.stop, ServerProcess.kill, ServerProcess.close])
def test_child_with_its_own_session_ends_with_the_server(end: Callable[[ServerProcess], None]) -> None:
    with started(Script(FORKING)) as server:
        pid = int((server.place.folder / "child").read_text())
        assert is_alive(pid)
        end(server)
        assert not is_alive(pid)


def test_killed_pytest_leaves_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report"
    (tmp_path / "test_hold.py").write_text(
        "import pathlib, time\n"
        "def test_hold(valkey_server):\n"
        "    folder = valkey_server.process.place.folder\n"
        f"    pathlib.Path({str(report)!r}).write_text(f'{{valkey_server.pid}} {{folder}}\\n')\n"
        "    time.sleep(600)\n"
    )
    plugin = ("-p", "tests.servers.fixtures", "-p", "no:cacheprovider")
    config = ("-c", os.devnull, f"--rootdir={tmp_path}")
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *plugin, *config, str(tmp_path)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != valkey.VARIABLE},
        stdout=subprocess.DEVNULL,
    ) as run:
        try:
            deadline = time.monotonic() + START_WITHIN_S
            while not (report.exists() and report.read_text().endswith("\n")):
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            run.kill()
    pid, folder = report.read_text().split()
    wait_until_gone(int(pid), [Path(folder)])
