"""Keeps the ready and the delayed tasks of a memory ledger in order, with stale entries dropped when met."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import count

from forebay.model.task import Status, Task
from forebay.rules.fairness import MAX_CROWD, Line, place_of, tags

Entry = tuple[int, float, int, str]


class Index:
    """Heaps per line. An entry counts while its task is pending with the same tag and time."""

    def __init__(self, read: Callable[[str], Task | None]) -> None:
        self._read = read
        self._lines: dict[str, dict[Line, list[Entry]]] = defaultdict(lambda: defaultdict(list))
        self._later: dict[str, list[tuple[float, int, str]]] = defaultdict(list)
        self._ends: dict[tuple[Line, str], deque[tuple[int, str]]] = {}  # of each flow, by rising tag
        self._flows: dict[tuple[Line, str], dict[str, None]] = defaultdict(dict)
        self._order: dict[str, int] = {}
        self._next = count()

    def add_later(self, task: Task) -> None:
        heapq.heappush(self._later[task.kind], (task.available_at, self._order_of(task), task.id))

    def add_ready(self, task: Task) -> None:
        line, tag = _line(task), task.tag or 0
        heapq.heappush(self._lines[task.kind][line], (tag, task.available_at, self._order_of(task), task.id))
        if task.flow is not None:
            ends = self._ends.setdefault((line, task.flow), deque())
            while ends and not self._stands(*ends[0]):
                ends.popleft()
            if self._tail(line, task.flow) < tag:
                ends.append((tag, task.id))
            elif ends and tag < ends[0][0]:
                ends.appendleft((tag, task.id))  # handed back

    def forget(self, task_id: str) -> None:
        self._order.pop(task_id, None)

    def _order_of(self, task: Task) -> int:
        # Kept while the task lives: one that is handed back stands where it stood among its equals.
        return self._order.setdefault(task.id, next(self._next))

    def tags(self, tasks: Iterable[Task]) -> list[int]:
        """A place in line for each of the tasks, which join it in this order."""
        tasks = [*tasks]
        places = [place_of(_line(task), task.flow, task.tenant) for task in tasks]
        heads = {line: head[0] for line in {place.line for place in places} if (head := self._head(line))}
        shared = {(place.line, place.tenant) for place in places if place.tenant is not None}
        crowds = {(line, tenant): self._crowd(line, tenant) for line, tenant in shared}
        flows = {(place.line, place.flow) for place in places if place.flow is not None}
        given = tags(places, heads, {key: self._tail(*key) for key in flows}, crowds)
        for place in places:
            if place.flow is not None and place.tenant is not None:
                self._flows[place.line, place.tenant][place.flow] = None
        return given

    def _crowd(self, line: Line, tenant: str) -> int:
        """How many flows of a tenant stand in a line, as far as that is counted; those that left it are dropped."""
        flows = self._flows[line, tenant]
        count = 0
        for flow in list(flows):
            if not self._tail(line, flow):
                del flows[flow]
                continue
            count += 1
            if count == MAX_CROWD:
                break
        return count

    def _tail(self, line: Line, flow: str) -> int:
        """Return the highest tag of a flow's tasks that wait, 0 if none does."""
        ends = self._ends.get((line, flow))
        while ends and not self._stands(*ends[-1]):
            ends.pop()
        return ends[-1][0] if ends else 0

    def _stands(self, tag: int, task_id: str) -> bool:
        task = self._read(task_id)
        return task is not None and task.status is Status.PENDING and task.tag == tag

    def due(self, kind: str, now: float, most: int) -> list[Task]:
        """Take out up to `most` delayed tasks whose time has come."""
        taken: list[Task] = []
        while len(taken) < most and (at := self.next_due(kind)) is not None and at <= now:
            task = self._read(heapq.heappop(self._later[kind])[2])
            if task is not None:
                taken.append(task)
        return taken

    def next_due(self, kind: str) -> float | None:
        heap = self._later[kind]
        while heap:
            at, _, task_id = heap[0]
            task = self._read(task_id)
            if task and task.status is Status.PENDING and task.tag is None and task.available_at == at:
                return at
            heapq.heappop(heap)
        return None

    def lanes(self, kind: str) -> set[str]:
        return {line.lane for line in list(self._lines[kind]) if self._head(line)}

    def ready(self, kind: str, lane: str | None, paused: Container[str]) -> Iterator[Task]:
        """The next task to claim, again and again: what is not claimed meanwhile is offered no second time."""
        passed: list[tuple[Line, Entry]] = []
        try:
            while best := self._best(kind, lane, paused):
                line, _ = best
                entry = heapq.heappop(self._lines[kind][line])
                passed.append((line, entry))
                task = self._read(entry[3])
                if task is not None:
                    yield task
                    if task is not self._read(task.id):
                        passed.pop()
        finally:
            # Also when the caller has enough and stops asking: entries that no longer count drop out when met.
            for line, entry in passed:
                heapq.heappush(self._lines[kind][line], entry)

    def _best(self, kind: str, lane: str | None, paused: Container[str]) -> tuple[Line, Entry] | None:
        heads = [
            (-line.priority, head, line)
            for line in list(self._lines[kind])
            if lane in {None, line.lane} and line.lane not in paused and (head := self._head(line))
        ]
        if not heads:
            return None
        _, head, line = min(heads)
        return line, head

    def _head(self, line: Line) -> Entry | None:
        heap = self._lines[line.kind].get(line)
        while heap:
            tag, at, _, task_id = heap[0]
            task = self._read(task_id)
            if task and task.status is Status.PENDING and (task.tag, task.available_at) == (tag, at):
                return heap[0]
            heapq.heappop(heap)
        self._lines[line.kind].pop(line, None)
        for key in [key for key in self._ends if key[0] == line]:
            del self._ends[key]
        for key in [key for key in self._flows if key[0] == line]:
            del self._flows[key]
        return None


def _line(task: Task) -> Line:
    return Line(task.kind, task.lane, task.priority)
