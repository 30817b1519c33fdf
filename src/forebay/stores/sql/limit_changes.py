"""The difference that a step makes in the rows of a limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from forebay.stores.sql.limit_rows import (
    NO_ROWS,
    CallRow,
    HeaderChange,
    Rows,
    RunRow,
    SeatRows,
    SessionRow,
    TailRow,
    WindowRow,
)


class GrantedRow(NamedTuple):
    """A session that was given something and of which only places in line are known: what changes in its row.

    Its other runs wait from then on until it has confirmed; `known` are the ids of those that are written anyway.
    """

    session_id: str
    next_call_id: int
    grant_number: int
    unconfirmed: str
    new_call_count: int
    known_run_ids: tuple[int, ...]


class Changes(NamedTuple):
    """Rows to write and rows to delete."""

    header: HeaderChange
    sessions: list[SessionRow]
    granted: list[GrantedRow]
    dropped_sessions: list[str]
    runs: list[RunRow]
    dropped_runs: list[tuple[str, int]]
    calls: list[CallRow]
    dropped_calls: list[tuple[str, int]]
    tails: list[TailRow]
    dropped_tails: list[str]
    windows: list[WindowRow]
    dropped_windows: list[str]


class Beat(NamedTuple):
    """All that a heartbeat writes."""

    last_step_at: int
    session: SessionRow


def nothing(header: HeaderChange) -> Changes:
    return Changes(header, [], [], [], [], [], [], [], [], [], [], [])


def add_seat(changes: Changes, sid: str, before: SeatRows, after: SeatRows) -> None:
    """Add what has changed in a session that is known in full; an `after` without a session drops it."""
    if after.session is None:
        if before.session is not None:
            changes.dropped_sessions.append(sid)
    elif after.session != before.session:
        changes.sessions.append(after.session)
    add_parts(changes, sid, before, after)


def add_parts(changes: Changes, sid: str, before: SeatRows, after: SeatRows) -> None:
    changes.runs.extend(run for run_id, run in after.runs.items() if before.runs.get(run_id) != run)
    changes.dropped_runs.extend((sid, run_id) for run_id in before.runs if run_id not in after.runs)
    changes.calls.extend(call for call_id, call in after.calls.items() if before.calls.get(call_id) != call)
    changes.dropped_calls.extend((sid, call_id) for call_id in before.calls if call_id not in after.calls)


def add_tails(changes: Changes, before: Mapping[str, TailRow], after: Mapping[str, TailRow]) -> None:
    changes.tails.extend(tail for key, tail in after.items() if before.get(key) != tail)
    changes.dropped_tails.extend(tail.key for key, tail in before.items() if key not in after)


def add_windows(changes: Changes, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    changes.windows.extend(WindowRow(name, log) for name, log in after.items() if before.get(name) != log)
    changes.dropped_windows.extend(name for name in before if name not in after)


def between(before: Rows, after: Rows, header: HeaderChange) -> Changes:
    """Return what makes all the rows of a limit others."""
    changes = nothing(header)
    for sid in _both(before.seats, after.seats):
        add_seat(changes, sid, before.seats.get(sid, NO_ROWS), after.seats.get(sid, NO_ROWS))
    add_tails(changes, before.tails, after.tails)
    add_windows(changes, before.windows, after.windows)
    return changes


def _both(before: Iterable[str], after: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys([*before, *after])
