"""Named places where a chaos run may kill or stop this process: no-ops unless the environment says so."""

from __future__ import annotations

import json
import os
import random
import signal
import time

VARIABLE = "FOREBAY_FAILPOINTS"
LOG = "FOREBAY_FAILPOINTS_LOG"
PLACES = {
    "before_claim": "about to ask the ledger for work",
    "claimed": "the ledger gave work that has not started",
    "request_sent": "a handler has sent its request (reached by handlers only)",
    "response_read": "the handler has returned, its result is in memory only",
    "result_written": "a result's bytes are written, not synced",
    "result_durable": "the outcome is known and stored, not recorded in the ledger",
    "settled": "the ledger has recorded the outcome",
}


def _parse(text: str) -> dict[str, tuple[str, float]]:
    """`claimed=kill@0.02,settled=stop@0.01`: the place, what happens there, and with which probability."""
    plan = {}
    for part in filter(None, text.split(",")):
        place, _, rest = part.partition("=")
        action, _, share = rest.partition("@")
        if place not in PLACES or action not in _ACTIONS:
            raise SystemExit(f"{VARIABLE}: {part!r} is not PLACE=ACTION@PROBABILITY.")
        plan[place] = (action, float(share or 1))
    return plan


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _tell(place: str, action: str) -> None:
    """One line in the file that the environment names: who was killed cannot say why."""
    if path := os.environ.get(LOG):
        line = json.dumps({"e": "fired", "w": time.time(), "place": place, "action": action, "pid": os.getpid()})
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(log, f"{line}\n".encode())
        os.close(log)


_ACTIONS = {"kill": _kill, "stop": _stop}
_plan = _parse(os.environ.get(VARIABLE, ""))


def reach(place: str) -> None:
    if _plan and place in _plan:
        action, share = _plan[place]
        if random.random() < share:  # noqa: S311 - when, not what
            _tell(place, action)
            _ACTIONS[action]()
