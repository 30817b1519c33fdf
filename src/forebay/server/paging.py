"""Pages of lists: how long they may be, and cursors that are good for those only who got them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import Query

from forebay.model.payload import Json
from forebay.model.query import MAX_PAGE, Page
from forebay.server.callers import Caller
from forebay.server.problems import Refused

T = TypeVar("T")
_MARK = 12
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Items of a page.")]
Cursor = Annotated[str | None, Query(max_length=64, description="The `next` of the page before.")]
PAGE = 50


def after(cursor: str | None, caller: Caller, noun: str) -> str | None:
    """The ledger's own cursor in one that we handed out."""
    if cursor is None:
        return None
    place, _, mark = cursor.partition(".")
    if not place.isascii() or not place.isdecimal() or mark != _marked(place, caller, noun):
        raise Refused(
            400, "bad_cursor", "The cursor is none of this list's.", remedy="Pass on the `next` of the page before."
        )
    return place


def answer(page: Page[T], caller: Caller, noun: str, made: Callable[[T], dict[str, Json]]) -> dict[str, Any]:
    following = page.next and f"{page.next}.{_marked(page.next, caller, noun)}"
    return {"items": [made(item) for item in page.items], "next": following}


def items(found: Iterable[Any]) -> dict[str, Any]:
    return {"items": [*found]}


def _marked(place: str, caller: Caller, noun: str) -> str:
    # No secret: it keeps cursors from being mixed up, and a place in a list is nothing to be hidden.
    return hashlib.sha256(f"{noun}\0{caller.tenant or ''}\0{place}".encode()).hexdigest()[:_MARK]
