"""Which handler runs which kind of task, and with what options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from forebay.errors import BadInput
from forebay.model.names import check_count, check_duration, check_name

Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A handler and the options that its tasks are submitted with unless they bring their own.

    A plain function runs in a child process, which can be killed; `chunk_kind` makes it a split, whose list of
    payloads becomes the chunks of its job.
    """

    name: str
    handler: Handler
    timeout_s: float = 60.0
    max_retries: int = 3
    max_reschedules: int | None = None
    chunk_kind: str | None = None
    blocking: bool = field(init=False)

    def __post_init__(self) -> None:
        check_name("kind", self.name)
        if check_duration("timeout_s", self.timeout_s) <= 0:
            raise BadInput(f"Kind {self.name!r} has a timeout_s of 0.", remedy="Give it a second or more.")
        check_count("max_retries", self.max_retries)
        if self.max_reschedules is not None:
            check_count("max_reschedules", self.max_reschedules)
        if not callable(self.handler):
            raise BadInput(f"The handler of kind {self.name!r} cannot be called.", remedy="Decorate a function.")
        object.__setattr__(self, "blocking", not inspect.iscoroutinefunction(self.handler))


class Registry:
    """The kinds of one application."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}

    def add(self, kind: Kind) -> None:
        known = self._kinds.get(kind.name)
        if known is not None:
            raise BadInput(
                f"Kind {kind.name!r} has a handler already: {known.handler.__qualname__}.",
                remedy="Give the second one another name.",
            )
        self._kinds[kind.name] = kind

    def find(self, name: str) -> Kind | None:
        return self._kinds.get(name)

    def __getitem__(self, name: str) -> Kind:
        return self._kinds[name]

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def __len__(self) -> int:
        return len(self._kinds)


def call_arguments(payload: object) -> tuple[tuple[object, ...], dict[str, Any]]:
    """A dict payload becomes keyword arguments; anything else is the one argument; nothing is none."""
    if isinstance(payload, dict):
        return (), payload
    return ((), {}) if payload is None else ((payload,), {})
