"""Starts, stops and kills one server process through its guard."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.servers import guard
from tests.servers.ports import ReservedPorts
from tests.servers.recipe import Command, Place, Recipe

READY_WITHIN_S = 30.0
STOP_WITHIN_S = 15.0
CLOSE_WITHIN_S = 20.0
LOOK_EVERY_S = 0.02
LOG_LINES = 20
START_TRIES = 3
PORT_IS_TAKEN = re.compile(r"address already in use|is already in use|is not available", re.IGNORECASE)


class ServerError(RuntimeError):
    """A test server is missing, did not start, or ended too early."""


class PortTakenError(ServerError):
    """Another program took the port between its choice and the start."""


class ServerProcess:
    """One server in its own folder; `start` after `stop` or `kill` finds the same port and files."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._pid: int | None = None
        self._talk = threading.Lock()
        self._ports = ReservedPorts(recipe.port_count, recipe.companion_offset)
        # Isolated and without site-packages: it needs only the standard library, at once.
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self.place = Place(Path(self._answer()["folder"]), self._ports.numbers)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        if self._pid is None:
            raise ServerError(f"{self.recipe.name} is not running: it was stopped or killed")
        return self._pid

    @property
    def is_running(self) -> bool:
        return self._pid is not None and self._exit_code() is None

    @property
    def log_tail(self) -> str:
        lines = (self.place.folder / "server.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])

    def prepare(self) -> None:
        for command in self.recipe.prepare(self.place):
            self._launch(command)
            deadline = time.monotonic() + READY_WITHIN_S
            while (code := self._exit_code()) is None and time.monotonic() < deadline:
                time.sleep(LOOK_EVERY_S)
            if code != 0:
                raise self._failure(f"its command {Path(command.argv[0]).name} ended with {code}")

    def start(self) -> None:
        if self.is_running:
            raise ServerError(f"{self.recipe.name} runs already, as process {self._pid}")
        pid = self._launch(self.recipe.command(self.place))
        self._wait_until_ready()
        self._pid = pid

    def stop(self) -> None:
        """End it the way an operator would."""
        self._end(self.recipe.stop_signal, STOP_WITHIN_S)

    def kill(self) -> None:
        """End it at once, with everything that it forked, as a crash would."""
        self._end(signal.SIGKILL, STOP_WITHIN_S)

    def close(self) -> None:
        """End it for good and remove its folder."""
        self._pid = None
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._guard.wait(CLOSE_WITHIN_S)
        finally:
            self._ports.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _launch(self, command: Command) -> int:
        reply = self._ask(
            do="start",
            argv=command.argv,
            env=command.environment(self.place),
            user=command.user,
            end_signal=self.recipe.end_signal,
            litter=[str(path) for path in self.recipe.litter(self.place)],
        )
        if "error" in reply:
            raise ServerError(f"{self.recipe.name} could not be started: {reply['error']}")
        return int(reply["pid"])

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        last: Exception | None = None
        while time.monotonic() < deadline:
            ready = False
            try:
                self.recipe.check_ready(self.place)
                ready = True
            except Exception as error:  # noqa: BLE001 - each client has its own way to say "not yet"
                last = error
            # After the check: an answer counts only while our own process lives.
            code = self._exit_code()
            if code is not None:
                raise self._failure(f"it ended with {code}")
            if ready:
                return
            time.sleep(LOOK_EVERY_S)
        failure = self._failure(f"it was not ready within {READY_WITHIN_S:.0f} s ({last!r})")
        self._end(signal.SIGKILL, STOP_WITHIN_S)
        raise failure

    def _failure(self, reason: str) -> ServerError:
        log = self.log_tail
        kind = PortTakenError if PORT_IS_TAKEN.search(log) else ServerError
        return kind(f"{self.recipe.name} did not start: {reason}. Its log server.log ends with:\n{log}")

    def _exit_code(self) -> int | None:
        code: int | None = self._ask(do="poll")["exit_code"]
        return code

    def _end(self, first: signal.Signals, patience_s: float) -> None:
        self._pid = None
        self._ask(do="end", signal=first, patience_s=patience_s)

    def _ask(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever JSON can carry
        with self._talk:
            pipe = self._guard.stdin
            if pipe is None or pipe.closed:
                raise ServerError(f"{self.recipe.name} was closed")
            pipe.write(json.dumps(request).encode() + b"\n")
            pipe.flush()
            return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._guard.stdout.readline() if self._guard.stdout else b""
        if not line:
            raise ServerError(f"the guard of {self.recipe.name} ended with {self._guard.poll()}")
        reply: dict[str, Any] = json.loads(line)
        return reply


def started(recipe: Recipe) -> ServerProcess:
    """Give a running server; close it at the end."""
    for left in reversed(range(START_TRIES)):
        server = ServerProcess(recipe)
        try:
            server.prepare()
            server.start()
        except PortTakenError:
            server.close()
            if not left:
                raise
        except BaseException:
            server.close()
            raise
        else:
            return server
    raise AssertionError
