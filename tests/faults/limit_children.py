"""What a process of the limit tests begins with: the store at the path, and somebody who uses a limit there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from subprocess import Popen
from typing import Any

from forebay.model.limit import Limit, Window
from forebay.model.limit_record import Layer
from forebay.rules import limit_actions
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process
from tests.faults import children

_PRELUDE = """
import queue, random, threading
from forebay.model.limit import Window
from forebay.testing.limits.case import stored
from tests.faults.limit_children import SqliteLimits, define, process
store = SqliteLimits(path)
"""


class Steady(HandClock):
    """The time that passes for a process that asks."""

    @property
    def steady(self) -> int:
        return time.monotonic_ns() // 1_000_000

    @steady.setter
    def steady(self, value: int) -> None:
        pass


def process(store: SqliteLimits, sid: str) -> Process:
    return Process(store, Steady(), sid)


def define(
    store: SqliteLimits,
    in_flight: int | None,
    *windows: Window,
    name: str = LIMIT,
    version: int = 0,
    **fields: Any,  # noqa: ANN401 - any field of a limit
) -> None:
    """As code does that knows no limit of this name, or has seen that version of it."""
    values = limit_actions.values_of(Limit(name, in_flight=in_flight, windows=windows, **fields))
    layer: Layer = {"name": "code", "values": values, "ends_at": -1, "set_at": 0, "set_by": "", "note": ""}
    store.change(name, lambda record, raw: limit_actions.configured(record, name, layer, raw, version=version))


def start(script: str, path: Path, **values: object) -> Popen[str]:
    """The values are names in the script."""
    named = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    return children.start(_PRELUDE + named + script, path)


def run(script: str, path: Path, **values: object) -> Any:  # noqa: ANN401 - whatever the child tells
    child = start(script, path, **values)
    try:
        answer = children.told(child)
        child.communicate(timeout=100)
        assert child.returncode == 0
        return answer
    finally:
        children.end(child)
