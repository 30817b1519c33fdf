"""Emails go through a provider that answers 429 with a Retry-After: they wait as told, and no retry is burnt."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter

from forebay import Context, Forebay, Reschedule


class TooManyRequests(Exception):
    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"429, Retry-After: {retry_after_s:.2f}")
        self.retry_after_s = retry_after_s


class FakeProvider:
    """Three emails each half second, and 429 for the rest."""

    def __init__(self, allowed: int = 3, per_s: float = 0.5) -> None:
        self._allowed = allowed
        self._per_s = per_s
        self._ends_at = 0.0
        self._used = 0
        self.refused_count = 0

    async def send(self, to: str) -> str:
        now = time.monotonic()
        if now >= self._ends_at:
            self._ends_at, self._used = now + self._per_s, 0
        if self._used == self._allowed:
            self.refused_count += 1
            raise TooManyRequests(self._ends_at - now)
        self._used += 1
        return f"sent to {to}"


app = Forebay()
provider = FakeProvider()


@app.task("send_email")
async def send_email(_: Context, to: str) -> str:
    try:
        return await provider.send(to)
    except TooManyRequests as error:
        raise Reschedule(str(error), delay_s=error.retry_after_s) from None


def main() -> None:
    asked = app.submit_many("send_email", [{"to": f"reader{n}@example.org"} for n in range(8)])
    app.work(until_idle=True)
    ends = Counter(attempt.outcome for each in asked for attempt in app.history(each.id))
    print(f"{ends['completed']} of {len(asked)} emails sent, {provider.refused_count} answers were 429")
    print(f"{ends['rescheduled']} reschedules, {ends['retried']} retries; the last email:")
    for attempt in app.history(asked[-1].id):
        print(f"  attempt {attempt.attempt}: {attempt.outcome} {attempt.error_text or ''}".rstrip())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("FOREBAY_HOME", folder)
        with app:
            main()
