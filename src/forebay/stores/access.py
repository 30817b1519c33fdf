"""Refuses ledgers that are missing, older or newer than this program, or of another environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.errors import SchemaTooNew, SchemaTooOld, StoreMissing, WrongEnvironment

if TYPE_CHECKING:
    from forebay.stores.base import Ledger

_MIGRATE = "`forebay store migrate`"


def no_ledger(place: str) -> StoreMissing:
    return StoreMissing(f"There is no ledger at {place} yet:", remedy="submit something or run `forebay store init`.")


def too_old(what: str, place: str, found: int, known: int) -> SchemaTooOld:
    return SchemaTooOld(
        f"The {what} in {place} has schema {found}; this Forebay needs {known}.",
        remedy=f"Stop the workers of the older version, then run {_MIGRATE}.",
    )


def too_old_limits(place: str, found: int, known: int) -> SchemaTooOld:
    return SchemaTooOld(
        f"The limits in {place} have schema {found}; this Forebay needs {known}.",
        remedy=f"Upgrade what uses them, then run {_MIGRATE}; the first program that uses a limit does the same."
        " Older programs are refused from then on.",
    )


def too_new(what: str, place: str, found: int, known: int) -> SchemaTooNew:
    return SchemaTooNew(
        f"The {what} in {place} has schema {found}; this Forebay knows {known}.",
        remedy="Upgrade Forebay here, or use the version that wrote it.",
    )


def check_not_migrated(ledger: Ledger) -> None:
    """Raise if a newer version has migrated the ledger since this program opened it."""
    schema = ledger.newer_schema()
    if schema is not None:
        raise SchemaTooNew(
            f"The ledger was migrated to schema {schema} by a newer version.",
            remedy="Start the newer version of Forebay here.",
        )


def check_environment(place: str, stored: str | None, own: str) -> None:
    if stored is not None and stored != own:
        raise WrongEnvironment(
            f"The ledger at {place} belongs to environment {stored!r}, and this process runs in {own!r}.",
            remedy=f"Set FOREBAY_ENV={stored}, or give {own!r} a database or schema of its own."
            f" If {stored!r} is a mistake, run `forebay store adopt`.",
        )
