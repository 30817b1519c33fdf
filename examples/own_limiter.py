"""Your own limiter stands before the call: a task without a place is rescheduled until one is free."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter, deque

from forebay import Context, Forebay, Reschedule


class SlidingWindow:
    """At most `count` calls in the `per_s` seconds that end now; one for this process, not for a fleet."""

    def __init__(self, count: int, per_s: float) -> None:
        self._count = count
        self._per_s = per_s
        self._calls: deque[float] = deque()

    def wait_s(self) -> float:
        """0 and the place is taken, or how long to stay away."""
        now = time.monotonic()
        while self._calls and self._calls[0] <= now - self._per_s:
            self._calls.popleft()
        if len(self._calls) >= self._count:
            return self._calls[0] + self._per_s - now
        self._calls.append(now)
        return 0.0


class FakeApi:
    def __init__(self) -> None:
        self.calls: list[float] = []

    async def call(self, n: int) -> int:
        self.calls.append(time.monotonic())
        return n * n

    def most_within(self, seconds: float) -> int:
        return max(sum(0 <= other - call < seconds for other in self.calls) for call in self.calls)


app = Forebay()
limiter = SlidingWindow(4, per_s=0.5)
api = FakeApi()


@app.task("square")
async def square(_: Context, n: int) -> int:
    wait_s = limiter.wait_s()
    if wait_s:
        raise Reschedule("no place in the window", delay_s=wait_s)
    return await api.call(n)


def main() -> None:
    asked = app.submit_many("square", [{"n": n} for n in range(10)])
    app.work(until_idle=True)
    ends = Counter(attempt.outcome for each in asked for attempt in app.history(each.id))
    print(f"results: {[app.result(each.id) for each in asked]}")
    # A little less than the window: a call starts a moment after its place was taken.
    print(f"at most {api.most_within(0.45)} calls within half a second")
    print(f"reschedules: {ends['rescheduled'] > 0}, retries: {ends['retried']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("FOREBAY_HOME", folder)
        with app:
            main()
