"""Recounts what the header of a limit says of its parts, from the parts alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from forebay.rules import limit_state as state
from forebay.stores.redis import codec

if TYPE_CHECKING:
    from forebay.model.limit_record import LimitSession, Record, WaitingRun

Place = list[object]


def problems(reply: bytes) -> list[str]:
    """Return what does not add up, by the reply of check.lua; nothing is wrong where nothing is kept."""
    if not reply:
        return []
    parts: list[Any] = json.loads(reply)
    record = codec.record_of(json.dumps(parts[0]).encode())
    counts, ends, line, unconfirmed, sizes = (each or {} for each in parts[1:])
    expected = _counts(record)
    wrong = [
        f"the header counts {counts[name]} {name}, not {count}"
        for name, count in expected.items()
        if counts[name] != count
    ]
    sums = {name: sum(log["entries"][1::2]) for name, log in record["window_logs"].items()}
    if (counts["window_sums"] or {}) != sums:
        wrong.append(f"the header sums up {counts['window_sums']}, not {sums}")
    wrong += _wrong_units(record, counts)
    if ends != (dues := {sid: seat["due_at"] for sid, seat in record["sessions"].items()}):
        wrong.append(f"sessions are due at {ends}, not {dues}")
    for name, found, silent in (("line", line, False), ("unconfirmed", unconfirmed, True)):
        places = _places(record, silent=silent)
        if sorted(found or []) != places:
            wrong.append(f"{name} holds {found}, not {places}")
    open_count = sum(len(seat["calls"]) for seat in record["sessions"].values())
    if sizes["calls"] != open_count:
        wrong.append(f"{sizes['calls']} calls are kept of which sessions hold {open_count}")
    latest = max((call["call_until"] for seat in record["sessions"].values() for call in seat["calls"]), default=0)
    if counts["latest_call_until"] < latest:
        wrong.append(f"the last call is over at {latest}, not {counts['latest_call_until']}")
    tails: dict[str, int] = {}
    for _, run in _runs(record):
        tails[run["key"]] = tails.get(run["key"], 0) + 1
    if tails != (kept := {key: tail["run_count"] for key, tail in record["tails"].items()}):
        wrong.append(f"the tails are of {kept}, not {tails}")
    return wrong


def _wrong_units(record: Record, counts: dict[str, Any]) -> list[str]:
    units = state.units_of(call for session in record["sessions"].values() for call in session["calls"])
    found = counts["in_flight_sums"] or {}
    return [] if found == units else [f"the header counts {found} in flight, not {units}"]


def _counts(record: Record) -> dict[str, int]:
    seats = record["sessions"].values()
    return {
        "session_count": len(seats),
        "live_session_count": sum(seat["due_at"] == seat["ends_at"] for seat in seats),
        "unconfirmed_session_count": sum(map(state.is_silent, seats)),
        "run_count": sum(len(seat["runs"]) for seat in seats),
        "caller_count": sum(run["caller_count"] for _, run in _runs(record)),
        "line_run_count": len(_places(record, silent=False)),
        "parked_run_count": len(_places(record, silent=True)),
        "in_flight_count": sum(len(seat["calls"]) for seat in seats),
        "cut_off_count": sum(len(seat["calls"]) for sid, seat in record["sessions"].items() if state.is_cut_off(sid)),
        "tail_count": len(record["tails"]),
    }


def _runs(record: Record) -> list[tuple[str, WaitingRun]]:
    return [(sid, run) for sid, seat in record["sessions"].items() for run in seat["runs"]]


def _places(record: Record, *, silent: bool) -> list[Place]:
    """Return where the runs stand of those sessions that have to confirm something, or of the others."""
    return sorted(
        [sid, run["id"], run["caller_count"], run["virtual_start"], run["arrival_number"]]
        for sid, run in _runs(record)
        if state.is_silent(_seat(record, sid)) is silent
        and not state.too_large(record["eras"][0]["terms"], run["units"])
    )


def _seat(record: Record, sid: str) -> LimitSession:
    return record["sessions"][sid]
