"""Brings a ledger's tables to the present schema: numbered migrations, one process at a time."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import LiteralString

from forebay.errors import SchemaTooNew, StoreCorrupt
from forebay.stores.postgres.connection import Link

_LOCK = 0x466F7262  # "Forb"
_MARK = "Forebay ledger, schema "
# With the table itself: whoever drops that has dropped its version, too.
# From the table of tables: to_regclass alone may go by what it knew before it waited for another's migration.
_VERSION = "SELECT oid, obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass('forebay_tasks')"


@cache
def migrations() -> dict[int, LiteralString]:
    folder = resources.files(__package__) / "migrations"
    return {int(file.name.removesuffix(".sql")): file.read_text("utf-8") for file in folder.iterdir()}


def migrate(link: Link, place: str) -> None:
    """Apply what is missing. Several processes may call it at once: the first does the work."""
    newest = max(migrations())
    if version(link, place) == newest:
        return
    link.execute(link.begin)
    link.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
    link.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    for number in range(version(link, place) + 1, newest + 1):
        link.execute(migrations()[number])
        link.execute(f"COMMENT ON TABLE forebay_tasks IS '{_MARK}{number}'")
    link.execute("COMMIT")


def version(link: Link, place: str) -> int:
    """The schema that is there, 0 if there is none; refuses what is not ours to change."""
    table, said = link.execute(_VERSION).fetchone() or (None, None)
    if table is None:
        return 0
    number = str(said).removeprefix(_MARK)
    if not number.isdecimal():
        raise StoreCorrupt(
            f"{place} has a table forebay_tasks of another program's.",
            remedy="Nothing was changed. Name another database, or another schema by ?options=-csearch_path%3D…",
        )
    if int(number) > max(migrations()):
        raise SchemaTooNew(
            f"The ledger in {place} has schema {number}; this Forebay knows {max(migrations())}.",
            remedy="Upgrade Forebay here, or use the version that wrote it.",
        )
    return int(number)
