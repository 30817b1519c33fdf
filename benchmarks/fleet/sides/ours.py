"""Forebay's side: one kind, with a limit or without, in whichever ledger and limit store the addresses name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString
from urllib.parse import urlsplit

from benchmarks.fleet.handling import LIMIT, Handling
from benchmarks.fleet.orders import Orders, Recorded
from benchmarks.fleet.rows import Rows
from forebay import Forebay

_BATCH = 1000


def _app(orders: Orders) -> Forebay:
    # Settings come from the environment, which a worker was started with and this process was not.
    os.environ |= orders.environment()
    app = Forebay(orders.address)
    if orders.in_flight:
        from forebay import Limit  # noqa: PLC0415 - only those under a limit need it

        app.limit(Limit(LIMIT, in_flight=orders.in_flight))
    return app


def prepare(orders: Orders) -> None:
    with _app(orders) as client:
        client.ledger.find("a")


def fill(orders: Orders, count: int) -> float:
    batch, spent = orders.count("submit_batch", _BATCH), 0.0
    with _app(orders) as client:
        _register(client, orders)
        client.ledger.find("a")
        for start in range(0, count, batch):
            payloads = [{"index": index} for index in range(start, min(start + batch, count))]
            began = time.perf_counter()
            client.submit_many("work", payloads)
            spent += time.perf_counter() - began
    return spent


@contextmanager
def submitting(orders: Orders) -> Iterator[Callable[[int], object]]:
    with _app(orders) as client:
        _register(client, orders)
        yield lambda index: client.submit("work", {"index": index})


def _register(app: Forebay, orders: Orders, handling: Handling | None = None) -> None:
    async def handle(_context: object, index: int) -> bool:
        assert handling is not None
        handling.note(index)
        if handling.works:
            await handling.work()
        return True

    if orders.in_flight:
        app.task("work", limit=LIMIT)(handle)
    else:
        app.task("work")(handle)


def work(orders: Orders) -> None:
    app = _app(orders)
    _register(app, orders, Handling(orders))
    app.work(concurrency=orders.count("concurrency", 10), processes=1, name=f"bench-{os.getpid()}")


def recorded(orders: Orders) -> Recorded:
    # Under a limit a task may be claimed and given back before it starts.
    once: LiteralString = "attempt_count = 1" if orders.in_flight else "attempt_count = 1 AND claim_count = 1"
    if orders.address.startswith("sqlite"):
        from benchmarks.fleet.sqlite_rows import SqliteRows  # noqa: PLC0415 - for one of the two ledgers

        return SqliteRows(Path(urlsplit(orders.address).path), once)
    return Rows(
        orders.address,
        todo="forebay_tasks WHERE status IN ('pending', 'running')",
        ended=f"SELECT count(*), count(*) FILTER (WHERE {once} AND ended_once) FROM forebay_tasks LEFT JOIN"
        " (SELECT task_seq, count(*) = 1 AS ended_once FROM forebay_history WHERE settled GROUP BY task_seq) AS h"
        " ON task_seq = seq WHERE status = 'completed'",
    )
