"""A circuit breaker by hand: a failed call is a Retry, and while the circuit is open nothing calls at all."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter

from forebay import Context, Forebay, Reschedule, Retry


class Breaker:
    """Opens after failures in a row; when its time is over, one call may try."""

    def __init__(self, failures: int, open_s: float) -> None:
        self._failures = failures
        self._open_s = open_s
        self._in_a_row = 0
        self._opens_until = 0.0
        self.opened_count = 0

    def wait_s(self) -> float:
        """0 and the call may start, or how long to stay away."""
        now = time.monotonic()
        if now < self._opens_until:
            return self._opens_until - now
        if self._in_a_row >= self._failures:
            self._opens_until = now + self._open_s  # this call tries; the others wait for what comes of it
        return 0.0

    def succeeded(self) -> None:
        self._in_a_row = 0
        self._opens_until = 0.0

    def failed(self) -> None:
        self._in_a_row += 1
        if self._in_a_row >= self._failures:
            self._opens_until = time.monotonic() + self._open_s
            self.opened_count += 1


class FakeService:
    """Down for its first four calls."""

    def __init__(self) -> None:
        self.call_count = 0

    async def call(self, n: int) -> str:
        self.call_count += 1
        down = self.call_count <= 4
        await asyncio.sleep(0.02)
        if down:
            raise ConnectionError("503 Service Unavailable")
        return f"answer {n}"


app = Forebay()
breaker = Breaker(failures=3, open_s=0.4)
service = FakeService()


@app.task("external_call", max_retries=5)
async def external_call(_: Context, n: int) -> str:
    wait_s = breaker.wait_s()
    if wait_s:
        raise Reschedule("the circuit is open", delay_s=wait_s)
    try:
        answer = await service.call(n)
    except ConnectionError as error:
        breaker.failed()
        raise Retry(str(error), delay_s=0.1, error_class="service_unavailable") from error
    breaker.succeeded()
    return answer


def main() -> None:
    asked = app.submit_many("external_call", [{"n": n} for n in range(6)])
    app.work(until_idle=True, concurrency=2)
    ends = Counter(attempt.outcome for each in asked for attempt in app.history(each.id))
    print(f"{ends['completed']} answers from {service.call_count} calls")
    print(f"{ends['retried']} failed calls cost a retry each; the circuit opened: {breaker.opened_count > 0}")
    print(f"attempts that met the open circuit made no call and cost none: {ends['rescheduled'] > 0}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("FOREBAY_HOME", folder)
        with app:
            main()
