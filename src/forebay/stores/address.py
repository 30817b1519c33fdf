"""Opens the ledger that an address names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from forebay.clock import Clock
from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.access import Access

if TYPE_CHECKING:
    from forebay.stores.base import Ledger

_POSTGRES = {"postgresql", "postgres"}
_LATER = {
    "s3": "A ledger in object storage",
    "gs": "A ledger in object storage",
    "az": "A ledger in object storage",
}
_REMEDY = (
    "Use sqlite:///path/to/forebay.db, postgresql://user@host/database, or memory:// for a run that need not be kept."
)


def open_ledger(
    address: str, *, clock: Clock | None = None, environment: str | None = None, access: Access = Access.USE
) -> Ledger:
    """Nothing is read or written before the ledger is used. Without an environment, its own is not looked at."""
    scheme, host, path, query, fragment = _split(address)
    if scheme == "memory" and not (host or path or query or fragment):
        from forebay.stores.memory.ledger import MemoryLedger  # noqa: PLC0415 - each store is loaded when named

        return MemoryLedger(clock)
    if scheme == "sqlite":
        from forebay.stores.sqlite.ledger import SqliteLedger  # noqa: PLC0415 - same

        return SqliteLedger(_file(host, path, query or fragment), clock=clock, environment=environment, access=access)
    if scheme in _POSTGRES:
        from forebay.stores.postgres.ledger import PostgresLedger  # noqa: PLC0415 - same

        return PostgresLedger(address, clock=clock, environment=environment, access=access)
    if scheme in _LATER:
        raise BadInput(f"{_LATER[scheme]} ({scheme}://) is not available in this version.", remedy=_REMEDY)
    # The address may carry a password: only its scheme is shown.
    raise BadInput(f"{shown(scheme)}:// does not name a ledger.", remedy=_REMEDY)


def sqlite_file(address: str) -> Path | None:
    """The file that a SQLite address names, whether it is there or not."""
    scheme, host, path, query, fragment = _split(address)
    return _file(host, path, query or fragment) if scheme == "sqlite" else None


def newest_schema(address: str) -> int | None:
    """The schema that an opened ledger has; None for a ledger that has none."""
    scheme = _split(address).scheme
    if scheme == "sqlite":
        from forebay.stores.sqlite.schema import migrations  # noqa: PLC0415 - each store is loaded when named

        return max(migrations())
    if scheme in _POSTGRES:
        from forebay.stores.postgres import schema  # noqa: PLC0415 - same

        return schema.LEDGER.newest
    return None


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address if isinstance(address, str) else "")
    except ValueError:
        raise BadInput("That is not an address.", remedy=_REMEDY) from None


def _file(host: str, path: str, extra: str) -> Path:
    if host or extra or path in {"", "/"} or "\0" in unquote(path):
        raise BadInput(
            "That sqlite:// address does not name a file.",
            remedy="Write sqlite:///relative.db, or sqlite:////absolute/path.db with four slashes.",
        )
    return Path(unquote(path.removeprefix("/")))
