"""Decides where a task that becomes ready stands in its line, so that tenants, jobs and keys take turns.

A line is (kind, lane, priority); tasks in it are claimed by rising tag. Tasks belong to flows: a fairness key is a
flow, each job is a flow of its tenant, the lone tasks of a tenant are one more, and so is each key that the tenant
itself may choose. A flow's next task is tagged one
step behind the later of the line's head and the flow's own last tag. The step is 1 for a key, and for a flow of a
tenant the number of that tenant's flows in the line: the flows of a tenant share one turn. Newcomers always land behind
the head, so the head of the line is finite work and nothing waits for ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from forebay.model.names import LABEL_LENGTH

MAX_CROWD = 32
"""How many flows of a tenant are counted: with more, each takes a step as if there were this many."""


class Line(NamedTuple):
    """Where tasks are compared with each other."""

    kind: str
    lane: str
    priority: int


class Place(NamedTuple):
    """A task that asks for a tag. `tenant` is None for a flow that shares its turn with no other."""

    line: Line
    flow: str | None
    tenant: str | None = None


def flow_of(fairness_key: str | None, tenant: str, job_id: str | None) -> str:
    """The flow of a new task; the flows of a tenant begin with its name and a slash, which no tenant's name has."""
    return fairness_key or f"{tenant}/{job_id or ''}"


def key_within(tenant: str, key: str) -> str:
    """Return the fairness key of a tenant that chose `key`: a flow of that tenant, whatever the key looks like."""
    flow = f"{tenant}/{key}"
    return flow if len(flow) <= LABEL_LENGTH else f"{tenant}/{hashlib.sha256(key.encode()).hexdigest()}"


def place_of(line: Line, flow: str | None, tenant: str) -> Place:
    """The place of a stored task; ledgers of earlier versions have tasks without a flow, and jobs by their id."""
    return Place(line, flow, tenant if flow is not None and flow.startswith(f"{tenant}/") else None)


def flow_range(tenant: str) -> tuple[str, str]:
    """The flows of a tenant: from the first, up to and without the second."""
    return f"{tenant}/", f"{tenant}0"


def tags(
    places: Iterable[Place],
    heads: Mapping[Line, int],
    tails: Mapping[tuple[Line, str], int],
    crowds: Mapping[tuple[Line, str], int],
) -> list[int]:
    """Return one tag for each place."""
    return Tagger(heads, tails, crowds).tags(places)


class Tagger:
    """Gives tags to places that come in parts, as if they came at once.

    `heads` has the lowest tag of a line, `tails` the highest of a flow in a line, `crowds` how many flows of a tenant
    stand in a line.
    """

    def __init__(
        self,
        heads: Mapping[Line, int],
        tails: Mapping[tuple[Line, str], int],
        crowds: Mapping[tuple[Line, str], int],
    ) -> None:
        self._heads = heads
        self._last = dict(tails)
        self._steps: dict[tuple[Line, str], int] = {}
        self._crowds = dict(crowds)

    def tags(self, places: Iterable[Place]) -> list[int]:
        return [self._tag(*place) for place in places]

    def _tag(self, line: Line, flow: str | None, tenant: str | None) -> int:
        head = self._heads.get(line, 0)
        if flow is None:
            return head + 1
        key = (line, flow)
        tail = self._last.get(key, 0)
        step = self._steps.get(key)
        if step is None:
            step = 1 if tenant is None else _step(self._crowds, (line, tenant), joins=tail < max(head, 1))
            self._steps[key] = step
        tag = self._last[key] = max(tail, head) + step
        return tag


def _step(crowd: dict[tuple[Line, str], int], key: tuple[Line, str], *, joins: bool) -> int:
    """How many flows of the tenant share its turn, with the one that asks, which may only join the line now."""
    count = crowd.get(key, 0) + joins
    crowd[key] = count
    return max(1, min(count, MAX_CROWD))
