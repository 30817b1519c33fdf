"""The rows that SQL keeps a limit in.

A header has what a step always needs, and the counts of all the rows. Sessions, their calls and runs, the tails of
keys, and the logs of windows are rows of their own. Texts that come from callers are JSON in ASCII.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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
    """One session; `open` is how many calls it has, `out` its grants that it has not confirmed."""

    sid: str
    until: int
    due: int
    n: int
    g: int
    next: int
    label: str
    open: int
    out: str


class RunRow(NamedTuple):
    """One run in line, with the numbers of its session that a grant needs."""

    sid: str
    id: int
    state: int
    tag: int
    tick: int
    callers: int
    units: str
    key: str
    label: str
    next: int
    g: int


class CallRow(NamedTuple):
    sid: str
    id: int
    at: int
    until: int
    units: str
    key: str
    label: str


class TailRow(NamedTuple):
    key: str
    tag: int
    runs: int


class WindowRow(NamedTuple):
    """The log of a window: instants and units in turn, each as 8 bytes."""

    name: str
    entries: bytes


class Counts(NamedTuple):
    """What all the rows of a limit come to.

    `placed` are runs that are not too large, `silent` sessions with grants that they have not confirmed.
    """

    seats: int = 0
    alive: int = 0
    silent: int = 0
    runs: int = 0
    waiting: int = 0
    placed: int = 0
    used: int = 0
    cut_off: int = 0
    tails: int = 0

    def changed(self, before: Counts, after: Counts) -> Counts:
        return Counts(*(count + new - old for count, old, new in zip(self, before, after, strict=True)))


class Header(NamedTuple):
    """The header row as it was read. `latest` is when the last call that was ever granted is over.

    `plain` is what the record has beside its parts; `older` is the record of an older program that is not in rows yet.
    """

    id: int
    version: int
    last: int
    offset: int
    virtual: int
    placed: int
    head: str
    eras: str
    people: str
    older: str

    def load(self) -> LoadedHeader:
        head = decode(self.head)
        return LoadedHeader(head["record"], Counts(*head["counts"]), head["sums"], head["latest"])


class LoadedHeader(NamedTuple):
    plain: dict[str, Any]
    counts: Counts
    sums: dict[str, int]
    latest: int


class HeaderChange(NamedTuple):
    """What a step writes into the header; `eras` and `people` are empty where they stay as they are."""

    last: int
    offset: int
    virtual: int
    placed: int
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
            seats=int(session is not None),
            alive=int(session is not None and session.due == session.until),
            silent=int(session is not None and session.out != "[]"),
            runs=len(runs),
            waiting=sum(run.callers for run in runs),
            placed=sum(run.state != TOO_LARGE for run in runs),
            used=used,
            cut_off=used if state.is_cut_off(sid) else 0,
        )


NO_ROWS = SeatRows(None, {}, {})


class Rows(NamedTuple):
    """All rows of a limit."""

    seats: Mapping[str, SeatRows]
    tails: Mapping[str, TailRow]
    windows: Mapping[str, bytes]


def gathered(sessions: Iterable[SessionRow], runs: Iterable[RunRow], calls: Iterable[CallRow]) -> dict[str, SeatRows]:
    """Return sessions by their ids, each with what is its own."""
    found = {session.sid: SeatRows(session, {}, {}) for session in sessions}
    for run in runs:
        seat = found.setdefault(run.sid, SeatRows(None, {}, {}))
        cast("dict[int, RunRow]", seat.runs)[run.id] = run
    for call in calls:
        seat = found.setdefault(call.sid, SeatRows(None, {}, {}))
        cast("dict[int, CallRow]", seat.calls)[call.id] = call
    return found
