"""Records, terms and requests of a limit, as small as a test needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forebay.model.limit import Limit, Window
from forebay.model.limit_record import Ask, DeclaredRun, Record, Terms
from forebay.rules import limit_actions, limit_state

NOW = 1_000_000


def limit_terms(in_flight: int | None = 5, windows: Sequence[tuple[Any, ...]] = (), **fields: Any) -> Terms:  # noqa: ANN401 - any field
    whole = Limit("api", in_flight=in_flight, windows=tuple(Window(*window) for window in windows), **fields)
    return limit_actions.terms_of(whole)


def record_of(in_flight: int | None = 5, windows: Sequence[tuple[Any, ...]] = (), **fields: Any) -> Record:  # noqa: ANN401 - any field
    record = limit_state.new_record(NOW)
    record["eras"] = [{"ends_at": -1, "terms": limit_terms(in_flight, windows, **fields)}]
    record["terms_version"] = 1
    return record


def wish(run: int = 1, count: int = 1, units: Mapping[str, int] | None = None, **fields: Any) -> DeclaredRun:  # noqa: ANN401 - any field
    known = {"key": "", "label": "", "front": 0, **fields}
    return {"id": run, "caller_count": count, "units": {"calls": 1, **(units or {})}, **known}  # type: ignore[typeddict-item]


def ask_of(sid: str = "a", n: int = 1, **fields: Any) -> Ask:  # noqa: ANN401 - any field
    known: dict[str, Any] = {
        "confirmed_grant_number": 0,
        "next_call_id": 1,
        "label": "",
        "seen_at": -1,
        "elapsed_ms": 0,
        "seen_version": 0,
        "answered_request_number": 0,
        "is_sure": 0,
        "terms_version": 1,
        "grant_delay_ms": 0,
        "ended_calls": [],
        "refusals": [],
        "restamp_call_ids": [],
        "runs": [],
    }
    return {"session_id": sid, "request_number": n, **known, **fields}  # type: ignore[typeddict-item]
