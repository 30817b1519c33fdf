"""The contract of a ledger: named by meaning, model objects in and out, batches first, every call safe to repeat.

Guarantees that every ledger keeps, and `forebay.testing` checks:

- One **unit** (a lone task, or a job with its tasks) changes atomically; nothing is atomic across units.
- A settle, release or hold counts only under the task's current lease token; a late one changes nothing.
- The exchange of a session is numbered. A repeat of a number answers with the claims still held from it and
  takes no new ones; settles answer by their token. So a lost reply is mended by asking again. An exchange that
  found nothing to do may leave no trace, so that idle workers cost no write: its repeat is then a first time.
- A call that raises `MaybeApplied` or `StoreUnreachable` may have been done. Repeat it with the same ids.
- Time is the ledger's own clock. Delays come in as durations, instants go out as UTC seconds.
- Bad items are answered one by one as data; an exception means that the call as a whole was not answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from forebay.model.callback import Endpoint
from forebay.model.exchange import (
    Acted,
    Action,
    Audit,
    Hold,
    Progress,
    Release,
    Remembered,
    Renewal,
    Reply,
    Session,
    Settle,
    Submitted,
    Usage,
    Want,
)
from forebay.model.job import Event, Job, NewJob
from forebay.model.key import ApiKey
from forebay.model.lane import Depth, Lane, LaneState
from forebay.model.query import Page, Query
from forebay.model.task import Attempt, NewTask, Status, Task

if TYPE_CHECKING:
    import asyncio

MAX_PROMOTED = 500
LEAST_PROMOTED = 50
MAX_LANES = 1000
MAX_AHEAD = 10_000
MAX_RESCUED = 500


def promoted(wanted: int) -> int:
    """How many due tasks an exchange makes ready: more than it takes, but not so many that it becomes slow."""
    return min(MAX_PROMOTED, max(LEAST_PROMOTED, 2 * wanted))


class Ledger(Protocol):
    """Where tasks live. Blocking and thread-safe.

    `group_tasks`: units with as many tasks in all are submitted in one transaction; 1 where each unit has its own.
    """

    @property
    def group_tasks(self) -> int: ...

    def submit(self, batch: Sequence[NewTask | NewJob]) -> list[Submitted]:
        """Store each one, or find it stored already: by its id, and with a key by its payload's hash."""

    def open_session(self, session: Session) -> None:
        """Begin a membership. Opening the same id again changes nothing but the kinds."""

    def renew(self, session_id: str, holds: Sequence[Hold] = (), progress: Sequence[Progress] = ()) -> Renewal:
        """Keep a session alive, and give the named attempts more time. Never waits behind an exchange.

        `progress` replaces what the last renewal of the session carried: name every attempt that has reported. A ledger
        shows it with the task as long as that attempt runs, and keeps at most `MAX_PROGRESS` reports of a session.
        """

    def close_session(self, session_id: str) -> None:
        """End a membership and hand back, unburnt, whatever it still holds."""

    def drain(self, session_id: str, action: Action) -> Acted:
        """Ask a worker to end: its renewals say so from now on. `done` also if it was asked before."""

    def sessions(self) -> list[Session]:
        """Those that have not ended, whether alive or not yet rescued."""

    def exchange(
        self,
        session_id: str,
        n: int,
        *,
        settles: Sequence[Settle] = (),
        releases: Sequence[Release] = (),
        wants: Sequence[Want] = (),
    ) -> Reply:
        """Hand in finished work and take new work, in this order: settle, release, promote what is due, claim.

        `n` rises by one with each exchange of a session; the same `n` again is a repeat.
        From a paused lane nothing is claimed, nor does the reply name it; the end of a pause that holds back ready
        tasks of a wanted kind counts as the time when they are due.
        A session that has ended settles by token as ever, but gets no claims, and `alive=False` in the reply.
        """

    def rescue(self, *, most: int = MAX_RESCUED) -> list[str]:
        """End sessions that ran out, and return tasks whose session ended or whose attempt is overdue."""

    def mine(self, session_id: str) -> list[Task]:
        """What the session holds now."""

    def listen(self, wake: Callable[[], None], *, loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], None]:
        """Have `wake` called, in the loop or on a thread of the ledger's, when work may have arrived.

        Returns how to stop it.

        Also when somebody acted: a cancel, say, or the pause of a lane. A hint: it may come for nothing, and may be
        missing where a store has no wake-ups. Keep it short: it may use the ledger, but others are told only after
        it returns.
        """

    def cancel(self, ids: Sequence[str], action: Action) -> list[Acted]: ...

    def retry(self, ids: Sequence[str], action: Action, *, force: bool = False) -> list[Acted]: ...

    def lose_result(self, task_id: str, result_blob: str | None, action: Action, *, told: Event | None = None) -> Acted:
        """Run a completed task again because its result is gone or damaged; the job's merge runs again too.

        A job that was asked to cancel is left alone: retry it instead. `told` is what its job tells of it beside.
        """

    def pause(self, lane: str, action: Action, *, until: float | None = None) -> Acted:
        """Let no task of the lane be claimed until that instant, or until it is resumed; what runs goes on.

        Pausing it again replaces `until` and the note. Any lane will do, whether it has tasks by now or not. Where
        nothing is atomic across units, an exchange that is under way meanwhile may still claim.
        """

    def resume(self, lane: str, action: Action) -> Acted:
        """End a pause; `done` as well if there is none."""

    def delete(self, ids: Sequence[str], action: Action) -> list[Acted]:
        """Remove whole units with their history and events, and what is remembered of a job's document.

        As long as another open job of the tenant works on that document, what is remembered of it stays: it may say
        where that job's paid work is.
        What they used stays in `used()`. A unit with a running task is refused: cancel it first.
        """

    def prune(self, older_than_s: Mapping[Status, float], action: Action, *, most: int = 1000) -> int:
        """Delete units that ended longer ago than their status allows; call again until it returns 0.

        A job whose follow-ups are still open waits for them.
        """

    def get(self, task_id: str) -> Task | None:
        """Return the task with payload, result and, while it runs, the progress that its attempt reported."""

    def get_many(self, task_ids: Sequence[str]) -> list[Task]:
        """Return the tasks as `get` does, in the order of the ids, without the ids that are unknown."""

    def get_job(self, job_id: str) -> Job | None: ...

    def find(self, prefix: str) -> list[str]:
        """Up to two ids of tasks and jobs that begin so: one is a match, two are ambiguous."""

    def list_tasks(self, query: Query) -> Page[Task]:
        """Tasks without payload and result."""

    def list_jobs(self, query: Query) -> Page[Job]:
        """Jobs; `kind` is their pipeline."""

    def count(self, *, tenant: str | None = None) -> dict[tuple[str, Status], int]:
        """How many tasks there are of each kind and status."""

    def open_job_count(self, tenant: str) -> int:
        """How many jobs of a tenant have not ended."""

    def lanes(self) -> list[Lane]:
        """Every lane that is paused or has an open task, by name."""

    def lane_state(self, lane: str) -> LaneState:
        """Return the pause that is in force in a lane, and how many of its tasks run."""

    def ahead(self, task_id: str) -> Depth:
        """Return how many ready tasks of its lane would be claimed before this pending one.

        One that has not joined the line yet has all of them ahead. 0 for a task that does not wait. Beyond 10 000 a
        store may estimate, or say that there are at least so many: the answer tells which.
        """

    def history(self, task_id: str) -> list[Attempt]: ...

    def events(self, job_id: str, *, after: int = 0, most: int = 500) -> list[Event]: ...

    def news(self, asked: Sequence[tuple[str, int]], *, most: int = 500) -> list[list[Event]]:
        """For each job and number the events that follow it, `most` of them: many listeners cost one read."""

    def audit(self, *, most: int = 100, target: str | None = None) -> list[Audit]:
        """Return the latest actions, newest first; with a `target`, those that were done to it, also in a bulk."""

    def newer_schema(self) -> int | None:
        """Return the schema of the ledger if a newer version has migrated it beyond what this program knows."""

    def used(self, *, tenant: str | None = None, since: float = 0.0) -> list[Usage]:
        """What was consumed at that instant or later, summed by meter and unit."""

    def remember(self, results: Sequence[Remembered]) -> None:
        """Keep results for reuse; the first one under a key stays."""

    def recall(self, tenant: str, keys: Sequence[str]) -> list[Remembered]: ...

    def forget(self, tenant: str, document: str, action: Action) -> int:
        """Drop what is remembered of a document."""

    def forget_older(self, older_than_s: float, action: Action, *, most: int = 1000) -> int:
        """Drop what was remembered longer ago, of all tenants; call again until it returns 0."""

    def add_key(self, key: ApiKey, action: Action) -> None:
        """Store an API key; adding the same id again changes nothing."""

    def revoke_key(self, key_id: str, action: Action) -> Acted:
        """End a key for good; `done` also if it was ended before."""

    def get_key(self, key_id: str) -> ApiKey | None: ...

    def keys(self) -> list[ApiKey]:
        """All of them, oldest first, also those that were revoked or have expired."""

    def record_action(self, verb: str, targets: Sequence[str], action: Action) -> None:
        """Add a line to the audit trail for what was done elsewhere, such as to a limit."""

    def begin_request(self, tenant: str, key: str, token: str, for_s: float) -> bool:
        """Take an idempotency key while a request under it is being read; False if another one is at it.

        Again with the same token, it is taken for so long from now on; one whose time is over is anybody's.
        """

    def end_request(self, tenant: str, key: str, token: str) -> None:
        """Give it back; one that another has taken since stays with that one."""

    def blobs_in_use(self, tenant: str, sha256s: Sequence[str]) -> set[str]:
        """Those of the blobs that a task, a job or a remembered result points at."""

    def put_endpoint(self, endpoint: Endpoint, action: Action | None = None) -> bool:
        """Store where callbacks go: new, or changed if the one that is stored has the version before it.

        An action is somebody's who has its secret changed, and leaves its line.
        """

    def endpoint(self, endpoint_id: str) -> Endpoint | None: ...

    def endpoints(self, *, tenant: str | None = None) -> list[Endpoint]:
        """The oldest first."""

    def check(self) -> list[str]:
        """What is wrong with the stored data: nothing, in a sound ledger."""

    def backup(self, target: Path) -> None:
        """Write a consistent copy while work goes on; refuses where a store has its own ways."""

    def close(self) -> None:
        """Let go of files and threads; calls raise `StoreClosed` from now on. Sessions stay as they are."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
