"""What a slot costs beside 1 to 10 000 other limits of its process: `python -m benchmarks.many_limits [ADDRESS]`."""

from __future__ import annotations

import sys
import tempfile
import threading
import time

from forebay.limits import Limit, Limiter

COUNTS = (1, 100, 2_000, 10_000)
SLOTS = 500


def measure(address: str, count: int) -> float:
    """Milliseconds a slot of one limit, after all of them were used once; on a thread, as callers are."""
    took_s: list[float] = []

    def call() -> None:
        for number in range(count):
            with limiter.slot(f"limit-{number}"):
                pass
        began_at = time.perf_counter()
        for _ in range(SLOTS):
            with limiter.slot("limit-0"):
                pass
        took_s.append(time.perf_counter() - began_at)

    with Limiter(address, environment=f"many-{count}-{time.time_ns()}") as limiter:
        for number in range(count):
            limiter.define(Limit(f"limit-{number}", in_flight=2))
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    return took_s[0] / SLOTS * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        address = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{folder}/limits.db"
        for count in COUNTS:
            print(f"{count:>6} limits  {measure(address, count):.3f} ms a slot")


if __name__ == "__main__":
    main()
