"""Turns a script's JSON into the types that it stands for: an empty table of Lua's may be a list or a dict."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from forebay.model.limit_record import Answer, Ask, Grant, Record, Restamp, Terms, Wait

_TEXTS = ("layers", "reports", "refused_callers")
_GRANT = ("number", "run_id", "call_count", "first_call_id", "granted_at", "max_age_ms")
_RESTAMP = ("call_id", "granted_at", "max_age_ms")
_WAIT = ("ask_again_in_ms", "eta_ms", "ahead_count", "blocked_by")
_NUMBERS = struct.Struct(">14d")
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)


def text(value: object) -> str:
    return _ENCODER.encode(value)


def ask_text(ask: Ask) -> str:
    """A list in the order of header.lua."""
    return _ENCODER.encode(
        [
            ask["session_id"],
            ask["request_number"],
            ask["confirmed_grant_number"],
            ask["next_call_id"],
            ask["label"],
            ask["seen_at"],
            ask["elapsed_ms"],
            ask["seen_version"],
            ask["answered_request_number"],
            ask["is_sure"],
            ask["terms_version"],
            [[call["call_id"], call["outcome"], call["units"]] for call in ask["ended_calls"]],
            [
                [refusal["kind"], refusal["granted_at"], refusal["wait_ms"], refusal["jitter_permille"]]
                for refusal in ask["refusals"]
            ],
            ask["restamp_call_ids"],
            [
                [
                    run["id"],
                    run["key"],
                    run["caller_count"],
                    run["units"],
                    run["label"],
                    run["front"],
                    run.get("in_hand_count", 0),
                ]
                for run in ask["runs"]
            ],
            ask["grant_delay_ms"],
            *_of_place(ask),
        ]
    )


def _of_place(ask: Ask) -> list[str | int]:
    """Return what only those say who have to do with a kept place."""
    if "holder" not in ask and "keep_ms" not in ask:
        return []
    return [ask.get("holder", ""), ask.get("keep_ms", 0), ask.get("place_name", "")]


def answer_of(reply: bytes) -> Answer:
    """From numbers and a list, in the order of header.lua."""
    (
        now,
        version,
        generation,
        terms_version,
        session_lost,
        other_callers,
        sessions,
        in_flight,
        level,
        cut_off,
        clock_offset,
        shut_for,
        began_at,
        has_more,
    ) = map(int, _NUMBERS.unpack_from(reply))
    found: Any = json.loads(reply[_NUMBERS.size :].decode())  # twice as fast as from bytes
    status, *lists = found
    grants, restamps, waits, terms, woken, sums, unit_sums = (each or [] for each in lists)
    for each in terms:
        _fill_terms(each)
    return {
        "status": status,
        "now": now,
        "version": version,
        "generation": generation,
        "terms_version": terms_version,
        "session_lost": session_lost,
        "grants": _grants(grants),
        "restamps": [cast("Restamp", dict(zip(_RESTAMP, each, strict=True))) for each in restamps],
        "waits": [_wait(each) for each in waits],
        "terms": terms,
        "woken_session_ids": sorted(woken),  # the server's locale may have another order
        "other_caller_count": other_callers,
        "session_count": sessions,
        "in_flight_count": in_flight,
        "in_flight_sums": unit_sums,
        "window_sums": sums,
        "cooldown_level": level,
        "cut_off_count": cut_off,
        "clock_offset_ms": clock_offset,
        "shut_for_ms": shut_for,
        "cooldown_began_at": began_at,
        "has_more": has_more,
    }


def _grants(lists: list[list[int]]) -> list[Grant]:
    grants = []
    for each in lists:
        grant = cast("Grant", dict(zip(_GRANT, each, strict=True)))
        if grant["max_age_ms"] < 0:
            del grant["max_age_ms"]
        grants.append(grant)
    return grants


def _wait(values: list[Any]) -> Wait:
    wait = cast("Wait", dict(zip(_WAIT, values, strict=True)))
    wait["blocked_by"] = wait["blocked_by"] or []
    return wait


def told_of(text: bytes) -> tuple[str, list[Grant], int]:
    """What a session is woken with: the limit, its grants, and the time."""
    found: Any = json.loads(text)
    return found["limit"], _grants(found["grants"] or []), found["now"]


def record_text(record: Record) -> str:
    """Return a record as text, in which what scripts do not read is text once more: fractions would lose digits."""
    return parts_text(record)


def parts_text(parts: Mapping[str, object]) -> str:
    """Some parts of a record, as it keeps them."""
    kept = {name: _ENCODER.encode(parts[name]) for name in _TEXTS if parts.get(name, "") != ""}
    return _ENCODER.encode({**parts, **kept})


def record_of(text: bytes) -> Record:
    found: Any = json.loads(text)
    for name in _TEXTS:
        if isinstance(found.get(name), str):
            found[name] = json.loads(found[name])
    found["layers"] = found["layers"] or []
    found["eras"] = found["eras"] or []
    found["window_logs"] = found["window_logs"] or {}
    found["sessions"] = found["sessions"] or {}
    found["tails"] = found["tails"] or {}
    for era in found["eras"]:
        _fill_terms(era["terms"])
    for log in found["window_logs"].values():
        log["entries"] = log["entries"] or []
    for seat in found["sessions"].values():
        for name in ("calls", "runs", "unconfirmed"):
            seat[name] = seat[name] or []
        for each in (*seat["calls"], *seat["runs"]):
            each["units"] = each["units"] or {}
    if "rest" in found:
        found["rest"]["horizon"] = []
    return cast("Record", found)


def _fill_terms(terms: Terms) -> None:
    terms["windows"] = terms["windows"] or []
    terms["in_flight_units"] = terms["in_flight_units"] or []
    terms["cooldown_steps_ms"] = terms["cooldown_steps_ms"] or []
