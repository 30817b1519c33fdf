"""Wakes idle workers in other processes of the machine, through a folder by the ledger's file."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.stores.sqlite.sockets import Ear, Mouth

if TYPE_CHECKING:
    import asyncio


class Wakeups:
    """Sends to, and listens in, the folder `<file>-wake`. A hint only: whatever fails here costs a slow poll."""

    def __init__(self, path: Path) -> None:
        self._folder = path.with_name(f"{path.name}-wake")
        self._name = str(self._folder)
        self._lock = threading.Lock()
        self._ears: list[Ear] = []
        self._mouth = Mouth(self._folder)

    def listen(self, wake: Callable[[], None], loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], None]:
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        try:
            ear = Ear(self._folder / name, lambda _: wake(), loop)
        except OSError:
            return lambda: None
        with self._lock:
            self._ears.append(ear)

        def stop() -> None:
            with self._lock:
                self._ears = [each for each in self._ears if each is not ear]
            ear.close()

        return stop

    def send(self) -> None:
        """Wake every listener, here and elsewhere, each on a thread of its own; never blocks and never fails."""
        try:
            names = os.listdir(self._name)  # noqa: PTH208 - after every commit that brings work, and cheaper
        except OSError:
            return
        if names:
            self._mouth.send([(name, b"wake") for name in names])

    def leave_to_parent(self) -> None:
        """In a forked child: let go of the parent's sockets."""
        for ear in self._ears:
            ear.let_go()
        self._mouth.let_go()

    def close(self) -> None:
        self._mouth.close()
        with self._lock:
            ears, self._ears = self._ears, []
        for ear in ears:
            ear.close()
