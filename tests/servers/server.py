"""Hands a test one server: a given one, named by the environment, or one of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.servers.process import ServerError, ServerProcess, started
from tests.servers.recipe import Recipe


@dataclass(frozen=True)
class Server:
    url: str
    process: ServerProcess | None = None
    """None for a given server, which the tests must not stop."""

    @property
    def pid(self) -> int:
        return self._own.pid

    @property
    def is_running(self) -> bool:
        return self._own.is_running

    def start(self) -> None:
        self._own.start()

    def stop(self) -> None:
        self._own.stop()

    def kill(self) -> None:
        self._own.kill()

    @property
    def _own(self) -> ServerProcess:
        if self.process is None:
            raise ServerError(f"{self.url} is a given server: a test that stops one must ask for own=True")
        return self.process


@contextmanager
def serving(recipe: Recipe, variable: str, *, own: bool) -> Iterator[Server]:
    """Use the server that the environment variable names, unless the test needs its own."""
    given = None if own else os.environ.get(variable)
    if given:
        yield Server(given)
        return
    with started(recipe) as process:
        yield Server(recipe.url(process.place), process)
