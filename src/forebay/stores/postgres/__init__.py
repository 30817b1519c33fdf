"""Stores in a PostgreSQL database."""

from __future__ import annotations

from forebay.errors import MissingExtra

try:
    import psycopg  # noqa: F401 - only whether it is there
except ImportError:
    raise MissingExtra(
        "A store in PostgreSQL needs the package psycopg.", remedy="Run: pip install 'forebay[postgres]'"
    ) from None
