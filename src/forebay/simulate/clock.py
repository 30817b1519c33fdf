"""The simulator's own time: seconds that never jump, and the wall time they stand for."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import format_datetime


class Clock:
    """`now` is monotonic and begins at 0; calendar edges and dates follow from the wall time of its beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._wall = time.time()

    def now(self) -> float:
        return time.monotonic() - self._began

    def wall(self, instant: float) -> float:
        return self._wall + instant

    def http_date(self, instant: float) -> str:
        return format_datetime(datetime.fromtimestamp(self.wall(instant), UTC), usegmt=True)

    def iso(self, instant: float) -> str:
        return datetime.fromtimestamp(self.wall(instant), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
