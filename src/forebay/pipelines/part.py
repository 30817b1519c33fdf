"""A chunk as its task describes it: which pages of which document, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forebay.pipelines.cutting import Order


@dataclass(frozen=True, slots=True)
class Part:
    """A chunk as its task describes it."""

    order: Order
    pages: tuple[int, int]
    page_count: int
    depth: int

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Part:
        order = Order(
            document=payload["document"],
            media_type="application/pdf",
            processor=payload["processor"],
            options=payload["options"],
            reuse=payload["reuse"],
            timed=payload.get("timed", False),
        )
        first, last = payload["pages"]
        return cls(order, (first, last), payload["page_count"], payload["depth"])

    @property
    def size(self) -> int:
        return self.pages[1] - self.pages[0] + 1
