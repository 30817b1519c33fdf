"""`python -m benchmarks.fleet.start ORDERS`: a process that works; it says when it is ready, and is told when to go."""

from __future__ import annotations

import json
import sys

from benchmarks.fleet.orders import Orders, side
from chaos.limits.worker import end_with_parent


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("benchmarks.fleet.start: started by a benchmark, not by hand.")
    end_with_parent()
    orders = Orders(**json.loads(sys.argv[1]))
    engine = side(orders.side)
    print("ready", flush=True)
    if sys.stdin.buffer.readline():
        engine.work(orders)


if __name__ == "__main__":
    main()
