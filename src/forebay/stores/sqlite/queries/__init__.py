"""The SQL of the SQLite ledger: one step a file, with its arguments and reply in the header."""

from __future__ import annotations

from forebay.stores.sql.statement import Queries

QUERIES = Queries(__name__)
