"""The SQL of the SQLite ledger: one statement a file, with its arguments and reply in the header."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def sql(name: str) -> str:
    return (resources.files(__package__) / f"{name}.sql").read_text("utf-8")
