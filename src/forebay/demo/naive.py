"""The same load as a script does it: threads that know nothing of each other, and back off when they are refused."""

from __future__ import annotations

import base64
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from forebay.demo import pile
from forebay.demo.stopping import Stop
from forebay.simulate.starting import Simulated

_TRIES: Final = 6
_FIRST_S: Final = 0.5
_LONGEST_S: Final = 8.0
_MAX_PAGES: Final = 30
_OK: Final = 200
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Ended:
    """How many documents came out whole, out of how many, and the time it took."""

    done_count: int
    document_count: int
    took_s: float


class Naive:
    def __init__(self, simulated: Simulated) -> None:
        self._over = threading.Event()
        self._random = random.Random(1)  # noqa: S311 - to spread the calls, as clients do
        self._base = simulated.base
        self.done_count = 0
        self._lock = threading.Lock()

    def run(self, documents: Sequence[Path], thread_count: int, stop: Stop, *, within_s: float) -> Ended:
        began = time.monotonic()
        pool = ThreadPoolExecutor(thread_count)
        try:
            tasks = [pool.submit(self._document, document) for document in documents]
            while not all(task.done() for task in tasks) and time.monotonic() - began < within_s:
                stop.pause(_LOOK_S)
        finally:
            self._over.set()
            pool.shutdown(cancel_futures=True)
        return Ended(self.done_count, len(documents), time.monotonic() - began)

    def _document(self, document: Path) -> None:
        with httpx2.Client(base_url=self._base, timeout=30.0, trust_env=False) as client:
            if all(self._read(client, part) for part in pile.cut(document, _MAX_PAGES)):
                with self._lock:
                    self.done_count += 1

    def _read(self, client: httpx2.Client, part: bytes) -> bool:
        body = {
            "rawDocument": {"mimeType": "application/pdf", "content": base64.b64encode(part).decode()},
            "imagelessMode": True,
        }
        return (
            self._called(client, "POST", "/v1/projects/p/locations/us/processors/demo:process", json=body) is not None
        )

    def _called(self, client: httpx2.Client, method: str, url: str, **request: Any) -> httpx2.Response | None:  # noqa: ANN401 - of httpx2
        """None after so many tries, or when it is over."""
        for attempt in range(_TRIES):
            if self._over.is_set():
                return None
            answer = client.request(method, url, headers={"authorization": "Bearer demo"}, **request)
            if answer.status_code == _OK:
                return answer
            longest_s = min(_LONGEST_S, _FIRST_S * 2**attempt)
            self._over.wait(longest_s * self._random.uniform(0.5, 1.0))
        return None
