"""A chunk as its task describes it: which pages of which document, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forebay.pipelines.cutting import Order
from forebay.processors.base import Processor
from forebay.rules import chunks as rules


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
            chunk_options=payload.get("chunk_options", {}),
        )
        first, last = payload["pages"]
        return cls(order, (first, last), payload["page_count"], payload["depth"])

    def key(self, processor: Processor, task_id: str) -> str:
        """What its result is looked for by; without reuse one of its own, where only its own attempts leave any."""
        shared = self.order.result_key(self.pages, processor)
        return shared if self.order.reuse else rules.next_key(shared, task_id)

    def kept_by(self, processor: Processor, key: str) -> list[str]:
        """What its result is remembered by: also where others look for it, unless there is one."""
        return [*dict.fromkeys((key, self.order.result_key(self.pages, processor)))]

    @property
    def size(self) -> int:
        return self.pages[1] - self.pages[0] + 1
