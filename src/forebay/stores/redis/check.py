"""Recounts what the header of a limit says of its parts, from the parts alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from forebay.rules import limit_state as state
from forebay.stores.redis import codec

if TYPE_CHECKING:
    from forebay.model.limit_record import Record, Run, Seat

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
    sums = {name: sum(log["items"][1::2]) for name, log in record["logs"].items()}
    if (counts["sums"] or {}) != sums:
        wrong.append(f"the header sums up {counts['sums']}, not {sums}")
    if ends != (dues := {sid: seat["due"] for sid, seat in record["seats"].items()}):
        wrong.append(f"sessions are due at {ends}, not {dues}")
    for name, found, silent in (("line", line, False), ("unconfirmed", unconfirmed, True)):
        places = _places(record, silent=silent)
        if sorted(found or []) != places:
            wrong.append(f"{name} holds {found}, not {places}")
    open_count = sum(len(seat["calls"]) for seat in record["seats"].values())
    if sizes["calls"] != open_count:
        wrong.append(f"{sizes['calls']} calls are kept of which sessions hold {open_count}")
    latest = max((call["until"] for seat in record["seats"].values() for call in seat["calls"]), default=0)
    if counts["latest"] < latest:
        wrong.append(f"the last call is over at {latest}, not {counts['latest']}")
    tails: dict[str, int] = {}
    for _, run in _runs(record):
        tails[run["key"]] = tails.get(run["key"], 0) + 1
    if tails != (kept := {key: tail["runs"] for key, tail in record["tails"].items()}):
        wrong.append(f"the tails are of {kept}, not {tails}")
    return wrong


def _counts(record: Record) -> dict[str, int]:
    seats = record["seats"].values()
    return {
        "seats": len(seats),
        "alive": sum(seat["due"] == seat["until"] for seat in seats),
        "silent": sum(bool(seat["out"]) for seat in seats),
        "runs": sum(len(seat["runs"]) for seat in seats),
        "waiting": sum(run["count"] for _, run in _runs(record)),
        "in_line": len(_places(record, silent=False)),
        "parked": len(_places(record, silent=True)),
        "used": sum(len(seat["calls"]) for seat in seats),
        "cut_off": sum(len(seat["calls"]) for sid, seat in record["seats"].items() if state.is_cut_off(sid)),
        "tails": len(record["tails"]),
    }


def _runs(record: Record) -> list[tuple[str, Run]]:
    return [(sid, run) for sid, seat in record["seats"].items() for run in seat["runs"]]


def _places(record: Record, *, silent: bool) -> list[Place]:
    """Return where the runs stand of those sessions that have to confirm something, or of the others."""
    return sorted(
        [sid, run["id"], run["count"], run["tag"], run["tick"]]
        for sid, run in _runs(record)
        if bool(_seat(record, sid)["out"]) is silent and not state.too_large(record["eras"][0]["terms"], run["units"])
    )


def _seat(record: Record, sid: str) -> Seat:
    return record["seats"][sid]
