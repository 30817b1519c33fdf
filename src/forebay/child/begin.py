"""Begins a handler child: takes what the worker hands over, loads the application, serves."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

from forebay.child import guard
from forebay.engine.handover import CPU, LIFELINE_FD, MEMORY, PATHS, SOCKET_FD, TICKETS_FD


def main(arguments: Sequence[str]) -> int:
    try:
        target = arguments[0]
        connection = socket.socket(fileno=int(os.environ.pop(SOCKET_FD)))
        lifeline = int(os.environ.pop(LIFELINE_FD))
        tickets = int(os.environ.pop(TICKETS_FD))
    except (IndexError, KeyError, ValueError, OSError):
        sys.stderr.write("forebay.child: this is started by `forebay worker`, not by hand.\n")
        return 2
    for descriptor in (connection.fileno(), lifeline, tickets):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - its own signature
    sys.path.extend(path for path in os.environ.pop(PATHS, "").split(os.pathsep) if path not in sys.path)
    guard.die_with_parent(lifeline)
    guard.adopt_orphans()
    # Only now what takes time to import: a worker that dies meanwhile takes this process along.
    from forebay.app.target import load  # noqa: PLC0415
    from forebay.child.handlers import serve  # noqa: PLC0415
    from forebay.engine import wire  # noqa: PLC0415

    try:
        app = load(target)
    except BaseException as error:  # noqa: BLE001 - the worker shall know why
        connection.sendall(wire.pack({"refused": f"{type(error).__name__}: {error}"}))
        return 1
    guard.bound(os.environ.pop(MEMORY, ""))
    cpu_s = float(os.environ.pop(CPU, "") or 0) or None
    serve(connection, tickets, app, cpu_s)
    return 0
