"""Brings tables to their present schema: numbered migrations, one process at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import LiteralString

from psycopg import sql
from psycopg.errors import DuplicateTable

from forebay.errors import StoreCorrupt
from forebay.model.access import Access
from forebay.stores.access import no_ledger, too_new, too_old
from forebay.stores.postgres.connection import Link

# From the table of tables: to_regclass alone may go by what it knew before it waited for another's migration.
_VERSION = "SELECT oid, obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass(%s)"


@dataclass(frozen=True)
class Schema:
    """A folder of migrations; how far they went stands with the first table: whoever drops that drops it, too."""

    what: str
    table: LiteralString
    folder: str
    lock: int

    @cached_property
    def migrations(self) -> dict[int, LiteralString]:
        folder = resources.files(__package__) / self.folder
        return {int(file.name.removesuffix(".sql")): file.read_text("utf-8") for file in folder.iterdir()}

    @property
    def newest(self) -> int:
        return max(self.migrations)

    def prepare(self, link: Link, place: str, access: Access) -> None:
        """Make the tables usable, as far as `access` lets it: older ones are migrated only by whoever means to."""
        found = self.version(link, place)
        if found == self.newest:
            return
        if not found and not access.creates:
            raise no_ledger(place)
        if found and not access.migrates:
            raise too_old(self.what, place, found, self.newest)
        self._migrate(link, place)

    def _migrate(self, link: Link, place: str) -> None:
        """Apply what is missing. Several processes may call it at once: the first does the work."""
        link.execute(link.begin)
        link.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        link.execute("SELECT pg_advisory_xact_lock(%s)", (self.lock,))
        for number in range(self.version(link, place) + 1, self.newest + 1):
            try:
                link.execute(self.migrations[number])
            except DuplicateTable:
                raise StoreCorrupt(
                    f"Of the {self.what} in {place} some tables are there and {self.table} is not.",
                    remedy="Nothing was changed. Restore it from a backup, or drop what is left of it.",
                ) from None
            comment = sql.SQL("COMMENT ON TABLE {} IS {}")
            link.execute(comment.format(sql.Identifier(self.table), f"{self._mark}{number}"))
        link.execute("COMMIT")

    @property
    def _mark(self) -> str:
        return f"Forebay {self.what}, schema "

    def version(self, link: Link, place: str) -> int:
        """What is there, 0 if nothing is; refuses what is not ours to change."""
        table, said = link.execute(_VERSION, (self.table,)).fetchone() or (None, None)
        if table is None:
            return 0
        number = str(said).removeprefix(self._mark)
        if not number.isdecimal():
            raise StoreCorrupt(
                f"{place} has a table {self.table} of another program's.",
                remedy="Nothing was changed. Name another database, or another schema by ?options=-csearch_path%3D…",
            )
        if int(number) > self.newest:
            raise too_new(self.what, place, int(number), self.newest)
        return int(number)


LEDGER = Schema("ledger", "forebay_tasks", "migrations", 0x466F7262)
LIMITS = Schema("limits", "forebay_limits", "limit_migrations", 0x466F724C)
