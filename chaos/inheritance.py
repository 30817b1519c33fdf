"""What a worker learns from the journals of those that were killed before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos import journal


@dataclass(frozen=True, slots=True)
class Past:
    """Keys whose submission was never answered, and the last session with its last number."""

    unanswered: list[str]
    session_id: str = ""
    n: int = 0


def of(logs: Path, places: Sequence[tuple[str, int]]) -> Past:
    """What those left behind who had these places until now; each place comes with the number of its lives."""
    pasts = [_last(logs, place, lives) for place, lives in places]
    unanswered = [key for past in pasts for key in past.unanswered]
    return Past(unanswered, pasts[0].session_id, pasts[0].n) if len(pasts) == 1 else Past(unanswered)


def _last(logs: Path, place: str, lives: int) -> Past:
    # The first line of a journal names what it inherited; one that never got so far hands on what was before it.
    for life in range(lives - 1, -1, -1):
        path = logs / f"{place}-{life}.jsonl"
        records = journal.read(path) if path.exists() else []
        if records:
            return _past(records)
    return Past([])


def _past(records: list[journal.Record]) -> Past:
    waiting = dict.fromkeys(records[0]["unanswered"])
    asked: dict[str, list[str]] = {}
    session_id, n = "", 0
    for record in records[1:]:
        verb = record.get("verb")
        if record["e"] == "asked" and verb == "submit":
            asked[record["c"]] = [item[0] for item in record["items"]]
            waiting.update(dict.fromkeys(asked[record["c"]]))
        elif record["e"] == "told" and verb == "submit":
            for key in asked[record["c"]]:
                waiting.pop(key, None)
        elif record["e"] == "asked" and verb == "open":
            session_id, n = record["s"], 0
        elif record["e"] == "asked" and verb == "exchange":
            n = record["n"]
    return Past(list(waiting), session_id, n)
