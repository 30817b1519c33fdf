"""Gathers what a run left behind: rows by SQL of its own, blobs, and the journals of all that took part."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from chaos import journal
from chaos.evidence import Attempt, Task, read_rows
from chaos.evidence import Evidence as Rows
from chaos.journal import Record

_OTHERS = {"conductor", "provider", "failpoints", "submitter", "site", "api"}


@dataclass(slots=True)
class Evidence:
    """Everything that a judge may look at; `workers` is what each life of a worker told of itself."""

    rows: Rows
    acted: list[str] = field(default_factory=list)
    payloads: dict[str, Any] = field(default_factory=dict)
    blobs: dict[str, Path] = field(default_factory=dict)
    conducted: list[Record] = field(default_factory=list)
    provider: list[Record] = field(default_factory=list)
    fired: list[Record] = field(default_factory=list)
    submitted: list[Record] = field(default_factory=list)
    workers: dict[str, list[Record]] = field(default_factory=dict)
    complaints: dict[str, str] = field(default_factory=dict)
    attempts: dict[tuple[str, int], Attempt] = field(default_factory=dict)

    @property
    def begins(self) -> list[Record]:
        return [record for record in self.provider if record["e"] == "begin"]

    def told(self, event: str) -> list[Record]:
        """What workers told under this name."""
        return [record for records in self.workers.values() for record in records if record["e"] == event]

    def struck(self, event: str) -> list[Record]:
        return [record for record in self.conducted if record["e"] == event]

    def result(self, task: Task) -> Any:  # noqa: ANN401 - JSON
        """What was recorded, from its row or its blob; None where there is none."""
        if task.result_blob is None:
            return None if task.result is None else json.loads(task.result)
        path = self.blobs.get(task.result_blob)
        return None if path is None else json.loads(path.read_bytes())


def gather(root: Path) -> Evidence:
    """Read all of it; to be called when no process of the run is left."""
    rows = Rows()
    read_rows(rows, root / "ledger.db")
    found = Evidence(rows)
    found.attempts = {(task_id, one.token): one for task_id, history in rows.history.items() for one in history}
    found.blobs = {path.name: path for path in (root / "blobs" / "blobs").rglob("*") if path.is_file()}
    logs = root / "logs"
    journals = {path.stem: journal.read(path) for path in sorted(logs.glob("*.jsonl"))}
    found.conducted = journals.get("conductor", [])
    found.provider = journals.get("provider", [])
    found.fired = journals.get("failpoints", [])
    found.submitted = journals.get("submitter", [])
    found.workers = {name: records for name, records in journals.items() if name not in _OTHERS}
    found.complaints = {path.stem: path.read_text() for path in sorted(logs.glob("*.stderr"))}
    if rows.quick_check == ["ok"]:
        _read_more(found, root / "ledger.db")
    return found


def _read_more(found: Evidence, file: Path) -> None:
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found.acted = [
            f"{verb} by {who}: {note}" for verb, who, note in db.execute("SELECT verb, who, note FROM audit")
        ]
        query = "SELECT t.id, p.payload FROM payloads AS p JOIN tasks AS t ON t.seq = p.task_seq"
        found.payloads = {task_id: json.loads(str(payload)) for task_id, payload in db.execute(query)}
    finally:
        db.close()


def by_task(records: list[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record["id"]].append(record)
    return found
