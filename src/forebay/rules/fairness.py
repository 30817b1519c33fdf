"""Decides where a task that becomes ready stands in its line, so that a huge job and a small one interleave.

A line is (kind, lane, priority); tasks in it are claimed by rising tag. Each job, and each fairness key, is a
flow. A flow's next task is tagged one behind the later of the line's head and the flow's own last tag: flows
take turns, however many tasks each has. A task without a flow joins right behind the head. Newcomers always
land behind the head, so the head of the line is finite work and nothing waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Line(NamedTuple):
    """Where tasks are compared with each other."""

    kind: str
    lane: str
    priority: int


class Place(NamedTuple):
    """A task that asks for a tag."""

    line: Line
    flow: str | None


def tags(places: Iterable[Place], heads: Mapping[Line, int], tails: Mapping[tuple[Line, str], int]) -> list[int]:
    """One tag per place. `heads`: the lowest tag of a line; `tails`: the highest of a flow in a line."""
    last: dict[tuple[Line, str], int] = {}
    given = []
    for line, flow in places:
        head = heads.get(line, 0)
        if flow is None:
            given.append(head + 1)
            continue
        key = (line, flow)
        tag = max(last.get(key, tails.get(key, 0)), head) + 1
        last[key] = tag
        given.append(tag)
    return given
