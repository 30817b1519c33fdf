"""Reads the gauges of a whole fleet from its stores: tasks, lanes, dead letters, limits and workers.

Every process that serves metrics may be scraped, but only one of them answers with these gauges at a time, so that a
sum over all processes is right. The ledger grants that turn to the first process that asks, and to another one when
the first has not asked for `TURN_S`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from forebay import ids
from forebay.clock import steady
from forebay.errors import StoreError
from forebay.limits.usage import Usage
from forebay.model.lane import Lane
from forebay.model.task import Status
from forebay.observe import emit

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from forebay.app.forebay import Forebay

TURN_S = 45.0
FRESH_S = 5.0
ANSWER_WITHIN_S = 1.0
MAX_LIMITS = 1000
_TENANT, _KEY = "forebay.fleet", "gauges"
_LEAST_COUNT_S = 60.0
_COUNT_SHARE = 100  # a count of all tasks may take this part of the time


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the stores said at one time; `limits` is empty where no limit store exists."""

    at: float
    tasks: dict[tuple[str, Status], int] = field(default_factory=dict)
    lanes: list[Lane] = field(default_factory=list)
    limits: list[Usage] = field(default_factory=list)
    alive_worker_count: int = 0


class Gauge(NamedTuple):
    text: str
    labels: tuple[str, ...]


class FleetGauges:
    """A collector for a Prometheus registry. Blocking, and safe to call from several threads."""

    def __init__(self, app: Forebay) -> None:
        self._app = app
        self._token = ids.random_id()
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._reading: Future[Snapshot | None] | None = None
        self._read_at = -FRESH_S
        self._begun_at = -TURN_S
        """When the read that is under way began, or else the last one."""
        self._turn_ends_at = 0.0
        """Until when no other process can have the turn, as far as the last read shows."""
        self._tasks: dict[tuple[str, Status], int] = {}
        self._count_at = 0.0

    def describe(self) -> list[Metric]:
        """Return nothing: a registry that asks must not make the stores answer."""
        return []

    def collect(self) -> Iterator[Metric]:
        snapshot = self._current()
        return iter(()) if snapshot is None else _metrics(snapshot)

    def _current(self) -> Snapshot | None:
        """Return the gauges, read again after `FRESH_S`; None while another process has the turn.

        While a read takes long, the gauges are those of the last one, as long as this process must have the turn. A
        store that does not answer costs its gauges, never the counts of this process.
        """
        with self._lock:
            if steady() < self._read_at + FRESH_S:
                return self._snapshot
            if self._reading is None:
                self._reading, self._begun_at = Future(), steady()
                threading.Thread(
                    target=_fulfil, args=(self._reading, self._take_turn), name="forebay-gauges", daemon=True
                ).start()
            reading = self._reading
        wait([reading], ANSWER_WITHIN_S)
        with self._lock:
            if not reading.done():
                return self._snapshot if steady() < self._turn_ends_at else None
            if self._reading is reading:
                self._reading, self._snapshot, self._read_at = None, None, steady()
                if steady() >= self._begun_at + TURN_S:
                    # It is so old that another process may have the turn by now.
                    self._read_at = -FRESH_S
                    return None
                self._snapshot = _result(reading)
                self._turn_ends_at = self._begun_at + TURN_S
            return self._snapshot

    def close(self) -> None:
        """Leave the turn to another process at once."""
        with suppress(StoreError):
            self._app.ledger.end_request(_TENANT, _KEY, self._token)

    def _take_turn(self) -> Snapshot | None:
        has_turn = self._app.ledger.begin_request(_TENANT, _KEY, self._token, TURN_S)
        return self._read() if has_turn else None

    def _read(self) -> Snapshot:
        ledger = self._app.ledger
        if steady() >= self._count_at:
            began = steady()
            self._tasks = ledger.count()
            self._count_at = steady() + max(_LEAST_COUNT_S, _COUNT_SHARE * (steady() - began))
        now = time.time()
        return Snapshot(
            at=now,
            tasks=self._tasks,
            lanes=ledger.lanes(),
            limits=self._limits(),
            alive_worker_count=sum(session.expires_at > now for session in ledger.sessions()),
        )

    def _limits(self) -> list[Usage]:
        limiter = self._app.limits.found()
        if limiter is None:
            return []
        return limiter.usages(most=MAX_LIMITS)


def _fulfil(reading: Future[Snapshot | None], read: Callable[[], Snapshot | None]) -> None:
    """Run on a thread of its own; whatever is raised reaches the scrape that waits."""
    try:
        reading.set_result(read())
    except BaseException as error:  # noqa: BLE001 - handed on
        reading.set_exception(error)


def _result(reading: Future[Snapshot | None]) -> Snapshot | None:
    try:
        return reading.result()
    except StoreError as error:
        emit("store_failed", verb="gauges", error_code=error.code, text=str(error), pause_s=0)
        return None


def _metrics(snapshot: Snapshot) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - an extra

    tasks = _tasks(snapshot)
    windows = [
        ((usage.name, each.unit, f"{each.per_s:g}"), each) for usage in snapshot.limits for each in usage.windows
    ]
    units = [((usage.name, each.unit), each) for usage in snapshot.limits for each in usage.units_in_flight]
    values: dict[str, Iterable[tuple[tuple[str, ...], float | None]]] = {
        "tasks": tasks,
        "dead_letters": [((kind,), n) for (kind, status), n in tasks if status == Status.FAILED],
        "workers_alive": [((), snapshot.alive_worker_count)],
        "limit_units_in_flight": [(labels, each.used) for labels, each in units],
        "limit_units_in_flight_max": [(labels, each.n) for labels, each in units],
        "limit_window_used": [(labels, each.used) for labels, each in windows],
        "limit_window_max": [(labels, each.n) for labels, each in windows],
    }
    for name, of_lane in _OF_A_LANE.items():
        values[name] = [((lane.name,), of_lane(lane, snapshot.at)) for lane in snapshot.lanes]
    for name, of_limit in _OF_A_LIMIT.items():
        values[name] = [((usage.name,), of_limit(usage)) for usage in snapshot.limits]
    for name, gauge in GAUGES.items():
        family = GaugeMetricFamily(f"forebay_{name}", gauge.text, labels=gauge.labels)
        for labels, value in values[name]:
            if value is not None:
                family.add_metric(labels, value)
        yield family


def _tasks(snapshot: Snapshot) -> list[tuple[tuple[str, str], int]]:
    """Return the counts by kind and status: of open tasks as the lanes have them now, of others as last counted."""
    counts = Counter({(kind, str(status)): n for (kind, status), n in snapshot.tasks.items() if status.terminal})
    for lane in snapshot.lanes:
        counts[lane.kind, str(Status.PENDING)] += lane.ready_count + lane.later_count
        counts[lane.kind, str(Status.RUNNING)] += lane.running_count
    return sorted(counts.items())


def _age_s(lane: Lane, now: float) -> float:
    return 0.0 if lane.oldest_ready_at is None else max(0.0, now - lane.oldest_ready_at)


_OF_A_LANE: dict[str, Callable[[Lane, float], float]] = {
    "lane_ready": lambda lane, _: lane.ready_count,
    "lane_delayed": lambda lane, _: lane.later_count,
    "lane_running": lambda lane, _: lane.running_count,
    "lane_oldest_ready_seconds": _age_s,
    "lane_paused": lambda lane, _: lane.paused_at is not None,
}
_OF_A_LIMIT: dict[str, Callable[[Usage], float | None]] = {
    "limit_in_flight": lambda usage: usage.in_flight,
    "limit_cut_off": lambda usage: usage.cut_off,
    "limit_in_flight_max": lambda usage: usage.limit.in_flight,
    "limit_free": lambda usage: usage.free,
    "limit_waiting": lambda usage: usage.waiting,
    "limit_cooldown_left_seconds": lambda usage: usage.cooldown_for_s,
    "limit_paused": lambda usage: usage.paused,
}
GAUGES: dict[str, Gauge] = {
    "tasks": Gauge(
        "Tasks of the ledger by kind and status; ended ones are counted once a minute or more rarely.",
        ("kind", "status"),
    ),
    "dead_letters": Gauge(
        "Failed tasks that nothing retries by itself, counted once a minute or more rarely.", ("kind",)
    ),
    "workers_alive": Gauge("Workers whose session is alive.", ()),
    "lane_ready": Gauge("Tasks of a lane that are due and wait.", ("lane",)),
    "lane_delayed": Gauge("Tasks of a lane that wait for a time or for another task.", ("lane",)),
    "lane_running": Gauge("Tasks of a lane that run.", ("lane",)),
    "lane_oldest_ready_seconds": Gauge(
        "How long the oldest ready task of a lane has been due; 0 where none waits.", ("lane",)
    ),
    "lane_paused": Gauge("1 while a lane is paused.", ("lane",)),
    "limit_in_flight": Gauge("Calls that count against the in-flight bound of a limit.", ("limit",)),
    "limit_cut_off": Gauge(
        "Calls in flight that nobody waits for, while their provider may still work on them.", ("limit",)
    ),
    "limit_in_flight_max": Gauge("In-flight bound of a limit.", ("limit",)),
    "limit_free": Gauge("Calls that the in-flight bound of a limit still allows.", ("limit",)),
    "limit_waiting": Gauge("Callers in the line of a limit.", ("limit",)),
    "limit_cooldown_left_seconds": Gauge(
        "Seconds until the cool-down of a limit ends; 0 where it does not cool down.", ("limit",)
    ),
    "limit_paused": Gauge("1 while a limit is paused.", ("limit",)),
    "limit_units_in_flight": Gauge("Units of the calls in flight of a limit.", ("limit", "unit")),
    "limit_units_in_flight_max": Gauge("In-flight bound of a unit of a limit.", ("limit", "unit")),
    "limit_window_used": Gauge(
        "Units that a window of a limit has granted and still counts.", ("limit", "unit", "per_s")
    ),
    "limit_window_max": Gauge("Units that a window of a limit allows.", ("limit", "unit", "per_s")),
}
