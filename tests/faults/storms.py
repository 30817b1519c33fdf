"""Storms in a process of their own, and doctors of the records that they leave: each puts one flaw in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw

from chaos.journal import Record

ROOT = Path(__file__).parents[2]
QUICK = "(SELECT seq FROM tasks WHERE kind = 'quick' AND status = 'completed' LIMIT 1)"
Doctor = Callable[[Path], None]


def stormed(what: str, folder: Path, seed: int, seconds: float, *options: str) -> subprocess.CompletedProcess[str]:
    # A process of its own: the conductor forks, which a process with threads must not.
    command = [sys.executable, "-m", "chaos", what, "--minutes", f"{seconds / 60:.3f}", "--seed", str(seed)]
    return subprocess.run(
        [*command, "--folder", str(folder / str(seed)), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def imported_from_forebay(judge: str) -> str:
    """What the judge shares with the judged, as a list in Python's words."""
    names = f"import sys, {judge}; print([n for n in sys.modules if n.partition('.')[0] == 'forebay'])"
    return subprocess.run([sys.executable, "-c", names], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def sql(statement: str) -> Doctor:
    def doctor(folder: Path) -> None:
        db = apsw.Connection(str(folder / "ledger.db"))
        db.execute(statement)
        assert db.changes(), statement
        db.close()

    return doctor


def journal(name: str, event: str, change: Callable[[Record], list[Record]], *, every: bool = False) -> Doctor:
    """Put others in the place of the first record of this kind, or of all, in the first journal that has one."""

    def doctor(folder: Path) -> None:
        journals = sorted((folder / "logs").glob(f"{name}.jsonl"))
        path = next(path for path in journals if f'"{event}"' in path.read_text())
        records = [json.loads(line) for line in path.read_text().splitlines()]
        found = [index for index, record in enumerate(records) if record["e"] == event]
        for at in reversed(found if every else found[:1]):
            records[at : at + 1] = change(records[at])
        path.write_text("".join(json.dumps(record) + "\n" for record in records))

    return doctor


def blob(change: Callable[[Path], object]) -> Doctor:
    def doctor(folder: Path) -> None:
        db = apsw.Connection(str(folder / "ledger.db"))
        name = db.execute("SELECT result_blob FROM tasks WHERE result_blob IS NOT NULL LIMIT 1").get
        db.close()
        change(next((folder / "blobs").rglob(str(name))))

    return doctor
