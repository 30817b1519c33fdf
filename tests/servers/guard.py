"""Owns the folder and the processes of one test server, and ends both once its owner is gone.

Runs as a program of its own, because a test run that is killed cannot clean up after itself.
It reads one JSON request a line and answers each with one JSON line. The end of its input, or
another parent than the owner, means that the owner is gone: whichever thread had started it,
and even when a child of the owner still holds a copy of the pipe.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOOK_FOR_OWNER_S = 1.0
END_PATIENCE_S = 5.0
PR_SET_CHILD_SUBREAPER = 36

Message = dict[str, Any]


class Charge:
    """The one process that this guard looks after, with everything that it forked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.end_signal = signal.SIGKILL
        self.litter: set[str] = set()

    def obey(self, request: Message) -> Message:
        match request["do"]:
            case "start":
                return {"pid": self.start(request)}
            case "poll":
                return {"exit_code": self.process and self.process.poll()}
            case _:
                self.end(request["signal"], request["patience_s"])
                return {}

    def start(self, request: Message) -> int:
        self.end(signal.SIGKILL, END_PATIENCE_S)
        self.end_signal = signal.Signals(request["end_signal"])
        self.litter |= set(request["litter"])
        groups: list[int] | None = None if request["user"] is None else []
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                request["argv"],
                env=request["env"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=request["user"],
                group=request["user"],
                extra_groups=groups,
            )
        return self.process.pid

    def end(self, first: int, patience_s: float) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            # Only before it is reaped: afterwards its number may belong to somebody else.
            send = os.killpg if first == signal.SIGKILL else os.kill
            with contextlib.suppress(PermissionError):  # macOS, of a group that has just ended
                send(self.process.pid, first)
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.process = None
        end_orphans()


def adopt_orphans() -> None:
    """Become the parent of what a killed server leaves: PostgreSQL's children have own sessions."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    deadline = time.monotonic() + END_PATIENCE_S
    while (orphans := children()) and time.monotonic() < deadline:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def children() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything, so count from its end.
            after_name = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(after_name[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def requests(owner: int) -> Iterator[Message]:
    while os.getppid() == owner:
        readable, _, _ = select.select([sys.stdin], [], [], LOOK_FOR_OWNER_S)
        if readable:
            line = sys.stdin.buffer.readline()
            if not line:
                return
            yield json.loads(line)


def answer(reply: Message) -> None:
    # Unbuffered: nothing is left to fail a second time at exit when the owner is gone.
    os.write(1, json.dumps(reply).encode() + b"\n")


def main(owner: int) -> None:
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    charge = Charge(Path(tempfile.mkdtemp(prefix="forebay-test-")))
    try:
        answer({"folder": str(charge.folder)})
        for request in requests(owner):
            try:
                reply = charge.obey(request)
            except OSError as error:
                reply = {"error": str(error)}
            answer(reply)
    except BrokenPipeError:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        charge.end(charge.end_signal, END_PATIENCE_S)
        shutil.rmtree(charge.folder, ignore_errors=True)
        for path in charge.litter:
            Path(path).unlink(missing_ok=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
