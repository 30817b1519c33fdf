"""Turns a script's JSON into the types that it stands for: an empty table of Lua's may be a list or a dict."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from forebay.model.limit_record import Answer, Ask, Grant, Record, Terms

_TEXTS = ("layers", "reports", "asked")
_NUMBERS = struct.Struct(">14d")
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)


def text(value: object) -> str:
    return _ENCODER.encode(value)


def ask_text(ask: Ask) -> str:
    """A list in the order of header.lua."""
    return _ENCODER.encode(
        [
            ask["sid"],
            ask["n"],
            ask["heard"],
            ask["next"],
            ask["label"],
            ask["seen"],
            ask["elapsed"],
            ask["version"],
            ask["acked"],
            ask["sure"],
            ask["tv"],
            ask["done"],
            ask["hints"],
            ask["starts"],
            ask["runs"],
        ]
    )


def answer_of(reply: bytes) -> Answer:
    """From numbers and a list, in the order of header.lua."""
    now, v, gen, tv, lost, others, sessions, used, level, cut_off, offset, shut, began, more = map(
        int, _NUMBERS.unpack_from(reply)
    )
    found: Any = json.loads(reply[_NUMBERS.size :].decode())  # twice as fast as from bytes
    status, *lists = found
    grants, starts, waits, terms, wakes, sums = (each or [] for each in lists)
    for wait in waits:
        wait["by"] = wait["by"] or []
    for each in terms:
        _fill_terms(each)
    return {
        "status": status,
        "now": now,
        "v": v,
        "gen": gen,
        "tv": tv,
        "lost": lost,
        "grants": grants,
        "starts": starts,
        "waits": waits,
        "terms": terms,
        "wakes": sorted(wakes),  # the server's locale may have another order
        "others": others,
        "sessions": sessions,
        "used": used,
        "sums": sums,
        "level": level,
        "cut_off": cut_off,
        "offset": offset,
        "shut": shut,
        "began": began,
        "more": more,
    }


def told_of(text: bytes) -> tuple[str, list[Grant], int]:
    """What a session is woken with: the limit, its grants, and the time."""
    found: Any = json.loads(text)
    return found["limit"], found["grants"] or [], found["now"]


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
    found["layers"] = found["layers"] or []  # that of an older program was a table
    found["eras"] = found["eras"] or []
    found["logs"] = found["logs"] or {}
    found["seats"] = found["seats"] or {}
    found["tails"] = found["tails"] or {}
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
