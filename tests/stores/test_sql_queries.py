"""Both SQL ledgers have the same statements, with the same arguments and replies."""

from __future__ import annotations

import re

import pytest

from forebay.stores.postgres.queries import QUERIES as POSTGRES
from forebay.stores.sql.statement import PLACE, Queries
from forebay.stores.sqlite.queries import QUERIES as SQLITE

# PostgreSQL reads a filtered list from the index of its filter, by a statement of its own.
LISTS = {
    "list_tasks": {"list_tasks", "list_tagged", "list_by_kind", "list_by_tenant", "list_dead", "list_dead_of_tenant",
                   "list_completed", "list_completed_of_tenant", "list_pending", "list_pending_filtered",
                   "list_pending_of_tenant"},
    "list_tasks_of_job": {"list_tasks_of_job", "list_pending_of_job", "list_running_of_job"},
    "list_jobs": {"list_jobs", "list_tagged_jobs", "list_filtered_jobs"},
}  # fmt: skip
STORES = {"postgres": POSTGRES, "sqlite": SQLITE}


def header(queries: Queries, name: str) -> str:
    return "\n".join(line for line in queries.text(name).splitlines() if line.startswith("--"))


def body(queries: Queries, name: str) -> str:
    return "\n".join(line for line in queries.text(name).splitlines() if not line.startswith("--"))


def test_both_have_the_same_names() -> None:
    """But for an exchange in one batch, which saves no way where the database is in the same process."""
    lists = set.union(*LISTS.values()) - LISTS.keys()
    assert {*POSTGRES.names()} - {*SQLITE.names()} == {"instant", "take"} | lists
    assert {*SQLITE.names()} <= {*POSTGRES.names()}


@pytest.mark.parametrize("name", SQLITE.names())
def test_both_name_the_same_arguments_and_say_what_comes_back(name: str) -> None:
    # The clock of a statement itself: on SQLite all of a transaction is at one instant.
    headers = [header(POSTGRES, each) for each in LISTS.get(name, {name})]
    named = set(PLACE.findall("\n".join(headers))) - {"clock", "look"}
    assert named == set(PLACE.findall(header(SQLITE, name))) - {"clock"}
    for queries in STORES.values():
        assert re.search(r"Reply:|No reply", header(queries, name).replace("\n-- ", " "))


@pytest.mark.parametrize(("store", "name"), [(store, name) for store in STORES for name in STORES[store].names()])
def test_a_statement_uses_no_argument_that_its_header_does_not_name(store: str, name: str) -> None:
    queries = STORES[store]
    assert set(PLACE.findall(body(queries, name))) <= set(PLACE.findall(header(queries, name)))
