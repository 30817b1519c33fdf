"""The rows that SQL keeps a limit in.

A header has what a step always needs, and the counts of all the rows. Sessions, their calls and runs, the tails of
keys, and the logs of windows are rows of their own. Texts that come from callers are JSON in ASCII.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import add, sub
from typing import Any, NamedTuple, cast

from forebay.rules import limit_state as state


class Unreadable(Exception):
    """A row that is not what a limit's rows are."""


encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
MAY_BE_GRANTED, UNCONFIRMED, TOO_LARGE = range(3)
"""States of a run: only the first may be granted to; of the second the session has to confirm its grants first."""


def decode(text: str) -> Any:  # noqa: ANN401 - whatever was encoded
    try:
        return json.loads(text)
    except ValueError as error:
        raise Unreadable(str(error)) from error


class SessionRow(NamedTuple):
    """One session; `open_call_count` is how many calls it has, `unconfirmed` its grants that it has not confirmed."""

    session_id: str
    ends_at: int
    due_at: int
    request_number: int
    grant_number: int
    next_call_id: int
    label: str
    open_call_count: int
    unconfirmed: str
    place: str = ""

    @property
    def is_away(self) -> bool:
        """Whether it is that of a kept place whose owner is away."""
        return self.is_waiting and not decode(self.place)["is_awaited"]

    @property
    def is_waiting(self) -> bool:
        """Whether it is that of a kept place that waits."""
        return bool(self.place) and not decode(self.place)["holder"]


class RunRow(NamedTuple):
    """One run in line, with the numbers of its session that a grant needs."""

    session_id: str
    id: int
    state: int
    virtual_start: int
    arrival_number: int
    caller_count: int
    units: str
    key: str
    label: str
    next_call_id: int
    grant_number: int


class CallRow(NamedTuple):
    session_id: str
    id: int
    granted_at: int
    counted_at: int
    call_until: int
    units: str
    key: str
    label: str


class TailRow(NamedTuple):
    key: str
    virtual_finish: int
    run_count: int


class WindowRow(NamedTuple):
    """The log of a window: instants and units in turn, each as 8 bytes."""

    name: str
    entries: bytes


class Counts(NamedTuple):
    """What all the rows of a limit come to.

    `placed` are runs that are not too large, `silent` sessions with grants that they have not confirmed.
    """

    sessions: int = 0
    live_sessions: int = 0
    unconfirmed_sessions: int = 0
    runs: int = 0
    callers: int = 0
    placed_runs: int = 0
    calls: int = 0
    cut_off_calls: int = 0
    tails: int = 0
    places: int = 0

    def changed(self, before: Counts, after: Counts) -> Counts:
        return Counts(*map(add, self, map(sub, after, before)))


class Header(NamedTuple):
    """The header row as it was read.

    `plain` is what the record has beside its parts; `older` is the record of an older program that is not in rows yet.
    """

    id: int
    version: int
    last_step_at: int
    clock_offset_ms: int
    virtual_time: int
    placed_run_count: int
    head: str
    eras: str
    people: str
    older: str

    def load(self) -> LoadedHeader:
        head = decode(self.head)
        if "parts" in head:
            return LoadedHeader(head["record"], Counts(), {}, head["latest"], {}, head["parts"])
        return LoadedHeader(head["record"], Counts(*head["counts"]), head["sums"], head["latest"], head["units"], None)


class LoadedHeader(NamedTuple):
    """`parts` are those of a small record, which lies in its header as a whole: then there are no rows to count."""

    plain: dict[str, Any]
    counts: Counts
    window_sums: dict[str, int]
    latest_call_until: int
    in_flight_sums: dict[str, int]
    parts: dict[str, Any] | None


class HeaderChange(NamedTuple):
    """What a step writes into the header; `eras` and `people` are empty where they stay as they are."""

    last_step_at: int
    clock_offset_ms: int
    virtual_time: int
    placed_run_count: int
    head: str
    eras: str = ""
    people: str = ""


class SeatRows(NamedTuple):
    """A session with its runs and calls by their ids; of some sessions only some of their runs are known."""

    session: SessionRow | None
    runs: Mapping[int, RunRow]
    calls: Mapping[int, CallRow]

    def counts(self, sid: str) -> Counts:
        """Without tails."""
        session, runs, used = self.session, self.runs.values(), len(self.calls)
        return Counts(
            sessions=int(session is not None),
            live_sessions=int(session is not None and session.due_at == session.ends_at),
            unconfirmed_sessions=int(session is not None and (session.unconfirmed != "[]" or session.is_away)),
            runs=len(runs),
            callers=sum(run.caller_count for run in runs),
            placed_runs=sum(run.state != TOO_LARGE for run in runs),
            calls=used,
            cut_off_calls=used if state.is_cut_off(sid) else 0,
            places=int(session is not None and session.is_waiting),
        )


NO_ROWS = SeatRows(None, {}, {})


class Rows(NamedTuple):
    """All rows of a limit."""

    seats: Mapping[str, SeatRows]
    tails: Mapping[str, TailRow]
    windows: Mapping[str, bytes]


def gathered(sessions: Iterable[SessionRow], runs: Iterable[RunRow], calls: Iterable[CallRow]) -> dict[str, SeatRows]:
    """Return sessions by their ids, each with what is its own."""
    found = {session.session_id: SeatRows(session, {}, {}) for session in sessions}
    for run in runs:
        seat = found.setdefault(run.session_id, SeatRows(None, {}, {}))
        cast("dict[int, RunRow]", seat.runs)[run.id] = run
    for call in calls:
        seat = found.setdefault(call.session_id, SeatRows(None, {}, {}))
        cast("dict[int, CallRow]", seat.calls)[call.id] = call
    return found


def whole_rows(
    sessions: Iterable[Sequence[Any]],
    runs: Iterable[Sequence[Any]],
    calls: Iterable[Sequence[Any]],
    tails: Iterable[Sequence[Any]],
    windows: Iterable[Sequence[Any]],
) -> Rows:
    """Return all rows of a limit, given what statements have read; the entries of windows are bytes."""
    return Rows(
        gathered(map(SessionRow._make, sessions), map(RunRow._make, runs), map(CallRow._make, calls)),
        {decode(row[0]): TailRow(*row) for row in tails},
        {name: entries for name, entries in windows},  # noqa: C416 - rows of either driver
    )
