"""The lines that tasks stand in: looks at what is ready, gives newcomers their place, and promotes what is due."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from forebay.model.bulk import Bulk
from forebay.model.exchange import Want
from forebay.model.task import NewTask, Task
from forebay.rules import fairness, pausing
from forebay.rules.fairness import Line, Place
from forebay.rules.pausing import Left, Pauses
from forebay.rules.unit import new_task
from forebay.stores.base import MAX_LANES, promoted
from forebay.stores.sql import rows
from forebay.stores.sql.statement import Statement, Steps, ask, encode
from forebay.stores.sql.transaction import Transaction

_PART_TASKS = 1000
_PART_SIZE = 16 * 1024 * 1024  # of payloads
_LEAST_SPARE = 20
_MOST_CROWD = 8
_MOST_GUESSED = 16
_MIXED_FOR = 50  # looks at a lane
_MOST_SEQS = 50_000


class Guess:
    """What was true of late, and may be again: the lanes of each kind, and how many others claim as well.

    `due`: delayed tasks wait to be promoted. `seqs`: the numbers of tasks that were claimed here.
    """

    def __init__(self) -> None:
        self.lanes: dict[str, tuple[str, ...]] = {}
        self.seqs: dict[str, int] = {}
        self.due = False
        self._crowd = 0
        self._lone: dict[str, int] = {}

    def lanes_of(self, want: Want) -> tuple[str, ...]:
        return (want.lane,) if want.lane else self.lanes.get(want.kind, ())

    def is_lone(self, lane: str) -> bool:
        """Whether only lone tasks were seen in it of late."""
        return self._lone.get(lane, _MIXED_FOR) == 0

    def looked(self, view: View, now: float) -> None:
        self.due = view.is_due(now)
        self.lanes.update({kind: tuple(lanes[:_MOST_GUESSED]) for kind, lanes in view.lanes.items() if lanes})

    def saw(self, lane: str, found: Sequence[Ready]) -> None:
        """Tasks at the head of a lane; where some of a job were among them, it is taken for lone a while later only."""
        if any(one.job_id is not None for one in found):
            self.mixed(lane)
        elif found:
            self._lone[lane] = max(0, self._lone.get(lane, 0) - 1)

    def mixed(self, lane: str) -> None:
        self._lone[lane] = _MIXED_FOR

    def lone(self, lane: str) -> None:
        self._lone[lane] = 0

    def remember(self, claimed: Iterable[tuple[str, int]]) -> None:
        if len(self.seqs) > _MOST_SEQS:
            self.seqs.clear()  # most were handed back, or taken away: those that are still here are found by their ids
        self.seqs.update(claimed)

    def forget(self, ended: Iterable[tuple[str, int]]) -> None:
        for task_id, _ in ended:
            self.seqs.pop(task_id, None)

    def spare(self, count: int) -> int:
        """How many candidates to read beside those that are wanted, because others may be quicker."""
        return max(_LEAST_SPARE, self._crowd * count)

    def claimed(self, *, all_wanted: bool) -> None:
        self._crowd = max(0, self._crowd - 1) if all_wanted else min(_MOST_CROWD, max(1, 2 * self._crowd))


class Ready(NamedTuple):
    """A task that may be claimed."""

    priority: int
    tag: int
    available_at: float
    seq: int
    job_id: str | None
    role: str

    @property
    def place(self) -> tuple[Any, ...]:
        return (-self.priority, self.tag, self.available_at, self.seq)


@dataclass
class View:
    """What stands in the lines of the wanted kinds, best first; `taken` are the numbers of what was chosen since."""

    pauses: Pauses
    due: list[float | None]
    lanes: Mapping[str, Sequence[str]]
    ready: dict[str, list[Ready]]
    taken: set[int] = field(default_factory=set)
    chosen: list[Ready] = field(default_factory=list)

    def choose(self, some: Sequence[Ready]) -> None:
        self.chosen.extend(some)
        self.taken.update(one.seq for one in some)

    def next(self, want: Want) -> list[Ready]:
        """Candidates for a want, those that others were given left out."""
        lanes = [want.lane] if want.lane else self.lanes[want.kind]
        found = [
            one
            for lane in lanes
            if lane not in self.pauses
            for one in self.ready.get(lane, ())
            if one.seq not in self.taken
        ]
        return sorted(found, key=lambda one: one.place) if len(lanes) > 1 else found

    def left(self, now: float) -> Left:
        """Of each line that was looked at, one more was read than could be taken."""
        lanes = {
            kind: [
                lane
                for lane in found
                if lane not in self.ready or any(one.seq not in self.taken for one in self.ready[lane])
            ]
            for kind, found in self.lanes.items()
        }
        return pausing.left(lanes, self.due, self.pauses, now=now, most=MAX_LANES)

    def is_due(self, now: float) -> bool:
        return any(at is not None and at <= now for at in self.due)


def look(
    tx: Transaction, wants: Sequence[Want], guess: Guess, *first: Statement
) -> Steps[tuple[list[list[Any]], View]]:
    """The answers of `first`, and a view; a guess of the lanes that was right saves asking twice."""
    kinds = list(dict.fromkeys(want.kind for want in wants))
    if not kinds:
        return (yield from tx.ask(*first)), View({}, [], {}, {})
    asked = _lines(tx, wants, guess, guess.lanes)
    answers = yield from tx.ask(*first, *looks(kinds), *_ready(asked))
    pauses, due, found, *ready = answers[len(first) :]
    view = view_of(kinds, pauses, due, found, tx.now)
    view.ready |= {lane: list(map(Ready._make, each)) for (_, lane), each in zip(asked, ready, strict=True)}
    known = {kind: tuple(lanes) for kind, lanes in view.lanes.items()}
    unseen = {line: most for line, most in _lines(tx, wants, guess, known).items() if line not in asked}
    if unseen:
        more = yield from tx.ask(*_ready(unseen))
        view.ready |= {lane: list(map(Ready._make, each)) for (_, lane), each in zip(unseen, more, strict=True)}
    for lane, some in view.ready.items():
        guess.saw(lane, some)
    guess.looked(view, tx.now)
    return answers[: len(first)], view


def looks(kinds: list[str]) -> tuple[Statement, Statement, Statement]:
    return ask("pauses"), ask("next_due", kinds=kinds), ask("lanes", kinds=kinds, most=MAX_LANES)


def view_of(kinds: list[str], pauses: Sequence[Any], due: Sequence[Any], found: Sequence[Any], now: float) -> View:
    """What `looks` said, at an instant."""
    by_kind: dict[str, list[str]] = {kind: [] for kind in kinds}
    for kind, lane in found:
        by_kind[kind].append(lane)
    return View(pausing.in_force(map(rows.pause, pauses), now), [row[0] for row in due], by_kind, {})


def _ready(lines: Mapping[tuple[str, str], int]) -> Iterator[Statement]:
    return (ask("ready", kind=kind, lane=lane, most=most) for (kind, lane), most in lines.items())


def _lines(
    tx: Transaction, wants: Sequence[Want], guess: Guess, lanes: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], int]:
    """How many to read of which lines: one more than could be taken, and more where others take them as well."""
    most: dict[tuple[str, str], int] = {}
    for want in wants:
        if want.count:
            for lane in [want.lane] if want.lane else lanes.get(want.kind, ()):
                line = (want.kind, lane)
                most[line] = most.get(line, 1 + (0 if tx.alone else guess.spare(want.count))) + want.count
    return most


def due(tx: Transaction, wants: Sequence[Want]) -> Steps[list[Any]]:
    """Delayed tasks whose time has come: seq, kind, lane, priority, flow, job, tenant."""
    counts: dict[str, int] = {}
    for want in wants:
        counts[want.kind] = counts.get(want.kind, 0) + want.count
    answers = yield from tx.ask(*(ask("due", kind=kind, most=promoted(count)) for kind, count in counts.items()))
    return [row for found in answers for row in found]


def promote(tx: Transaction, found: Sequence[Any]) -> Steps[None]:
    if found:
        places = [fairness.place_of(Line(*row[1:4]), row[4], row[6]) for row in found]
        answers = yield from tx.ask(*ends(places))
        tags = fairness.tags(places, *_known_ends(*answers))
        tx.write("promote", given=[[row[0], tag] for row, tag in zip(found, tags, strict=True)])


def ends(places: Iterable[Place]) -> tuple[Statement, Statement, Statement]:
    """Ask where the lines of these places begin, where their flows end, and how many flows their tenants have."""
    distinct = set(places)
    lines = [list(line) for line in {place.line for place in distinct}]
    flows = [[*line, flow] for line, flow, _ in distinct if flow is not None]
    shared = {(line, tenant) for line, _, tenant in distinct if tenant is not None}
    tenants = [[*line, tenant, *fairness.flow_range(tenant)] for line, tenant in shared]
    return (
        ask("heads", lines=lines),
        ask("tails", flows=flows),
        ask("crowds", tenants=tenants, most=fairness.MAX_CROWD),
    )


_Ends = tuple[dict[Line, int], dict[tuple[Line, str], int], dict[tuple[Line, str], int]]


def _known_ends(heads: Sequence[Any], tails: Sequence[Any], crowds: Sequence[Any]) -> _Ends:
    return (
        {Line(*row[:3]): row[3] for row in heads if row[3] is not None},
        {(Line(*row[:3]), row[3]): row[4] for row in tails if row[4] is not None},
        {(Line(*row[:3]), row[3]): row[4] for row in crowds},
    )


def place_of(new: NewTask, job_id: str | None) -> Place:
    flow = fairness.flow_of(new.fairness_key, new.tenant, job_id)
    return fairness.place_of(Line(new.kind, new.lane, new.priority), flow, new.tenant)


def places_of(tasks: Iterable[Task]) -> list[Place]:
    """Where each stands; of a bulk most stand in the same line."""
    known: dict[tuple[Any, ...], Place] = {}
    places = []
    for task in tasks:
        key = (task.kind, task.lane, task.priority, task.flow, task.tenant)
        place = known.get(key)
        if place is None:
            place = known[key] = fairness.place_of(Line(*key[:3]), *key[3:])
        places.append(place)
    return places


class Newcomers:
    """Tasks that are about to be stored: what has to be known of their places, asked with whatever else is asked."""

    def __init__(self, ids: list[str], places: Iterable[Place]) -> None:
        # Tokens go on where those of a deleted task ended: a late worker may still hold an old one.
        self.questions = (ask("buried", ids=ids), *ends(places))

    def store(self, tx: Transaction, tasks: Iterable[Task], answers: Sequence[Sequence[Any]]) -> Steps[None]:
        """Write them; those that are due get their place in line at once.

        They are made, and sent, part by part: a server ends a transaction that says nothing for long.
        """
        if not answers:
            return
        buried, *known = answers
        tokens = dict(buried)
        tagger = fairness.Tagger(*_known_ends(*known))
        now = tx.now
        sent = False
        for part in _parts(tasks):
            if sent:
                yield from tx.ask()
            due_ = [task for task in part if task.available_at <= now]
            tag_of = dict(zip((task.id for task in due_), tagger.tags(places_of(due_)), strict=True))
            added = [_added_row(task, tag_of.get(task.id), tokens.get(task.id, 0)) for task in part]
            _write(tx, added, [task.payload_json for task in part], now)
            tx.woken = sent = True


def _parts(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    part: list[Task] = []
    size = 0
    for task in tasks:
        part.append(task)
        size += len(task.payload_json or "")
        if len(part) >= _PART_TASKS or size > _PART_SIZE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _write(tx: Transaction, added: list[tuple[Any, ...]], payloads: list[str | None], now: float) -> None:
    """Many mostly differ by their ids, payloads and places alone: what they have in common goes out once."""
    if len({(*row[1:_TAG], *row[_TAG + 1 :]) for row in added}) == 1 and (step := _step([row[_TAG] for row in added])):
        _write_alike(tx, added[0], [row[0] for row in added], payloads, step=step, now=now)
    else:
        tx.write("add_tasks", rows=added, payloads=payloads, now=now)


def _step(tags: Sequence[int | None]) -> int | None:
    """By how much each tag is above the one before it; None if they do not rise evenly."""
    if len(tags) == 1 or tags[0] is None:
        return 1  # those without a tag differ in nothing
    between = {after - before for before, after in pairwise(tags) if before is not None and after is not None}
    return between.pop() if len(between) == 1 else None


def _write_alike(
    tx: Transaction,
    first: tuple[Any, ...],
    ids: Sequence[str],
    payloads: Sequence[str | None],
    *,
    step: int,
    now: float,
) -> None:
    alike = dict(zip(_ALIKE, first[1:], strict=True))
    tx.write("add_alike", ids=ids, payloads=payloads, step=step, now=now, **alike)


def add_bulk(tx: Transaction, bulk: Bulk) -> Steps[None]:
    """Tasks of one flow, whose ids nobody ever had."""
    place = place_of(bulk.first, None)
    answers = yield from tx.ask(*ends([place]))
    task = new_task(bulk.first, None, tx.now)
    tag, following = fairness.tags([place, place], *_known_ends(*answers))
    first = _added_row(task, tag if task.available_at <= tx.now else None, 0)
    _write_alike(tx, first, bulk.ids, bulk.texts, step=following - tag, now=tx.now)
    tx.woken = True


def add_lone(tx: Transaction, new: NewTask) -> Steps[bool]:
    """Store a lone task that is due at once, in one statement and the last one; return False if its id is known."""
    line, flow, tenant = place_of(new, None)
    beyond = None if tenant is None else fairness.flow_range(tenant)[1]
    tx.woken = tx.repeatable = True
    added = yield from tx.one(
        "add_lone",
        last=True,
        id=new.id,
        kind=line.kind,
        lane=line.lane,
        tenant=new.tenant,
        priority=line.priority,
        flow=flow,
        beyond=beyond,
        most=fairness.MAX_CROWD,
        idempotency_key=new.idempotency_key,
        payload_hash=new.payload_hash,
        payload_blob=new.payload_blob,
        timeout_s=new.timeout_s,
        deadline_at=new.deadline_at,
        max_retries=new.max_retries,
        max_reschedules=new.max_reschedules,
        payload=new.payload_json,
    )
    return bool(added)


def add(tx: Transaction, tasks: Sequence[Task]) -> Steps[None]:
    if tasks:
        new = Newcomers([task.id for task in tasks], places_of(tasks))
        yield from new.store(tx, tasks, (yield from tx.ask(*new.questions)))


_ADDED = (
    "id",
    "kind",
    "lane",
    "tenant",
    "role",
    "job_id",
    "chunk_index",
    "generation",
    "priority",
    "flow",
    "idempotency_key",
    "payload_hash",
    "payload_blob",
    "timeout_s",
    "deadline_at",
    "max_retries",
    "max_reschedules",
    "available_at",
    "wait_reason",
    "requested_retry_count",
    "page_start",
    "page_end",
)
_TAG = len(_ADDED)
_ALIKE = (*_ADDED[1:], "tag", "tags", "claim_count")
_added = itemgetter(*map(Task._fields.index, _ADDED))


def _added_row(task: Task, tag: int | None, token: int) -> tuple[Any, ...]:
    return (*_added(task), tag, encode(task.tags) if task.tags else None, token)
