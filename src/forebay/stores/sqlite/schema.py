"""Brings a file to the present schema: numbered migrations, one at a time, under the write lock."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import apsw

from forebay.errors import SchemaTooNew, StoreCorrupt

APPLICATION_ID = 0x466F7262  # "Forb": tells our files from other programs'


def migrations() -> dict[int, str]:
    folder = resources.files(__package__) / "migrations"
    return {int(file.name.removesuffix(".sql")): file.read_text("utf-8") for file in folder.iterdir()}


def migrate(db: apsw.Connection, path: Path) -> None:
    """Apply what is missing. Several processes may call it at once: the first does the work."""
    known = migrations()
    if version(db, path) == max(known):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for number in range(version(db, path) + 1, max(known) + 1):
            db.execute(known[number])
            db.pragma("user_version", number)
        db.pragma("application_id", APPLICATION_ID)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def version(db: apsw.Connection, path: Path) -> int:
    """The schema that the file has, 0 if it is empty; refuses what is not ours to change."""
    # One statement, so that a migration that commits meanwhile is seen as a whole or not at all.
    found, owner, tables = db.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)"
        " FROM pragma_user_version, pragma_application_id"
    ).get
    if owner != APPLICATION_ID and (owner or found or tables):
        raise StoreCorrupt(
            f"{path} is a SQLite database of another program.",
            remedy="Nothing was changed. Choose another path for the ledger.",
        )
    newest = max(migrations())
    if found > newest:
        raise SchemaTooNew(
            f"{path} has schema {found}; this Forebay knows {newest}.",
            remedy="Upgrade Forebay here, or use the version that wrote the file.",
        )
    return int(found)
