"""Both SQL ledgers have the same statements, with the same arguments and replies."""

from __future__ import annotations

import re

import pytest

from forebay.stores.postgres.queries import QUERIES as POSTGRES
from forebay.stores.sql.statement import PLACE, Queries
from forebay.stores.sqlite.queries import QUERIES as SQLITE

STORES = {"postgres": POSTGRES, "sqlite": SQLITE}


def header(queries: Queries, name: str) -> str:
    return "\n".join(line for line in queries.text(name).splitlines() if line.startswith("--"))


def body(queries: Queries, name: str) -> str:
    return "\n".join(line for line in queries.text(name).splitlines() if not line.startswith("--"))


def test_both_have_the_same_names() -> None:
    """But for an exchange in one batch, which saves no way where the database is in the same process."""
    assert {*POSTGRES.names()} - {*SQLITE.names()} == {"instant", "take"}
    assert {*SQLITE.names()} <= {*POSTGRES.names()}


@pytest.mark.parametrize("name", SQLITE.names())
def test_both_name_the_same_arguments_and_say_what_comes_back(name: str) -> None:
    # The clock of a statement itself: on SQLite all of a transaction is at one instant.
    named = {store: set(PLACE.findall(header(queries, name))) - {"clock"} for store, queries in STORES.items()}
    assert named["postgres"] == named["sqlite"]
    for queries in STORES.values():
        assert re.search(r"Reply:|No reply", header(queries, name).replace("\n-- ", " "))


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", SQLITE.names())
def test_a_statement_uses_no_argument_that_its_header_does_not_name(store: str, name: str) -> None:
    queries = STORES[store]
    assert set(PLACE.findall(body(queries, name))) <= set(PLACE.findall(header(queries, name)))
