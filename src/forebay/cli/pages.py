"""Reads lists page by page, and writes as much of them as was asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from forebay.cli import output
from forebay.cli.options import Reading
from forebay.errors import BadInput
from forebay.model.names import check_count
from forebay.model.query import MAX_PAGE, Query

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay

_USUAL_MOST = 50


def check_most(limit: int | None, *, every: bool) -> int | None:
    if every and limit is not None:
        raise BadInput("Both --limit and --all are given.", remedy="Leave out one of them.")
    return None if every else check_count("limit", _USUAL_MOST if limit is None else limit, least=1)


def pages(
    app: Forebay, filters: dict[str, Any], *, jobs: bool = False, most: int | None = None
) -> Iterator[tuple[Any, ...]]:
    """Page after page, until there is no more, or one more than `most`."""
    after, left = None, None if most is None else most + 1
    while left is None or left > 0:
        query = Query(**filters, after=after, size=MAX_PAGE if left is None else min(MAX_PAGE, left))
        page = app.ledger.list_jobs(query) if jobs else app.ledger.list_tasks(query)
        if page.items:
            yield page.items
        after = page.next
        if after is None:
            return
        left = None if left is None else left - len(page.items)


def write_list(
    found: Iterable[tuple[Any, ...]],
    common: Reading,
    columns: tuple[str, ...],
    rows: Callable[..., Iterable[tuple[str, ...]]],
    *,
    most: int | None = None,
    plainly: Callable[[Any], object] = lambda record: record,
) -> None:
    """NDJSON goes out page by page; the rest is laid out as a whole."""
    each_one = (record for page in found for record in page)
    taken = each_one if most is None else islice(each_one, most)
    if common.output == "ndjson":
        for record in taken:
            output.write([plainly(record)], "ndjson")
    elif common.output == "json":
        output.write(map(plainly, taken), "json")
    else:
        kept = list(taken)
        if kept:
            output.table(columns, rows(kept, time.time(), short=output.terminal()))
        else:
            output.note("There are none.")
    if next(each_one, None) is not None:
        output.note("There are more: see --limit and --all.")
