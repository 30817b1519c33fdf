"""Drives a ledger as an engine does: sessions that claim, settle and release in numbered exchanges."""

from __future__ import annotations

from collections.abc import Sequence

from forebay import ids
from forebay.clock import Clock
from forebay.model.callback import Callback
from forebay.model.exchange import Action, Release, Reply, Session, Settle, Settled, Usage, Want
from forebay.model.job import NewJob
from forebay.model.outcome import Canceled, Completed, Failed, Outcome, Rescheduled
from forebay.model.task import NewTask, Role, Task
from forebay.rules.settlement import decide
from forebay.stores.base import Ledger

KIND = "work"
MERGE_KIND = "merge"
FOLLOW_KIND = "notify"
BLOB = "0123456789abcdef" * 4
ENDPOINT = ids.derived_id("endpoint")


class Worker:
    """One session with its number of exchanges."""

    def __init__(self, ledger: Ledger, clock: Clock, name: str = "worker-1", *, lease_s: float = 15.0) -> None:
        self.ledger = ledger
        self.clock = clock
        self.name = name
        self.id = ids.random_id()
        self.n = 0
        ledger.open_session(Session(id=self.id, worker=name, lease_s=lease_s))

    def exchange(
        self, *, settles: Sequence[Settle] = (), releases: Sequence[Release] = (), wants: Sequence[Want] = ()
    ) -> Reply:
        self.n += 1
        return self.ledger.exchange(self.id, self.n, settles=settles, releases=releases, wants=wants)

    def claim(
        self, count: int = 1, kind: str = KIND, *, lane: str | None = None, grace_s: float = 30.0
    ) -> tuple[Task, ...]:
        return self.exchange(wants=[Want(kind, count, lane, grace_s)]).claims

    def take(self, kind: str = KIND) -> Task:
        """Claim one task that must be there."""
        claims = self.claim(1, kind)
        assert len(claims) == 1, f"{len(claims)} tasks of kind {kind} were claimed"
        return claims[0]

    def ending(self, task: Task, outcome: Outcome, *, jitter: float = 0.0) -> Settle:
        return decide(task, outcome, now=self.clock.now(), jitter=jitter)

    def settle(self, task: Task, outcome: Outcome) -> Settled:
        return self.exchange(settles=[self.ending(task, outcome)]).settled[0]

    def complete(self, task: Task, *, result_blob: str | None = None, follow_ups: Sequence[NewTask] = ()) -> Settled:
        return self.settle(task, Completed(result_blob=result_blob, follow_ups=tuple(follow_ups)))

    def fail(self, task: Task, error_class: str = "internal_error", text: str = "no pages") -> Settled:
        """For good, also by a class that would be retried."""
        return self.settle(task, Failed(error_class=error_class, text=text, permanent=True))

    def reschedule(self, task: Task, delay_s: float) -> Settled:
        return self.settle(task, Rescheduled(delay_s=delay_s))

    def stop(self, task: Task) -> Settled:
        return self.settle(task, Canceled())

    def release(self, *tasks: Task, started: bool = False) -> Reply:
        return self.exchange(releases=[Release(task.id, task.claim_count, task.job_id, started) for task in tasks])


def lone(payload: object = None, *, kind: str = KIND, **options: object) -> NewTask:
    return NewTask(kind=kind, payload=payload, **options)  # type: ignore[arg-type]  # NewTask checks them


def chunk(index: int, *, kind: str = KIND, **options: object) -> NewTask:
    return NewTask(kind=kind, payload={"chunk": index}, role=Role.CHUNK, chunk_index=index, **options)  # type: ignore[arg-type]  # NewTask checks them


def follow(key: str, *, kind: str = FOLLOW_KIND) -> NewTask:
    return NewTask(kind=kind, payload={"key": key}, role=Role.FOLLOW, idempotency_key=key)


def job_of(chunks: int, *, merge: bool = True, max_retries: int = 3, **options: object) -> NewJob:
    return NewJob(
        pipeline="ocr",
        tasks=tuple(chunk(index, max_retries=max_retries) for index in range(chunks)),
        merge=NewTask(kind=MERGE_KIND, role=Role.MERGE) if merge else None,
        **options,  # type: ignore[arg-type]  # NewJob checks them
    )


def split_job(**options: object) -> NewJob:
    return NewJob(
        pipeline="ocr",
        tasks=(NewTask(kind="split", role=Role.SPLIT),),
        merge=NewTask(kind=MERGE_KIND, role=Role.MERGE),
        **options,  # type: ignore[arg-type]  # NewJob checks them
    )


def callback(*, each: bool = False) -> Callback:
    return Callback(
        url="https://example.com/hook", endpoint=ENDPOINT, host="h-example", each=each, base="https://forebay.test"
    )


def action(who: str = "ann", **options: str) -> Action:
    return Action(who=who, **options)


def blob(number: int) -> str:
    return f"{number:064x}"


def usage(amount: float = 1.0, *, meter: str = "adobe", unit: str = "calls") -> Usage:
    return Usage(meter, unit, amount)
