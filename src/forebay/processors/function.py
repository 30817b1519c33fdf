"""A processor that is one function of the user's."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from forebay.engine.context import Context
from forebay.engine.registry import SlotAt
from forebay.errors import BadInput
from forebay.model import payload as json_text
from forebay.model.document import Page
from forebay.model.names import check_count, check_duration, check_label, check_name
from forebay.model.payload import Json
from forebay.processors.base import Chunk, Pace, Price

Function = Callable[[Context, Chunk], Awaitable[Sequence[Page] | bytes]]


class ProcessorOptions(TypedDict, total=False):
    """What may be said of a processor when its function is registered."""

    pipeline: str
    version: str
    max_pages: int
    max_bytes: int
    page_units: tuple[float, float] | None
    limit: str | None
    slot: SlotAt
    timeout_s: float
    max_retries: int
    max_reschedules: int | None
    count: Callable[[Chunk], dict[str, int]] | None
    price: Price


@dataclass(slots=True, kw_only=True)
class FunctionProcessor:
    """`count` says what a chunk's call takes of the limit, where that is more than one call."""

    name: str
    function: Function
    pipeline: str = "ocr"
    version: str = "1"
    max_pages: int = 20
    max_bytes: int = 40_000_000
    page_units: tuple[float, float] | None = None
    limit: str | None = None
    slot: SlotAt = "handler"
    timeout_s: float = 60.0
    max_retries: int = 3
    max_reschedules: int | None = None
    count: Callable[[Chunk], dict[str, int]] | None = None
    pace: Pace | None = field(init=False, default=None)
    price: Price = field(default_factory=Price)

    def __post_init__(self) -> None:
        check_name("processor", self.name)
        check_label("version", self.version)
        check_count("max_pages", self.max_pages, least=1)
        check_count("max_bytes", self.max_bytes, least=1)
        check_duration("timeout_s", self.timeout_s)
        check_count("max_retries", self.max_retries)
        if self.max_reschedules is not None:
            check_count("max_reschedules", self.max_reschedules)
        if not inspect.iscoroutinefunction(self.function):
            raise BadInput(
                f"Processor {self.name!r} is not an `async def`.",
                remedy="Make it one; what blocks goes through `await asyncio.to_thread(…)`.",
            )

    def units(self, chunk: Chunk) -> dict[str, int] | None:
        return None if self.count is None else self.count(chunk)

    def checked(self, options: Mapping[str, Any]) -> dict[str, Json]:
        """Whatever is JSON: the function knows what it takes."""
        checked: dict[str, Json] = json.loads(json_text.encode(dict(options), what="options"))
        return checked

    async def process(self, ctx: Context, chunk: Chunk) -> Sequence[Page] | bytes:
        return await self.function(ctx, chunk)
