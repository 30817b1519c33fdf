"""Reads the record of a limit that an older program keeps in one text."""

from __future__ import annotations

from typing import cast

from forebay.model.limit_record import Record
from forebay.rules import admission
from forebay.stores.sql.limit_rows import decode


def read_older(text: str) -> Record:
    """Return the record with what older programs did not keep: the tails of keys, and when sessions are due."""
    record = cast("Record", decode(text))
    if "tails" not in record:
        record["tails"] = {}
        terms = record["eras"][0]["terms"] if record["eras"] else None
        for seat in record["seats"].values():
            if terms is not None:
                for run in seat["runs"]:
                    end = run["tag"] + run["count"] * admission.cost(run["units"], terms)
                    tail = record["tails"].setdefault(run["key"], {"tag": record["virtual"], "runs": 0})
                    tail["tag"] = max(tail["tag"], end)
                    tail["runs"] += 1
    for seat in record["seats"].values():
        if "due" not in seat:
            seat["due"] = seat["until"]
            if seat["until"] <= record["last"] and seat["calls"]:
                seat["due"] = min(call["until"] for call in seat["calls"])
    return record
