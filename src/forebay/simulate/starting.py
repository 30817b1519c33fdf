"""Starts the simulator as a process of its own, and asks it what it saw."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2

_ENDS_WITHIN_S = 10.0
_ANSWERS_WITHIN_S = 30.0


class Simulated:
    """A running simulator: `base` is its address, `environment` points clients at it."""

    def __init__(self, found: Mapping[str, Any], pid: int) -> None:
        self.base: str = found["base"]
        self.addresses: dict[str, str] = found["addresses"]
        self.environment: dict[str, str] = found["environment"]
        self.pid = pid

    def verdict(self) -> dict[str, Any]:
        return self._json("GET", "verdict")

    def calls(self, route: str = "", *, after: int = 0) -> list[dict[str, Any]]:
        """What it recorded, in the order of arrival."""
        found: list[dict[str, Any]] = self._json("GET", f"ledger?route={route}&after={after}")["calls"]
        return found

    def chunks(self) -> dict[str, dict[str, int]]:
        """How often each chunk was called, answered and paid, by route and sha256."""
        found: dict[str, dict[str, int]] = self._json("GET", "chunks")
        return found

    def open(self) -> dict[str, int]:
        """Calls and jobs in progress, by route."""
        found: dict[str, int] = self._json("GET", "")["open"]
        return found

    def change(self, **settings: Any) -> dict[str, Any]:  # noqa: ANN401 - as a scenario file has them
        return self._json("PATCH", "settings", settings)

    def fault(self, route: str, fault: str, **rule: Any) -> None:  # noqa: ANN401 - calls, share, times, for_s
        self._json("POST", "faults", {"route": route, "fault": fault, **rule})

    def reset(self) -> None:
        """Its settings as at the start, empty windows, a new month, and a record of what is in progress only."""
        self._json("POST", "reset")

    def expire_tokens(self) -> None:
        self._json("POST", "expire-tokens")

    def _json(self, method: str, path: str, content: object = None) -> dict[str, Any]:
        url = f"{self.base}/simulate/{path}"
        with httpx2.Client(timeout=_ANSWERS_WITHIN_S, trust_env=False) as client:
            answer = client.request(method, url, json=content)
        found: dict[str, Any] = answer.json()
        if answer.is_error:
            raise ValueError(found.get("error", answer.text))
        return found


@contextmanager
def simulator(*options: str) -> Iterator[Simulated]:
    """The options are those of the command, such as "--quota", "docai=5,120/60"; it ends with the block."""
    command = [sys.executable, "-m", "forebay", "simulate", "--port", "0", "-o", "json", *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:  # noqa: S603 - ours
        try:
            line = process.stdout.readline() if process.stdout is not None else b""
            if not line:
                raise RuntimeError(f"the simulator ended with {process.wait()}: its complaint is on stderr")
            yield Simulated(json.loads(line), process.pid)
        finally:
            process.terminate()
            try:
                process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
