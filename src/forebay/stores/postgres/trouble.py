"""Says what an error of PostgreSQL's or psycopg's means to whoever called: done, not done, or nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from forebay.errors import (
    MaybeApplied,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from forebay.ids import printable

# By the beginning of the SQLSTATE: the server did not do it.
_SAID: dict[str, tuple[type[StoreError], str]] = {
    "25006": (StoreReadOnly, "It is a replica, or set to read only: give the address of the primary."),
    "25P": (StoreBusy, "This process was too slow between two steps, and nothing was changed: try again."),
    "26000": (StoreBusy, "A pooler dropped our prepared statements: try again."),
    "28": (StoreError, "Check user and password in the address, and pg_hba.conf."),
    "3D": (StoreError, "Create the database, or name another in the address."),
    "3F": (StoreError, "Create the schema that search_path names, and let this user use it."),
    "40": (StoreBusy, "Try again."),
    "42501": (StoreReadOnly, "Give this user the right to create and to write our tables."),
    "42P01": (StoreCorrupt, "Its tables are not there: run forebay store migrate."),
    "53100": (StoreFull, "Nothing was changed. Free some space on the server's disk and try again."),
    "53200": (StoreFull, "The server has no memory left: see its log."),
    "53300": (StoreBusy, "Raise max_connections there, use fewer processes, or put PgBouncer between."),
    "55P03": (StoreBusy, "Another process holds the lock for too long: try again."),
    "57014": (StoreBusy, "It took too long, and nothing was changed: try again."),
    "57P03": (StoreBusy, "It is starting or stopping: try again in a moment."),
    "XX001": (StoreCorrupt, "Restore a backup."),
    "XX002": (StoreCorrupt, "Reindex it, or restore a backup."),
}
# libpq keeps no SQLSTATE of a connection that was refused; a server with another language falls through.
_REFUSED: dict[str, str] = {
    "system is starting up": "57P03",
    "system is shutting down": "57P03",
    "in recovery mode": "57P03",
    "not yet accepting connections": "57P03",
    "not accepting connections": "57P03",
    "password": "28",
    "authentication failed": "28",
    "no pg_hba.conf entry": "28",
    "role ": "28",
    "database ": "3D",
    "too many": "53300",
    "connection slots": "53300",
}
_UNKNOWN_IN = ("40003",)
_REPEAT = "Repeat the call; if it goes on, check the server."


class Silent(psycopg.OperationalError):
    """The server has not answered in time."""


def refuses_options(error: psycopg.OperationalError) -> bool:
    """Whether a pooler does not take settings at the start, as PgBouncer says it."""
    return "unsupported startup parameter" in str(error)


@contextmanager
def told(place: str, *, sent: bool) -> Iterator[None]:
    """Turn psycopg's errors into ours; `sent`: whether the server may have begun."""
    try:
        yield
    except psycopg.Error as error:
        raise _meaning(place, error, sent=sent) from error


def _meaning(place: str, error: psycopg.Error, *, sent: bool) -> StoreError:
    text = printable(str(error).strip().partition("\n")[0]).rstrip(".")
    state = error.sqlstate or ("" if sent else _guessed(str(error)))
    if state not in _UNKNOWN_IN:
        for known in (state, state[:3], state[:2]):
            if known in _SAID:
                kind, remedy = _SAID[known]
                return kind(f"{place} refused: {text}.", remedy=remedy)
    if not sent:
        return StoreUnreachable(f"{place} cannot be reached: {text}.", remedy="Check that it runs, and the address.")
    if isinstance(error, psycopg.OperationalError) or state in _UNKNOWN_IN:
        return MaybeApplied(f"{place} did not answer: {text}.", remedy=_REPEAT)
    return StoreError(f"{place} refused a step: {text}.", remedy="Please report this.")


def in_doubt(error: StoreError) -> MaybeApplied:
    """Return what to raise where a step was cut off at its commit, and its repeat ended with this error."""
    return MaybeApplied(f"{error.what} The connection was lost before, while the step was committed.", remedy=_REPEAT)


def _guessed(text: str) -> str:
    # The last attempt speaks: an address may resolve to several.
    if "FATAL" not in text and "no password supplied" not in text:
        return ""
    return next((state for said, state in _REFUSED.items() if said in text), "")
