"""Turns a script's JSON into the types that it stands for: an empty table of Lua's may be a list or a dict."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from forebay.model.limit_record import Answer, Ask, Grant, Record, Terms

_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_ANSWER_LISTS = ("grants", "starts", "waits", "terms", "wakes", "sums")


def ask_text(ask: Ask) -> str:
    return _ENCODER.encode(ask)


def answer_of(text: bytes) -> Answer:
    found: Any = json.loads(text.decode())  # twice as fast as from bytes
    for name in _ANSWER_LISTS:
        found[name] = found[name] or []
    found["wakes"].sort()  # the server's locale may have another order
    for wait in found["waits"]:
        wait["by"] = wait["by"] or []
    for terms in found["terms"]:
        _fill_terms(terms)
    return cast("Answer", found)


def told_of(text: bytes) -> tuple[str, list[Grant], int]:
    """What a session is woken with: the limit, its grants, and the time."""
    found: Any = json.loads(text)
    return found["limit"], found["grants"] or [], found["now"]


def record_text(record: Record) -> str:
    """Layers are kept as text: scripts do not read them, and their fractions would lose digits."""
    return _ENCODER.encode({**record, "layers": _ENCODER.encode(record["layers"])})


def record_of(text: bytes) -> Record:
    found: Any = json.loads(text)
    found["layers"] = json.loads(found["layers"])
    found["eras"] = found["eras"] or []
    found["logs"] = found["logs"] or {}
    found["seats"] = found["seats"] or {}
    for era in found["eras"]:
        _fill_terms(era["terms"])
    for log in found["logs"].values():
        log["items"] = log["items"] or []
    for seat in found["seats"].values():
        for name in ("calls", "runs", "out"):
            seat[name] = seat[name] or []
        for each in (*seat["calls"], *seat["runs"]):
            each["units"] = each["units"] or {}
    return cast("Record", found)


def _fill_terms(terms: Terms) -> None:
    terms["windows"] = terms["windows"] or []
    terms["backoff"] = terms["backoff"] or []
