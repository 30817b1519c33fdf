"""A file on its way through `run`, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

_ENDED = frozenset({"completed", "failed", "canceled", "refused", "unwritten"})


@dataclass(slots=True)
class Item:
    """A file on its way; `status` is its job's, or `refused`, `waiting` and `unwritten` around that."""

    path: Path
    job_id: str | None = None
    status: str = "waiting"
    page_count: int | None = None
    done_share: float = 0.0
    error_class: str | None = None
    error_text: str | None = None
    remedy: str = ""
    exit_code: int = 0
    hole_count: int = 0
    damage: str = ""
    waits: str = ""
    outputs: list[Path] = field(default_factory=list)
    mended: bool = False

    @property
    def ended(self) -> bool:
        return self.status in _ENDED

    def end(self, status: str, error_class: str, text: str, *, todo: str = "", exit_code: int = 1) -> None:
        self.status = status
        self.error_class = error_class
        self.error_text = text
        self.remedy = todo
        self.exit_code = exit_code
