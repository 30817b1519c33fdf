"""What a session and a ledger say to each other: wants, claims, settles, releases and their answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from forebay import ids
from forebay.errors import BadInput, Conflict, NotFound, NotRetryable, RetryLimitExceeded
from forebay.model.job import Event
from forebay.model.names import (
    check_amount,
    check_count,
    check_duration,
    check_instant,
    check_label,
    check_lane,
    check_name,
    check_share,
)
from forebay.model.payload import check_json, clean_text
from forebay.model.task import DEFAULT_TENANT, NewTask, Role, Status, Task, WaitReason, check_blob

MAX_CLAIMS = 1000
MAX_PROGRESS = 500
MAX_PROGRESS_NOTE = 200
_SHARE_STEPS = 10_000


class Progress(NamedTuple):
    """How far an attempt is, from 0 to 1, with a note; it counts while `token` is the lease token of its task."""

    task_id: str
    token: int
    share: float
    note: str = ""

    def shown_in(self, task: Task) -> Task:
        """Return the task with this progress, or as it is if another attempt reported it."""
        if task.status is not Status.RUNNING or (task.id, task.claim_count) != (self.task_id, self.token):
            return task
        return task._replace(progress=self.share, progress_note=self.note)


def check_progress(progress: Sequence[Progress]) -> tuple[Progress, ...]:
    """Return what a renewal may carry: shares rounded down, notes cut, of too many reports the last."""
    return tuple(
        Progress(
            ids.check_id(each.task_id),
            check_count("token", each.token),
            _rounded_down(each.share),
            clean_text(each.note, most=MAX_PROGRESS_NOTE),
        )
        for each in progress[-MAX_PROGRESS:]
    )


def _rounded_down(share: float) -> float:
    """Return a share with four digits: 1 only if the attempt reported 1. An error of the float itself rounds away."""
    return min(1.0, max(0.0, math.floor(round(check_share("share", share) * _SHARE_STEPS, 6)) / _SHARE_STEPS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One process's membership in a ledger, kept alive by renewals; `drain_at` is when it was asked to end.

    `kinds` are what it runs, each with its limit if it has one: `read_page@ocr`. `host` and `version` say where it runs
    and in which version of Forebay; both are empty for a worker that did not say so. `progress` is what its attempts
    reported with the last renewal; `sessions()` leaves it out.
    """

    id: str
    worker: str
    lease_s: float = 15.0
    kinds: tuple[str, ...] = ()
    opened_at: float = 0.0
    expires_at: float = 0.0
    ended_at: float | None = None
    exchange_n: int = 0
    drain_at: float | None = None
    host: str = ""
    version: str = ""
    progress: tuple[Progress, ...] = ()

    def __post_init__(self) -> None:
        ids.check_id(self.id)
        check_label("worker", self.worker)
        if check_duration("lease_s", self.lease_s) <= 0:
            raise BadInput("A session needs a lease_s above 0.", remedy="The default is 15.")
        if not isinstance(self.kinds, tuple):
            raise BadInput(f"kinds is {ids.shown(self.kinds)}.", remedy="Give a tuple of names.")
        for kind in self.kinds:
            check_lane(kind)


@dataclass(frozen=True, slots=True)
class Want:
    """Room for `count` tasks of a kind, from one lane or from any."""

    kind: str
    count: int
    lane: str | None = None
    grace_s: float = 30.0

    def __post_init__(self) -> None:
        check_name("kind", self.kind)
        check_count("count", self.count, most=MAX_CLAIMS)
        check_duration("grace_s", self.grace_s)


@dataclass(frozen=True, slots=True)
class Release:
    """A claim handed back; `started` says that an attempt had begun, which history then shows."""

    task_id: str
    token: int
    job_id: str | None = None
    started: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What an attempt consumed of a metered service: calls, pages, units."""

    meter: str
    unit: str
    amount: float

    def __post_init__(self) -> None:
        check_name("meter", self.meter)
        check_name("unit", self.unit)
        check_amount("amount", self.amount)


class _Settle(NamedTuple):
    task_id: str
    job_id: str | None
    token: int
    status: Status
    outcome: str
    retry_count: int
    reschedule_count: int
    lost_count: int
    wait_reason: WaitReason | None = None
    delay_s: float = 0.0
    available_at: float | None = None
    error_class: str | None = None
    error_text: str | None = None
    traceback: str | None = None
    result_json: str | None = None
    result_blob: str | None = None
    usage: tuple[Usage, ...] = ()
    events: tuple[Event, ...] = ()
    follow_ups: tuple[NewTask, ...] = ()


class Settle(_Settle):
    """The outcome of one attempt, decided; a ledger writes it if the token is still the task's own.

    A tuple, because one is made for every attempt; `_make` is for callers that have nothing to check.
    """

    __slots__ = ()

    def __new__(cls, **fields: Any) -> Self:  # noqa: ANN401 - those above
        for name, most in _TEXTS.items():
            if fields.get(name) is not None:
                fields[name] = clean_text(fields[name], most=most)
        settle = super().__new__(cls, **fields)
        settle._check()
        return settle

    def _check(self) -> None:
        if self.delay_s != 0:
            check_duration("delay_s", self.delay_s)
        if self.available_at is not None:
            check_instant("available_at", self.available_at)
        if self.result_blob is not None:
            check_blob(self.result_blob)
        if not isinstance(self.status, Status) or self.status is Status.RUNNING:
            raise BadInput(
                f"A settle ends an attempt, not as {ids.shown(self.status)}.", remedy="Use rules.settlement."
            )
        for count in ("token", "retry_count", "reschedule_count", "lost_count"):
            check_count(count, getattr(self, count))
        if self.error_class is not None:
            check_name("error class", self.error_class)
        self._check_follow_ups()

    def _check_follow_ups(self) -> None:
        if self.follow_ups and self.job_id is None:
            raise BadInput("A lone task has no follow-ups.", remedy="Submit a job, whose tasks may bring others along.")
        for task in self.follow_ups:
            if not isinstance(task, NewTask) or task.role not in {Role.CHUNK, Role.FOLLOW}:
                raise BadInput(
                    f"{ids.shown(task)} is not a follow-up.", remedy="Follow-ups are chunks or follow tasks."
                )
            if task.role is Role.FOLLOW and task.idempotency_key is None:
                raise BadInput("A follow-up task needs an idempotency key.", remedy="Name it within its job.")


_TEXTS = {"error_text": 4000, "traceback": 64 * 1024}


class Settled(NamedTuple):
    """How a settle ended: `fenced` means that the lease was lost and nothing was changed."""

    task_id: str
    token: int
    fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to an exchange. `lanes` has, per wanted kind, the lanes with ready tasks left to claim."""

    settled: tuple[Settled, ...] = ()
    claims: tuple[Task, ...] = ()
    lanes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    next_due_in_s: float | None = None
    alive: bool = True
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class Hold:
    """A claim whose attempt may run for `hold_s` from now on."""

    task_id: str
    token: int
    hold_s: float
    job_id: str | None = None

    def __post_init__(self) -> None:
        check_duration("hold_s", self.hold_s)


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a renewal: whether the session lives, which of its tasks to cancel, whether it is to end.

    `newer_schema` is the schema of the ledger if this program does not know it: somebody has migrated it meanwhile.
    """

    alive: bool
    cancel_requested: tuple[str, ...] = ()
    drain: bool = False
    newer_schema: int | None = None


class Submitted(NamedTuple):
    """What became of one submission: `created`, `existing` (the same, again) or `conflict`."""

    id: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Who asks for a change and why; its id makes the request safe to repeat."""

    who: str
    tenant: str = DEFAULT_TENANT
    note: str = ""
    id: str = field(default_factory=ids.random_id)

    def __post_init__(self) -> None:
        check_label("who", self.who)
        check_name("tenant", self.tenant)
        ids.check_id(self.id)
        object.__setattr__(self, "note", clean_text(self.note))


PERMANENT = "PERMANENT: "
"""Begins the text of what a person can have run again by force only."""


@dataclass(frozen=True, slots=True)
class Acted:
    """What an action did to one task or job: `outcome` is `done`, or the code of why it was refused."""

    id: str
    outcome: str
    text: str = ""

    @property
    def done(self) -> bool:
        return self.outcome == "done"

    def check(self) -> None:
        """Raise the refusal as the exception of its code."""
        if not self.done:
            known = (RetryLimitExceeded, NotRetryable, NotFound)
            kind = next((each for each in known if each.code == self.outcome), Conflict)
            raise kind(self.text or f"{self.id}: {self.outcome}", remedy="Give force=True." if self.needs_force else "")

    @property
    def needs_force(self) -> bool:
        """Whether a retry was refused that would be done with force."""
        return self.text.startswith(PERMANENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One action in the audit trail."""

    id: str
    at: float
    who: str
    tenant: str
    verb: str
    targets: tuple[str, ...]
    target_count: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A stored result that may be used again for the same document, pages and processor."""

    tenant: str
    key: str
    document: str
    result_json: str | None = None
    result_blob: str | None = None
    created_at: float = 0.0

    def __post_init__(self) -> None:
        check_name("tenant", self.tenant)
        check_blob(self.key)
        check_blob(self.document)
        if self.result_json is not None:
            check_json(self.result_json)
        if self.result_blob is not None:
            check_blob(self.result_blob)
