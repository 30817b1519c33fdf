"""What the tasks of every queue do: one call under a limit, and then a note that it was made.

The environment says where: the tests start workers of their own for it.
"""

from __future__ import annotations

import os

import redis

from forebay.limits import Limiter
from forebay.limits.line import Line

ADDRESS = os.environ.get("QUEUES_ADDRESS", "")
NAME = os.environ.get("QUEUES_NAME", "")
LIMIT = "api"

limiter = Limiter(ADDRESS or "memory://", environment=NAME or "dev")
if os.environ.get("QUEUES_SEND_NOTHING"):
    # The negative control: the process forgets its calls, and the store never hears that they have ended.
    Line.finish = lambda self, call_id, *_: self._open.pop(call_id, None)  # type: ignore[method-assign]


def call() -> None:
    with limiter.slot(LIMIT, timeout_s=30):
        pass
    with redis.Redis.from_url(ADDRESS) as client:
        client.rpush(f"{NAME}:done", os.getpid())
