"""Brings a file to the present schema: numbered migrations, one at a time, under the write lock."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import apsw

from forebay.errors import StoreCorrupt
from forebay.model.access import Access
from forebay.stores.access import no_ledger, too_new, too_old

APPLICATION_ID = 0x466F7262  # "Forb": tells our files from other programs'
_LIMITS_ID = 0x466F724C  # "ForL"


class Kind(NamedTuple):
    """One kind of file of ours; `synchronous` is what it does to keep a commit when the power fails."""

    name: str
    application_id: int
    migrations: str
    synchronous: str


LEDGER = Kind("ledger", APPLICATION_ID, "migrations", "FULL")
# A record that lost its last commits is found out by the rules, and then costs a pause.
LIMITS = Kind("limits", _LIMITS_ID, "limit_migrations", "NORMAL")


@cache
def migrations(kind: Kind = LEDGER) -> dict[int, str]:
    folder = resources.files(__package__) / kind.migrations
    return {int(file.name.removesuffix(".sql")): file.read_text("utf-8") for file in folder.iterdir()}


def prepare(db: apsw.Connection, path: Path, access: Access) -> None:
    """Make the ledger usable, as far as `access` lets it.

    An older file is migrated unless it is to be left as it is: a file belongs to one machine, and the commands of a
    person who has upgraded Forebay should go on working.
    """
    found, newest = version(db, path), max(migrations())
    if not found and not access.creates:
        raise no_ledger(str(path))
    if 0 < found < newest and access is Access.AS_IS:
        raise too_old("ledger", str(path), found, newest)
    migrate(db, path)


def migrate(db: apsw.Connection, path: Path, kind: Kind = LEDGER) -> None:
    """Apply what is missing. Several processes may call it at once: the first does the work."""
    known = migrations(kind)
    if version(db, path, kind) == max(known):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for number in range(version(db, path, kind) + 1, max(known) + 1):
            db.execute(known[number])
            db.pragma("user_version", number)
        db.pragma("application_id", kind.application_id)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def version(db: apsw.Connection, path: Path, kind: Kind = LEDGER) -> int:
    """The schema that the file has, 0 if it is empty; refuses what is not ours to change."""
    # One statement, so that a migration that commits meanwhile is seen as a whole or not at all.
    found, owner, tables = db.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)"
        " FROM pragma_user_version, pragma_application_id"
    ).get
    if owner != kind.application_id and (owner or found or tables):
        whose = next((f"Forebay's {each.name}" for each in (LEDGER, LIMITS) if each.application_id == owner), None)
        raise StoreCorrupt(
            f"{path} is a SQLite database of {whose or 'another program'}.",
            remedy=f"Nothing was changed. Choose another path for the {kind.name}.",
        )
    newest = max(migrations(kind))
    if found > newest:
        raise too_new(kind.name, str(path), found, newest)
    return int(found)
