"""The same load as a script does it: threads that know nothing of each other, and back off when they are refused."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

import httpx2

from forebay.demo.clients import Client, GaveUp
from forebay.demo.stopping import Stop

_LOOK_S: Final = 0.1
_WAYS: Final = {"docai": Client.docai, "adobe": Client.adobe}


@dataclass(frozen=True, slots=True)
class Ended:
    """How many documents came out whole, out of how many, and the time it took."""

    done_count: int
    document_count: int
    took_s: float


def run(base: str, piles: Mapping[str, Sequence[Path]], thread_count: int, stop: Stop, *, within_s: float) -> Ended:
    over = threading.Event()
    chance = random.Random(1)  # noqa: S311 - it spreads the calls

    def done(api: str, document: Path) -> bool:
        with Client(base, over, chance) as client:
            try:
                _WAYS[api](client, document)
            except (GaveUp, httpx2.TransportError):
                return False
        return True

    began = time.monotonic()
    pool = ThreadPoolExecutor(thread_count)
    rows = zip_longest(*([(api, path) for path in paths] for api, paths in piles.items()))
    tasks = [pool.submit(done, *each) for each in chain.from_iterable(rows) if each is not None]
    try:
        while not all(task.done() for task in tasks) and time.monotonic() - began < within_s:
            stop.pause(_LOOK_S)
    finally:
        over.set()
        pool.shutdown(cancel_futures=True)
    ended = [task.result() for task in tasks if not task.cancelled()]
    return Ended(sum(ended), len(tasks), time.monotonic() - began)
