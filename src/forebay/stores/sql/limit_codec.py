"""Turns a limit's record into the rows that SQL keeps it in, and back."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from forebay.model.limit_record import Era, Grant, GrantedCall, LimitSession, Record, Terms, WaitingRun, WindowLog
from forebay.rules import limit_state as state
from forebay.stores.sql.limit_rows import (
    MAY_BE_GRANTED,
    TOO_LARGE,
    UNCONFIRMED,
    CallRow,
    Counts,
    Header,
    HeaderChange,
    LoadedHeader,
    Rows,
    RunRow,
    SeatRows,
    SessionRow,
    TailRow,
    Unreadable,
    decode,
    encode,
)

LARGEST_PACKED = 12_288
"""Characters of a header that has the whole limit in itself: from there on, rows cost less."""
_PEOPLE = ("layers", "pause_note", "paused_by", "reports", "refused_callers")
_APART = frozenset(
    {"eras", "last_step_at", "clock_offset_ms", "virtual_time", "sessions", "tails", "window_logs", "rest", *_PEOPLE}
)

# From rows.


@lru_cache(maxsize=512)
def _units(text: str) -> tuple[tuple[str, int], ...]:
    return tuple(decode(text).items())


@lru_cache(maxsize=512)
def _text(text: str) -> str:
    return cast("str", decode(text))


def run_of(row: RunRow) -> WaitingRun:
    return {
        "id": row.id,
        "key": _text(row.key),
        "caller_count": row.caller_count,
        "units": dict(_units(row.units)),
        "label": _text(row.label),
        "virtual_start": row.virtual_start,
        "arrival_number": row.arrival_number,
    }


def call_of(row: CallRow) -> GrantedCall:
    call: GrantedCall = {
        "id": row.id,
        "granted_at": row.granted_at,
        "counted_at": row.counted_at,
        "call_until": row.call_until,
        "units": dict(_units(row.units)),
        "label": _text(row.label),
    }
    if row.key != '""':
        call["key"] = _text(row.key)
    return call


def seat_of(rows: SeatRows, session: SessionRow) -> LimitSession:
    out: list[Grant] = [] if session.unconfirmed == "[]" else decode(session.unconfirmed)
    seat: LimitSession = {
        "ends_at": session.ends_at,
        "due_at": session.due_at,
        "request_number": session.request_number,
        "grant_number": session.grant_number,
        "next_call_id": session.next_call_id,
        "label": _text(session.label),
        "calls": [call_of(row) for row in rows.calls.values()],
        "runs": [run_of(row) for row in rows.runs.values()],
        "unconfirmed": out,
    }
    if session.place:
        seat["place"] = decode(session.place)
    return seat


def log_of(entries: bytes) -> WindowLog:
    try:
        items = list(struct.unpack(f"<{len(entries) // 8}q", entries))
    except struct.error as error:
        raise Unreadable(str(error)) from error
    return {"sum": sum(items[1::2]), "entries": items}


def tail_text(row: TailRow) -> str:
    return _text(row.key)


def plain_record(header: Header, loaded: LoadedHeader) -> Record:
    """Return the record without what only people read, and without its parts where they are rows."""
    record: dict[str, Any] = {
        **loaded.plain,
        # A step may be decided twice from one header.
        "cooldown": {**loaded.plain["cooldown"]},
        "last_step_at": header.last_step_at,
        "clock_offset_ms": header.clock_offset_ms,
        "virtual_time": header.virtual_time,
        "eras": [*_eras(header.eras)],
        "window_logs": {},
        "sessions": {},
        "tails": {},
    }
    if loaded.parts is not None:
        record.update(loaded.parts)
        logs = loaded.parts["window_logs"]
        record["window_logs"] = {name: log_of(bytes.fromhex(entries)) for name, entries in logs.items()}
    return cast("Record", record)


@lru_cache(maxsize=64)
def _eras(text: str) -> list[Era]:
    """Return eras that a step leaves as they are; it only drops those that are over."""
    return cast("list[Era]", decode(text))


def whole_record(header: Header, rows: Rows) -> Record:
    """Return all that the header and its rows say, in the order in which sessions asked first, as far as rows tell."""
    loaded = header.load()
    record = plain_record(header, loaded)
    record.update(decode(header.people))
    record["eras"] = decode(header.eras)
    if loaded.parts is not None:
        return record
    for sid, seat in rows.seats.items():
        if seat.session is not None:
            record["sessions"][sid] = seat_of(seat, seat.session)
    record["tails"] = {
        tail_text(row): {"virtual_finish": row.virtual_finish, "run_count": row.run_count}
        for row in rows.tails.values()
    }
    record["window_logs"] = {name: log_of(entries) for name, entries in rows.windows.items()}
    return record


# To rows.


def units_text(units: Mapping[str, int]) -> str:
    return encode(units) if units else "{}"


@lru_cache(maxsize=512)
def quoted(text: str) -> str:
    return encode(text)


def log_entries(log: WindowLog) -> bytes:
    items = log["entries"]
    return struct.pack(f"<{len(items)}q", *items)


def session_row(sid: str, seat: LimitSession, *, opened: int) -> SessionRow:
    """`opened` is how many calls the session has beside those that the seat has."""
    return SessionRow(
        sid,
        seat["ends_at"],
        seat["due_at"],
        seat["request_number"],
        seat["grant_number"],
        seat["next_call_id"],
        quoted(seat["label"]),
        opened + len(seat["calls"]),
        encode(seat["unconfirmed"]) if seat["unconfirmed"] else "[]",
        encode(seat["place"]) if "place" in seat else "",
    )


def run_rows(sid: str, seat: LimitSession, terms: Terms) -> dict[int, RunRow]:
    placed = UNCONFIRMED if state.is_silent(seat) else MAY_BE_GRANTED
    return {
        run["id"]: RunRow(
            sid,
            run["id"],
            TOO_LARGE if state.too_large(terms, run["units"]) else placed,
            run["virtual_start"],
            run["arrival_number"],
            run["caller_count"],
            units_text(run["units"]),
            quoted(run["key"]),
            quoted(run["label"]),
            seat["next_call_id"],
            seat["grant_number"],
        )
        for run in seat["runs"]
    }


def call_rows(sid: str, seat: LimitSession) -> dict[int, CallRow]:
    return {
        call["id"]: CallRow(
            sid,
            call["id"],
            call["granted_at"],
            call["counted_at"],
            call["call_until"],
            units_text(call["units"]),
            quoted(call.get("key", "")),
            quoted(call["label"]),
        )
        for call in seat["calls"]
    }


def rows_of(sid: str, seat: LimitSession, terms: Terms, *, opened: int = 0) -> SeatRows:
    """Return the rows of a session; `opened` is how many calls it has beside those that the seat has."""
    return SeatRows(session_row(sid, seat, opened=opened), run_rows(sid, seat, terms), call_rows(sid, seat))


def all_rows(record: Record) -> Rows:
    terms = placing_terms(record["eras"])
    return Rows(
        {sid: rows_of(sid, seat, terms) for sid, seat in record["sessions"].items()},
        {key: TailRow(quoted(key), tail["virtual_finish"], tail["run_count"]) for key, tail in record["tails"].items()},
        {name: log_entries(log) for name, log in record["window_logs"].items()},
    )


def counts_of(rows: Rows) -> Counts:
    total = Counts(tails=len(rows.tails))
    for sid, seat in rows.seats.items():
        total = total.changed(Counts(), seat.counts(sid))
    return total


def units_of_calls(rows: SeatRows) -> dict[str, int]:
    """Return how much the calls of a session take together of each unit but calls."""
    return state.units_of(call_of(row) for row in rows.calls.values())


def sums_of(record: Record) -> dict[str, int]:
    return {name: log["sum"] for name, log in record["window_logs"].items()}


_NO_WINDOWS = cast("Terms", {"windows": [], "in_flight_units": []})


def placing_terms(eras: list[Era]) -> Terms:
    """Return the terms that decide which runs are too large for the line."""
    return eras[0]["terms"] if eras else _NO_WINDOWS


def header_of(
    record: Record, counts: Counts, units: Mapping[str, int], latest: int, *, with_people: bool
) -> HeaderChange:
    sums = sums_of(record)
    head = encode({"record": _plain(record), "counts": counts, "sums": sums, "latest": latest, "units": units})
    return _header_change(record, head, counts.placed_runs, with_people=with_people)


def packed_header_of(record: Record, latest: int, *, with_people: bool) -> HeaderChange | None:
    """Return a header that has the parts of the record in itself; None where the record is too large for that."""
    logs = {name: log_entries(log).hex() for name, log in record["window_logs"].items()}
    parts = {"sessions": record["sessions"], "tails": record["tails"], "window_logs": logs}
    head = encode({"record": _plain(record), "latest": latest, "parts": parts})
    return _header_change(record, head, 0, with_people=with_people) if len(head) <= LARGEST_PACKED else None


def _plain(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in _APART}


def _header_change(record: Record, head: str, placed_run_count: int, *, with_people: bool) -> HeaderChange:
    change = HeaderChange(
        record["last_step_at"], record["clock_offset_ms"], record["virtual_time"], placed_run_count, head
    )
    if not with_people:
        return change
    people = {name: record[name] for name in _PEOPLE if name in record}  # type: ignore[literal-required]
    return change._replace(eras=encode(record["eras"]), people=encode(people))
