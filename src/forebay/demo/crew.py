"""The worker processes of a demonstration: started, one of them killed, all of them ended, each by its process id."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from forebay.errors import ForebayError
from forebay.ids import printable

_ENDS_WITHIN_S: Final = 5.0
_CONCURRENCY: Final = 6
_TOLD: Final = 400


class Crew:
    """What the workers say goes to a file each, in the folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def names(self) -> list[str]:
        return list(self._processes)

    def start(self, name: str, *target: str, concurrency: int = _CONCURRENCY) -> None:
        options = ["--name", name, "--concurrency", str(concurrency)]
        command = [sys.executable, "-m", "forebay", "worker", *target, *options]
        with self._log(name).open("wb") as log:
            # A session of its own: Ctrl-C is for the demonstration, which ends its workers itself.
            self._processes[name] = subprocess.Popen(  # noqa: S603 - ours
                command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> int:
        """By -9, as a power cut would; returns the process id that it had."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        return process.pid

    def check(self) -> None:
        """No worker may end by itself."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                said = self._log(name).read_bytes()[-_TOLD:].decode(errors="replace")
                raise ForebayError(
                    f"Worker {name} ended by itself, with {process.returncode}: {printable(said.strip())}",
                    remedy="Run `forebay doctor`.",
                )

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"
