"""Brings the table of limits to its present schema: numbered migrations, one process at a time."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import LiteralString

from psycopg import sql

from forebay.errors import SchemaTooNew, StoreCorrupt
from forebay.stores.postgres.connection import Link

_LOCK = 0x466F724C  # "ForL"
# With the table itself: whoever drops that has dropped its version, too.
_MARK = "Forebay limits, schema "
# From a table of the server's: to_regclass alone may still say "none" of what another process has just committed.
_VERSION = "SELECT oid, obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass('forebay_limits')"


@cache
def migrations() -> dict[int, LiteralString]:
    folder = resources.files(__package__) / "limit_migrations"
    return {int(file.name.removesuffix(".sql")): file.read_text("utf-8") for file in folder.iterdir()}


def migrate(link: Link, place: str) -> None:
    """Apply what is missing. Several processes may call it at once: the first does the work."""
    newest = max(migrations())
    if _version(link, place) == newest:
        return
    link.execute(link.begin)
    link.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    for number in range(_version(link, place) + 1, newest + 1):
        link.execute(migrations()[number])
    link.execute(sql.SQL("COMMENT ON TABLE forebay_limits IS {}").format(f"{_MARK}{newest}"))
    link.execute("COMMIT")


def _version(link: Link, place: str) -> int:
    """0 where there is none; refuses what is not ours to change."""
    table, said = link.execute(_VERSION).fetchone() or (None, None)
    if table is None:
        return 0
    number = str(said).removeprefix(_MARK)
    if not number.isdecimal():
        raise StoreCorrupt(
            f"{place} has a table forebay_limits of another program's.",
            remedy="Nothing was changed. Name another database, or another schema by ?options=-csearch_path%3D…",
        )
    if int(number) > max(migrations()):
        raise SchemaTooNew(
            f"The limits in {place} have schema {number}; this Forebay knows {max(migrations())}.",
            remedy="Upgrade Forebay here, or use the version that wrote them.",
        )
    return int(number)
