"""Lists all the tasks that a query asks for, however many pages they fill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from forebay.model.query import MAX_PAGE, Query
from forebay.model.task import Task
from forebay.stores.base import Ledger


def pages(ledger: Ledger, query: Query) -> Iterator[Sequence[Task]]:
    """Without payload and result; one look at the ledger for each page."""
    after: str | None = None
    while True:
        page = ledger.list_tasks(replace(query, after=after, size=MAX_PAGE))
        yield page.items
        after = page.next
        if after is None:
            return


def whole(ledger: Ledger, query: Query) -> Iterator[Task]:
    """Yield the tasks with payload and result, without those deleted meanwhile; two reads a page."""
    for page in pages(ledger, query):
        yield from ledger.get_many([listed.id for listed in page])
