"""Tells sessions in other processes of the machine what they were given, through a folder by the file of limits."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path

from forebay.model.limit_record import Grant
from forebay.stores.limit_base import Wake
from forebay.stores.sqlite.sockets import MAX_MESSAGE, Ear, Mouth


class GrantCalls:
    """Each session listens at a socket of its name in `<file>-wake`; whatever fails here costs a slow poll."""

    def __init__(self, path: Path) -> None:
        self._folder = path.with_name(f"{path.name}-wake")
        self._lock = threading.Lock()
        self._wakes: dict[str, Wake] = {}
        self._ears: dict[str, Ear] = {}
        self._mouth = Mouth(self._folder)

    def listen(self, sid: str, wake: Wake) -> Callable[[], None]:
        with self._lock:
            self._wakes[sid] = wake
            self._bind(sid, wake)

        def stop() -> None:
            with self._lock:
                if self._wakes.get(sid) is wake:
                    del self._wakes[sid]
                    self._deafen(sid)

        return stop

    def _bind(self, sid: str, wake: Wake) -> None:
        def hear(message: bytes) -> None:
            said = json.loads(message)
            wake(said["limit"], said["grants"], said["now"])

        self._deafen(sid)
        with contextlib.suppress(OSError):
            self._ears[sid] = Ear(self._folder / sid, hear)

    def _deafen(self, sid: str) -> None:
        if sid in self._ears:
            self._ears.pop(sid).close()

    def rebind(self) -> None:
        """Whoever removed the file may have removed the folder, too."""
        with self._lock:
            for sid, wake in self._wakes.items():
                if not (self._folder / sid).exists():
                    self._bind(sid, wake)

    def send(self, limit: str, now: int, given: list[tuple[str, list[Grant]]]) -> None:
        self._mouth.send([(sid, _message(limit, now, grants)) for sid, grants in given])

    def leave_to_parent(self) -> None:
        """In a forked child: let go of the parent's sockets."""
        for ear in self._ears.values():
            ear.let_go()
        self._wakes.clear()
        self._ears.clear()
        self._mouth.let_go()

    def close(self) -> None:
        self._mouth.close()
        with self._lock:
            self._wakes.clear()
            for sid in [*self._ears]:
                self._deafen(sid)


def _message(limit: str, now: int, grants: list[Grant]) -> bytes:
    message = _encoded(limit, now, grants)
    # Without them, the session asks.
    return message if len(message) <= MAX_MESSAGE else _encoded(limit, now, [])


def _encoded(limit: str, now: int, grants: list[Grant]) -> bytes:
    return json.dumps({"limit": limit, "now": now, "grants": grants}).encode()
