"""What to list, and the pages that come back."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import Generic, TypeVar

from forebay import ids
from forebay.errors import BadInput
from forebay.model.names import check_count, check_label, check_name
from forebay.model.task import Role, Status

Item = TypeVar("Item")
MAX_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Filters are joined by "and". Newest come first, but a job's own tasks in the order they were made.

    `after` is the `next` of the page before, to be handed back unread.
    """

    status: Status | None = None
    kind: str | None = None
    tenant: str | None = None
    job_id: str | None = None
    role: Role | None = None
    tag: str | None = None
    after: str | None = None
    size: int = 50

    def __post_init__(self) -> None:
        check_count("size", self.size, least=1, most=MAX_PAGE)
        for name, choices in (("status", Status), ("role", Role)):
            value = getattr(self, name)
            if value is not None and value not in list(choices):
                raise BadInput(f"{ids.shown(value)} is not a {name}.", remedy=f"Use one of: {', '.join(choices)}.")
        if not isinstance(self.after, (str, NoneType)):
            raise BadInput("after must be text.", remedy="Pass on the cursor of the page before.")
        if self.tag is not None:
            check_label("tag", self.tag)
        if self.kind is not None:
            check_name("kind", self.kind)
        if self.tenant is not None:
            check_name("tenant", self.tenant)
        if self.job_id is not None:
            ids.check_id(self.job_id)


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page, and the cursor that continues it."""

    items: tuple[Item, ...]
    next: str | None = None
