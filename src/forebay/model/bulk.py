"""Many tasks that are alike, as one value: they are checked once, and each is made only for those who look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from forebay import ids
from forebay.errors import BadInput
from forebay.model.payload import JsonText, decode
from forebay.model.task import NewTask


class Bulk(Sequence[NewTask]):
    """Lone tasks that differ from `first` by their payloads and by ids that were drawn for them."""

    __slots__ = ("first", "ids", "texts")

    def __init__(self, first: NewTask, texts: Sequence[JsonText], drawn: Sequence[str] | None = None) -> None:
        if not first.drawn:
            raise BadInput("A task with a name of its own has no likes.", remedy="Make each by itself.")
        self.first = first
        self.texts = texts
        self.ids = ids.random_ids(len(texts)) if drawn is None else drawn

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, at: int) -> NewTask: ...

    @overload
    def __getitem__(self, at: slice) -> Bulk: ...

    def __getitem__(self, at: int | slice) -> NewTask | Bulk:
        if isinstance(at, slice):
            return Bulk(self.first, self.texts[at], self.ids[at])
        return self.first.like(decode(self.texts[at]), id=self.ids[at])
