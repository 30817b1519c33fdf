"""Records, terms and requests of a limit, as small as a test needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forebay.model.limit import Limit, Window
from forebay.model.limit_record import Ask, Record, Terms, Wish
from forebay.rules import limit_actions, limit_state

NOW = 1_000_000


def limit_terms(in_flight: int | None = 5, windows: Sequence[tuple[Any, ...]] = (), **fields: Any) -> Terms:  # noqa: ANN401 - any field
    whole = Limit("api", in_flight=in_flight, windows=tuple(Window(*window) for window in windows), **fields)
    return limit_actions.terms_of(whole)


def record_of(in_flight: int | None = 5, windows: Sequence[tuple[Any, ...]] = (), **fields: Any) -> Record:  # noqa: ANN401 - any field
    record = limit_state.new_record(NOW)
    record["eras"] = [{"until": -1, "terms": limit_terms(in_flight, windows, **fields)}]
    record["tv"] = 1
    return record


def wish(run: int = 1, count: int = 1, units: Mapping[str, int] | None = None, **fields: Any) -> Wish:  # noqa: ANN401 - any field
    known = {"key": "", "label": "", "front": 0, **fields}
    return {"id": run, "count": count, "units": {"calls": 1, **(units or {})}, **known}  # type: ignore[typeddict-item]


def ask_of(sid: str = "a", n: int = 1, **fields: Any) -> Ask:  # noqa: ANN401 - any field
    known: dict[str, Any] = {
        "heard": 0,
        "next": 1,
        "label": "",
        "seen": -1,
        "elapsed": 0,
        "version": 0,
        "acked": 0,
        "sure": 0,
        "tv": 1,
        "done": [],
        "hints": [],
        "starts": [],
        "runs": [],
    }
    return {"sid": sid, "n": n, **known, **fields}  # type: ignore[typeddict-item]
