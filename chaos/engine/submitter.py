"""Submits tasks and jobs without end, some of them twice, and writes down which were accepted."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections.abc import Callable
from threading import Event
from typing import NamedTuple, Protocol

from chaos.journal import Journal
from forebay.app.forebay import Forebay
from forebay.errors import StoreError
from forebay.model.exchange import Submitted
from forebay.model.task import Status

_MOST_OPEN = 60
_WEIGHTS = {
    "quick": 6,
    "large": 8,
    "block": 4,
    "render": 4,
    "later": 3,
    "flaky": 3,
    "refuse": 1,
    "stuck": 0.3,
    "pages": 3,
    "scans": 2,
}
_MS = (4, 20, 80, 300)
_SLOW_MS = 1500
_BLOCKING = {"block", "render", "refuse", "stuck", "pages", "scans"}


class Asked(NamedTuple):
    """Its key, its kind, how many chunks it is promised, and how to submit it."""

    key: str
    kind: str
    chunks: int
    submit: Callable[[], Submitted]


class Order(Protocol):
    """Make up what to submit next."""

    def __call__(self, app: Forebay, number: int, chance: random.Random, /, *, slow: bool) -> Asked: ...


def run(app: Forebay, journal: Journal, chance: random.Random, order: Order, *, slow: bool) -> None:
    """Until SIGTERM; what was asked for last is answered by then."""
    over = Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    numbers = itertools.count(1)
    again: list[Asked] = []
    while not over.is_set():
        if _open(app) > _MOST_OPEN:
            over.wait(0.05)
            continue
        for _ in range(chance.randrange(1, 8)):
            asked = order(app, next(numbers), chance, slow=slow)
            _ask(journal, asked)
            if chance.random() < 0.15:
                again.append(asked)
        if again and chance.random() < 0.3:
            _ask(journal, again.pop(chance.randrange(len(again))))
        over.wait(chance.uniform(0, 0.05))
    app.close()


def order(app: Forebay, number: int, chance: random.Random, *, slow: bool) -> Asked:
    """Slow calls still run when a worker wakes up that has lost them. Handler children are too few for such."""
    kind = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    key = f"{kind}/{number}"
    ms = chance.choice(_MS if kind in _BLOCKING else [*_MS, _SLOW_MS])
    if slow and kind not in _BLOCKING:
        ms = _SLOW_MS
    pages = [1000 * number + index for index in range(chance.choice([1, 2, 5, 8]))]
    if kind == "pages":
        payload = {"numbers": pages, "ms": ms}
        return Asked(key, kind, len(pages), lambda: app.start("pages", payload, idempotency_key=key))
    if kind == "scans":
        chunks = [{"number": page, "ms": ms // 4} for page in pages]
        job = {"number": number}
        return Asked(key, kind, len(pages), lambda: app.start("scans", job, chunks=chunks, idempotency_key=key))
    given = {"number": number, "ms": ms}
    if kind in {"later", "flaky"}:
        given["times"] = chance.randrange(1, 4)
    return Asked(key, kind, 0, lambda: app.submit(kind, given, idempotency_key=key))


def _ask(journal: Journal, asked: Asked) -> None:
    """By the same key until it is answered."""
    key = asked.key
    while True:
        journal.note("asked", key=key, kind=asked.kind, chunks=asked.chunks)
        try:
            answer = asked.submit()
        except StoreError as error:
            journal.note("unanswered", key=key, code=error.code)
            time.sleep(0.01)
        else:
            journal.note("told", key=key, id=answer.id, outcome=answer.outcome)
            return


def _open(app: Forebay) -> int:
    try:
        counted = app.ledger.count()
    except StoreError:
        return 0
    return sum(count for (_, status), count in counted.items() if status in {Status.PENDING, Status.RUNNING})
