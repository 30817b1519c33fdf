"""Reads the record of a limit that an older program keeps in one text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from forebay.model.limit_record import Record
from forebay.rules import limit_state as state
from forebay.stores.sql.limit_rows import decode

# What the first program called the fields.
_RECORD = {
    "v": "version",
    "gen": "generation",
    "offset": "clock_offset_ms",
    "last": "last_step_at",
    "tv": "terms_version",
    "logs": "window_logs",
    "seats": "sessions",
    "paused": "paused_until",
    "note": "pause_note",
    "cool": "cooldown",
    "hold": "held_back_until",
    "virtual": "virtual_time",
    "tick": "arrival_count",
    "mean": "mean_call_ms",
}
_TERMS = {
    "call": "call_timeout_ms",
    "lease": "lease_ms",
    "beat": "heartbeat_ms",
    "start": "start_within_ms",
    "transit": "transit_ms",
    "stops": "stops_on_disconnect",
    "backoff": "cooldown_steps_ms",
    "longest": "max_cooldown_ms",
    "breaker": "breaker_after",
    "down": "when_store_down",
}
_ERA = {"until": "ends_at"}
_BOUND = {"per": "per_ms"}
_LAYER = {"until": "ends_at", "at": "set_at", "who": "set_by"}
_LOG = {"items": "entries"}
_COOLDOWN = {
    "until": "ends_at",
    "began": "began_at",
    "ramp": "ramp_began_at",
    "second": "ramp_second",
    "count": "ramp_grant_count",
    "fails": "failure_count",
}
_SESSION = {
    "until": "ends_at",
    "n": "request_number",
    "g": "grant_number",
    "next": "next_call_id",
    "out": "unconfirmed",
}
_CALL = {"at": "granted_at", "until": "call_until"}
_RUN = {"count": "caller_count", "tag": "virtual_start", "tick": "arrival_number"}
_GRANT = {"g": "number", "run": "run_id", "count": "call_count", "first": "first_call_id", "at": "granted_at"}


def read_older(text: str) -> Record:
    """Return the record with what older programs did not keep: the tails of keys, and when sessions are due."""
    record = _renamed_record(decode(text))
    record["tails"] = {}
    record["freshness_ms"] = record["freshness_until"] = record["last_counted_at"] = 0
    terms = record["eras"][0]["terms"] if record["eras"] else None
    for session in record["sessions"].values():
        if terms is not None:
            for run in session["runs"]:
                finish = run["virtual_start"] + run["caller_count"] * state.cost(run["units"], terms)
                tail = record["tails"].setdefault(
                    run["key"], {"virtual_finish": record["virtual_time"], "run_count": 0}
                )
                tail["virtual_finish"] = max(tail["virtual_finish"], finish)
                tail["run_count"] += 1
        session["due_at"] = session["ends_at"]
        if session["ends_at"] <= record["last_step_at"] and session["calls"]:
            session["due_at"] = min(call["call_until"] for call in session["calls"])
    return record


def _renamed_record(older: dict[str, Any]) -> Record:
    record = _renamed(older, _RECORD)
    record["cooldown"] = _renamed(record["cooldown"], _COOLDOWN)
    record["layers"] = _all_renamed(record["layers"], _LAYER)
    record["window_logs"] = {name: _renamed(log, _LOG) for name, log in record["window_logs"].items()}
    record["eras"] = _all_renamed(record["eras"], _ERA)
    for era in record["eras"]:
        era["terms"] = {"share_processes": 0, "in_flight_units": []} | _renamed(era["terms"], _TERMS)
        era["terms"]["windows"] = _all_renamed(era["terms"]["windows"], _BOUND)
    record["sessions"] = {sid: _renamed_session(session) for sid, session in record["sessions"].items()}
    return cast("Record", record)


def _renamed_session(older: dict[str, Any]) -> dict[str, Any]:
    session = _renamed(older, _SESSION)
    session["calls"] = [{"counted_at": call["granted_at"], **call} for call in _all_renamed(session["calls"], _CALL)]
    session["runs"] = _all_renamed(session["runs"], _RUN)
    session["unconfirmed"] = _all_renamed(session["unconfirmed"], _GRANT)
    return session


def _all_renamed(older: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [_renamed(each, names) for each in older]


def _renamed(older: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in older.items()}
