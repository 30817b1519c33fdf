"""Huey's side: tasks submitted to an SQLite file that syncs every commit; its workers are in benchmarks.work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.fleet.orders import Orders
from benchmarks.work import theirs


def prepare(orders: Orders) -> None:
    queue, _ = theirs.connect(_file(orders))
    queue.storage.close()


@contextmanager
def submitting(orders: Orders) -> Iterator[Callable[[int], object]]:
    queue, task = theirs.connect(_file(orders))
    yield task
    queue.storage.close()


class Recorded(theirs.Recorded):
    def waiting(self) -> int:
        return self._count("task")


def recorded(orders: Orders) -> Recorded:
    return Recorded(_file(orders))


def _file(orders: Orders) -> Path:
    return Path(urlsplit(orders.address).path)
