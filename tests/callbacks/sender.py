"""A worker in a process of its own, with names that lie, which notes whatever it connects to and reaches no further.

Started with the file for its notes, and the home folder; the rest is in its environment.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from forebay.app.target import load
from forebay.callbacks import guard
from forebay.settings import load as load_settings

HANDLERS = str(Path(__file__).with_name("handlers.py"))
REBINDING = "rebinding.example"
PUBLIC = "93.184.215.14"
SCHEDULE_S = (0.2, 0.2, 0.2, 0.2, 0.2, 0.2)


class Names:
    """One name is public when it is looked up first, and this machine the next time, and so on."""

    def __init__(self) -> None:
        self._count = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        if host != REBINDING:
            return await guard.resolve(host, port)
        self._count += 1
        return [PUBLIC if self._count % 2 else "127.0.0.1"]


def confined(notes: Path) -> None:
    """Every connection is noted before it is made; those that leave this machine are not made."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "socket.connect":
            return
        opened: socket.socket = arguments[0]
        if opened.family not in {socket.AF_INET, socket.AF_INET6}:
            return
        address = arguments[1]
        log = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(log, f"{address[0]} {address[1]}\n".encode())
        os.close(log)
        if not ip_address(address[0]).is_loopback:
            raise OSError(errno.ENETUNREACH, "no network beyond this machine")

    sys.addaudithook(hook)


if __name__ == "__main__":
    confined(Path(sys.argv[1]))
    app = load(f"{HANDLERS}:app")
    app.__dict__["settings"] = load_settings(
        {"home": sys.argv[2], "lease_s": 1.0, "poll_s": 0.2, "callback_loopback": "allow", "callback_timeout_s": 1.0}
    )
    app.callbacks.look_up = Names()
    app.callbacks.schedule_s = SCHEDULE_S
    app.work(concurrency=4)
