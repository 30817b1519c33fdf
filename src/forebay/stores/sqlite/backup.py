"""Checks a SQLite ledger, and copies it while it is in use."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.stores.sqlite.connection import make_file, mapped, sync

_PAGES_A_STEP = 2000


def check(db: apsw.Connection) -> list[str]:
    found = [row[0] for row in db.execute("PRAGMA quick_check(20)")]
    return [] if found == ["ok"] else found


def write(db: apsw.Connection, target: Path) -> None:
    """The copy appears under its name only when it is whole and on the disk."""
    if not isinstance(target, (str, Path)):
        raise BadInput(f"{shown(target)} is not a path.", remedy="Name a new file for the backup.")
    target = Path(target)
    if target.exists():
        raise BadInput(f"{target} exists already.", remedy="Name a new file for the backup.")
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    with mapped(target):
        try:
            make_file(draft)
            copy = apsw.Connection(str(draft))
            try:
                # One read transaction around it all: else each commit of a writer would start the copy again.
                db.execute("BEGIN; SELECT 1 FROM sqlite_schema").fetchall()
                with copy.backup("main", db, "main") as progress:
                    while not progress.done:
                        progress.step(_PAGES_A_STEP)
                db.execute("COMMIT")
            finally:
                copy.close()
            sync(draft)
            os.link(draft, target)
            sync(target.parent)
        finally:
            draft.unlink(missing_ok=True)
