"""What many a script does with a paid API: call it, back off when it refuses, and give up after some tries."""

from __future__ import annotations

import base64
import random
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2

from forebay.demo import pile

_TRIES: Final = 6
_FIRST_S: Final = 0.5
_LONGEST_S: Final = 8.0
_POLL_S: Final = 0.5
_MAX_PAGES: Final = 30
_TIMEOUT_S: Final = 30.0
_GOOD: Final = range(200, 300)
_PDF: Final = "application/pdf"
_PROCESS: Final = "/v1/projects/p/locations/us/processors/demo:process"
_CLIENT: Final = {"client_id": "demo", "client_secret": "demo"}


class GaveUp(Exception):
    """After so many tries, or because it is over."""


class Client:
    """For one thread; `over` ends its waits."""

    def __init__(self, base: str, over: threading.Event, chance: random.Random) -> None:
        self._http = httpx2.Client(base_url=base, timeout=_TIMEOUT_S, trust_env=False)
        self._over = over
        self._chance = chance

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.close()

    def docai(self, document: Path) -> None:
        for part in pile.cut(document, _MAX_PAGES):
            raw = {"mimeType": _PDF, "content": base64.b64encode(part).decode()}
            asked = {"rawDocument": raw, "imagelessMode": True}
            self._called("POST", _PROCESS, json=asked, headers={"authorization": "Bearer demo"})

    def adobe(self, document: Path) -> None:
        token = self._called("POST", "/token", data=_CLIENT).json()["access_token"]
        named = {"authorization": f"Bearer {token}", "x-api-key": _CLIENT["client_id"]}
        asset = self._called("POST", "/assets", json={"mediaType": _PDF}, headers=named).json()
        self._called("PUT", asset["uploadUri"], content=document.read_bytes(), headers={"content-type": _PDF})
        begun = self._called("POST", "/operation/autotag", json={"assetID": asset["assetID"]}, headers=named)
        while True:
            job = self._called("GET", begun.headers["location"], headers=named).json()
            if job["status"] != "in progress":
                break
            self._over.wait(_POLL_S)
        self._called("GET", job["tagged-pdf"]["downloadUri"])

    def _called(self, method: str, url: str, **request: Any) -> httpx2.Response:  # noqa: ANN401 - of httpx2
        for attempt in range(_TRIES):
            if self._over.is_set():
                break
            answer = self._http.request(method, url, **request)
            if answer.status_code in _GOOD:
                return answer
            longest_s = min(_LONGEST_S, _FIRST_S * 2**attempt)
            self._over.wait(longest_s * self._chance.uniform(0.5, 1.0))
        raise GaveUp
