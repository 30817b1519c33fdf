"""Works off one queue of RQ's, and ends; with `before`, its work horses inherit the limiter that is loaded here."""

from __future__ import annotations

import sys

import redis
from rq import Queue, Worker


def main() -> None:
    address, queue, when = sys.argv[1:]
    if when == "before":
        from tests.queues import calls  # noqa: PLC0415 - that is what it is about

        with calls.limiter.slot(calls.LIMIT):
            pass
    with redis.Redis.from_url(address) as client:
        Worker([Queue(queue, connection=client)], connection=client).work(burst=True, logging_level="WARNING")


if __name__ == "__main__":
    main()
