"""DBOS's side: workflows of one queue with a global concurrency, on PostgreSQL."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dbos import DBOS, DBOSClient, DBOSConfig  # type: ignore[import-not-found]  # only in the environment for benchmarks

from benchmarks.fleet.handling import Handling
from benchmarks.fleet.orders import Orders
from benchmarks.fleet.rows import Rows

_VERSION = "bench"


def _launch(orders: Orders) -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": orders.address,
        "application_version": _VERSION,
        "executor_id": str(os.getpid()),
        "log_level": "ERROR",
        "enable_otlp": False,
    }
    DBOS(config=config)
    handling = Handling(orders) if orders.marks.exists() else None

    async def work(index: int) -> None:
        assert handling is not None
        handling.note(index)
        if handling.works:
            await handling.work()

    DBOS.workflow(name="work")(work)
    DBOS.launch()


def prepare(orders: Orders) -> None:
    """In this process, which must not work: it makes the tables and registers the queue, and is done with it."""
    _launch(orders)
    DBOS.register_queue(
        "work",
        global_concurrency=orders.in_flight or None,
        polling_interval_sec=orders.number("poll_s", 1.0),
    )
    DBOS.destroy(destroy_registry=True)


def fill(orders: Orders, count: int) -> float:
    client = DBOSClient(system_database_url=orders.address, application_name="bench")
    began = time.perf_counter()
    for index in range(count):
        client.enqueue({"queue_name": "work", "workflow_name": "work", "app_version": _VERSION}, index)
    spent = time.perf_counter() - began
    client.destroy()
    return spent


@contextmanager
def submitting(orders: Orders) -> Iterator[Callable[[int], object]]:
    client = DBOSClient(system_database_url=orders.address, application_name="bench")
    options = {"queue_name": "work", "workflow_name": "work", "app_version": _VERSION}
    yield lambda index: client.enqueue(options, index)
    client.destroy()


def work(orders: Orders) -> None:
    _launch(orders)
    threading.Event().wait()


def recorded(orders: Orders) -> Rows:
    return Rows(
        orders.address,
        todo="dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')",
        ended="SELECT count(*), count(DISTINCT workflow_uuid) FROM dbos.workflow_status WHERE status = 'SUCCESS'",
    )
