"""Which handler runs which kind of task, and with what options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.limit import check_units
from forebay.model.names import check_count, check_duration, check_name

Handler = Callable[..., Any]
Units = Mapping[str, int] | Callable[..., Mapping[str, int]]
SlotAt = Literal["handler", "call"]


class Places(NamedTuple):
    """How many tasks of a kind a worker runs at once beside all others, and how many of them of one lane.

    Lanes whose names are alike up to their last dot are a group, which has a bound of its own. What follows the last
    dot is the tenant, which gets half of the places at most.
    """

    in_all: int
    per_lane: int
    per_group: int


class KindOptions(TypedDict, total=False):
    """What may be said of a kind when its handler is registered."""

    limit: str | None
    slot: SlotAt
    units: Units | None
    timeout_s: float
    max_retries: int
    max_reschedules: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A handler and the options that its tasks are submitted with unless they bring their own.

    A plain function runs in a child process, which can be killed; `chunk_kind` makes it a split, whose list of
    payloads becomes the chunks of its job. With a `limit`, the handler is one call of it and takes its slot right
    before it starts; with slot="call" it takes one for each call itself. `units` are a dict, or a function that is
    called like the handler, without the context. One that is `optional` is left to others by a worker while nobody has
    defined its limit. One with `places` of its own takes none of the others', and its lanes do not starve each other.
    """

    name: str
    handler: Handler
    timeout_s: float = 60.0
    max_retries: int = 3
    max_reschedules: int | None = None
    chunk_kind: str | None = None
    limit: str | None = None
    slot: SlotAt = "handler"
    units: Units | None = None
    optional: bool = False
    places: Places | None = None
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
        self._check_limit()

    def _check_limit(self) -> None:
        if self.limit is not None:
            check_name("limit", self.limit)
        elif self.units is not None or self.slot != "handler":
            raise BadInput(f"Kind {self.name!r} has units or a slot, but no limit.", remedy="Name it: limit='…'.")
        if self.slot not in {"handler", "call"}:
            raise BadInput(f"slot is {shown(self.slot)}.", remedy='Choose "handler" or "call".')
        if self.slot == "call" and self.units is not None:
            raise BadInput(
                f"Kind {self.name!r} takes a slot for each call itself.",
                remedy="Give the units there: ctx.slot(units=…).",
            )
        if self.units is not None and not callable(self.units):
            check_units(self.units)

    def units_of(self, payload: object) -> dict[str, int]:
        """What the handler's call takes of its limit."""
        if callable(self.units):
            positional, named = call_arguments(payload)
            return check_units(self.units(*positional, **named))
        return check_units(self.units)


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

    def plus(self, kind: Kind) -> Registry:
        more = self.without(())
        more.add(kind)
        return more

    def without(self, names: Container[str]) -> Registry:
        left = Registry()
        left._kinds = {name: kind for name, kind in self._kinds.items() if name not in names}
        return left

    def check_runnable(self, target: str | None) -> None:
        """Whether a worker can run them; `target` is where its children find the application."""
        if not self._kinds:
            raise BadInput("There is no handler to run.", remedy="Register one with @app.task(…).")
        blocking = sorted(kind.name for kind in self if kind.blocking)
        if blocking and target is None:
            raise BadInput(
                f"{blocking[0]!r} is a plain function and runs in a child process, which cannot find the application.",
                remedy="Define the application in a module and start `forebay worker module:app`, or make it async.",
            )

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
