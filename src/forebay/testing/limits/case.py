"""The ground that a limit store is tested on: an empty store, a clock moved by hand, processes that use a limit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import pytest

from forebay.model.limit import Limit, Window
from forebay.model.limit_record import Layer, Record
from forebay.rules import limit_actions
from forebay.stores.limit_base import LimitStore
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process

START = 250
TRANSIT = 50
LATE = START + TRANSIT + 1
"""How much longer than its window a grant counts, where nothing else is said."""
CALL = 60_000
LEASE = 15_000
SECOND = 1000
HELD = CALL + 2 * SECOND + TRANSIT
"""How long a call of a process that has died counts, in a limit without windows."""
HELD_WITH_WINDOWS = CALL + START + TRANSIT
"""The same in a limit with windows."""
MINUTE = 60_000
HOUR = 3_600_000
_PATIENCE_S = 10.0


class LimitCase:
    """What a store's own test class fills in: `make_store`, which gives an empty one each time.

    `make_clock` is for a store whose clock is elsewhere; `another` opens the same data again, as a second process
    would. `wakes` says that sessions hear at once of what they were given: not so in a store that has no means for it.
    """

    wakes = True

    def make_clock(self) -> HandClock:
        return HandClock()

    def make_store(self, clock: HandClock) -> LimitStore:
        raise NotImplementedError

    def another(self, store: LimitStore, clock: HandClock) -> LimitStore:  # noqa: ARG002 - for stores that need it
        return store

    def wait_for(self, true: Callable[[], bool]) -> None:
        """For stores that wake from a thread of their own; a store that wakes at once has done it."""
        deadline = time.monotonic() + _PATIENCE_S
        while not true() and time.monotonic() < deadline:
            time.sleep(0.001)
        assert true(), "a wake-up has not come"

    @pytest.fixture
    def clock(self) -> HandClock:
        return self.make_clock()

    @pytest.fixture
    def store(self, clock: HandClock) -> Iterator[LimitStore]:
        opened = self.make_store(clock)
        try:
            yield opened
            for name in opened.names():
                assert problems(stored(opened, name)) == []
                assert problems_of_parts(opened, name) == []
        finally:
            opened.close()

    @pytest.fixture
    def start(self, store: LimitStore, clock: HandClock) -> Callable[[str], Process]:
        """Starts a process by that name."""
        return lambda sid: Process(store, clock, sid)

    @pytest.fixture
    def a(self, store: LimitStore, clock: HandClock) -> Process:
        return Process(store, clock, "a")

    @pytest.fixture
    def b(self, store: LimitStore, clock: HandClock) -> Process:
        return Process(store, clock, "b")


def define(
    store: LimitStore,
    in_flight: int | dict[str, int] | None = None,
    windows: Sequence[tuple[Any, ...]] = (),
    *,
    layer: str = "code",
    name: str = LIMIT,
    **fields: Any,  # noqa: ANN401 - any field of a limit
) -> Record | None:
    """The limit, whole; a window is its n and per_s, and its unit if that is not calls."""
    whole = Limit(name, in_flight=in_flight, windows=tuple(Window(*window) for window in windows), **fields)
    return put_stored(store, layer, limit_actions.values_of(whole), name=name)


def put(store: LimitStore, layer: str, *, for_ms: int | None = None, **fields: Any) -> Record | None:  # noqa: ANN401 - same
    """One layer of its configuration, for good or for a while."""
    return put_stored(store, layer, limit_actions.checked(fields), for_ms=for_ms)


def put_stored(
    store: LimitStore,
    layer: str,
    values: dict[str, object],
    *,
    for_ms: int | None = None,
    name: str = LIMIT,
    version: int = 0,
) -> Record | None:
    def step(record: Record | None, raw: int) -> Record | None:
        until = -1 if for_ms is None else raw + (record["clock_offset_ms"] if record else 0) + for_ms
        new: Layer = {"name": layer, "values": values, "ends_at": until, "set_at": raw, "set_by": "ann", "note": ""}
        return limit_actions.configured(record, name, new, raw, version=version)

    return store.change(name, step)


def clear(store: LimitStore, layer: str) -> Record | None:
    return store.change(LIMIT, lambda record, raw: limit_actions.cleared(known(record), LIMIT, layer, raw))


def pause(store: LimitStore, for_ms: int | None = None) -> None:
    store.change(
        LIMIT, lambda record, raw: limit_actions.paused(known(record), raw, for_ms=for_ms, note="by hand", who="ann")
    )


def resume(store: LimitStore) -> None:
    store.change(LIMIT, lambda record, raw: limit_actions.resumed(known(record), raw))


def reset(store: LimitStore, *, everything: bool = False) -> int:
    dropped = [0]

    def step(record: Record | None, raw: int) -> Record:
        changed, dropped[0] = limit_actions.forgotten(known(record), raw, everything=everything)
        return changed

    store.change(LIMIT, step)
    return dropped[0]


def chances(random_state: int) -> random.Random:
    return random.Random(random_state)  # noqa: S311 - the same each time is what is wanted


def known(record: Record | None) -> Record:
    assert record is not None, "the store has no such limit"
    return record


def stored(store: LimitStore, name: str = LIMIT) -> Record:
    return known(store.read(name)[0])


@runtime_checkable
class _Checked(Protocol):
    """A store that keeps sums of what it keeps."""

    def check(self, limit: str) -> list[str]: ...


def problems_of_parts(store: LimitStore, name: str = LIMIT) -> list[str]:
    """Return what a store that sums up its parts finds wrong with the sums; others have none."""
    return store.check(name) if isinstance(store, _Checked) else []


def problems(record: Record) -> list[str]:
    """What is wrong in a record, whatever was done to it."""
    wrong = []
    for name, log in record["window_logs"].items():
        instants, counts = log["entries"][::2], log["entries"][1::2]
        if sum(counts) != log["sum"]:
            wrong.append(f"the log {name} sums up to {sum(counts)}, not {log['sum']}")
        if instants != sorted(instants) or any(count <= 0 for count in counts) or len(instants) > 2 * 512:
            wrong.append(f"the log {name} is out of order or too long: {log['entries'][:20]}")
    for sid, seat in record["sessions"].items():
        numbers = [call["id"] for call in seat["calls"]]
        if len({*numbers}) < len(numbers) or any(number >= seat["next_call_id"] for number in numbers):
            wrong.append(f"session {sid} has two calls of one number: {numbers}, next is {seat['next_call_id']}")
        if any(run["caller_count"] <= 0 for run in seat["runs"]):
            wrong.append(f"session {sid} has nobody in one of its runs")
        if any(grant["number"] > seat["grant_number"] for grant in seat["unconfirmed"]):
            wrong.append(f"session {sid} was given more than it counts")
    return wrong
