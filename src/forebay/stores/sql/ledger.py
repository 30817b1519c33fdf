"""A ledger in SQL: which step each verb runs; how steps are run is up to the database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

from forebay import ids
from forebay.errors import Conflict
from forebay.model.bulk import Bulk
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
    check_progress,
)
from forebay.model.job import Event, Job, NewJob
from forebay.model.key import ApiKey
from forebay.model.lane import Depth, Lane, LaneState
from forebay.model.names import check_instant, check_name
from forebay.model.query import Page, Query
from forebay.model.task import Attempt, NewTask, Status, Task
from forebay.rules import actions
from forebay.stores.access import check_environment
from forebay.stores.base import MAX_RESCUED
from forebay.stores.checks import (
    check_ages,
    check_batch,
    check_drain,
    check_exchange,
    check_key,
    check_older,
    check_pause,
    check_record,
    check_request,
    check_targets,
)
from forebay.stores.groups import count_group, weigh
from forebay.stores.sql import acting, exchange, keys, reads, writes
from forebay.stores.sql.lines import Guess
from forebay.stores.sql.statement import Steps
from forebay.stores.sql.transaction import Transaction

T = TypeVar("T")
G = TypeVar("G")


class SqlLedger(ABC):
    """What both databases have in common, which is everything but the way there."""

    group_tasks = 1000
    one_batch: ClassVar[bool] = False
    """Whether an exchange is first tried in one batch, which is one round trip."""

    def __init__(self, environment: str | None = None) -> None:
        """Without an environment, whose ledger it is does not matter."""
        self._guess = Guess()
        self._stirred = False  # work may be there: no look before the leap
        self._own_environment = environment
        self._checked = environment is None
        self._adopted = environment is None

    @property
    @abstractmethod
    def place(self) -> str:
        """The address as it may be shown."""

    @property
    @abstractmethod
    def newest_schema(self) -> int:
        """The schema that this program knows."""

    @abstractmethod
    def _commit(self, step: Callable[..., Steps[T]], *arguments: object, **named: object) -> T:
        """Run a step in a transaction of its own."""

    @abstractmethod
    def _submit_job(self, new: NewJob) -> Submitted:
        """Store a job, together with those that other threads submit at the same time."""

    @abstractmethod
    def _query(self, read: Callable[..., Steps[T]], *arguments: object) -> T:
        """Run a step that only reads."""

    def _write(self, step: Callable[..., Steps[T]], *arguments: object, **named: object) -> T:
        if not self._adopted:
            self._adopt()
        return self._commit(step, *arguments, **named)

    def _look(self, read: Callable[..., Steps[T]], *arguments: object) -> T:
        if not self._checked:
            self._check_environment()
        return self._query(read, *arguments)

    def _check_environment(self) -> None:
        check_environment(self.place, self._query(reads.environment), self._own_environment or "")
        self._checked = True

    def _adopt(self) -> None:
        """Before the first write: a ledger without an environment belongs to that of its first writer."""
        self._check_environment()
        own = self._own_environment or ""
        check_environment(self.place, self._commit(writes.adopt, own), own)
        self._adopted = True

    def environment(self) -> str | None:
        """Return the environment that the ledger belongs to; None before its first writer."""
        return self._query(reads.environment)

    def give_to(self, environment: str) -> None:
        """Make it the ledger of this environment, whichever it belonged to; refuse while workers use it."""
        check_name("environment", environment)
        now = self._query(reads.instant)
        busy = sorted(each.worker for each in self._query(reads.sessions) if each.expires_at > now)
        if busy and self.environment() not in {None, environment}:
            raise Conflict(f"Workers use the ledger at {self.place}: {', '.join(busy[:3])}.", remedy="Stop them first.")
        self._commit(writes.put_environment, environment)

    @abstractmethod
    def _beside(self, step: Callable[..., Steps[T]], *arguments: object) -> T:
        """Run a step that waits for none of the others; each of its batches is a transaction."""

    @abstractmethod
    def close(self) -> None: ...

    def submit(self, batch: Sequence[NewTask | NewJob]) -> list[Submitted]:
        checked = check_batch(batch)
        if len(checked) == 1 and isinstance(checked[0], NewJob):
            return [self._submit_job(checked[0])]
        if len(checked) == 1:
            return self._submit(checked)
        groups = _groups(checked, self.group_tasks)
        return [answer for answers in self._each(self._submit, groups) for answer in answers]

    def _submit(self, group: Sequence[NewTask | NewJob]) -> list[Submitted]:
        return self._write(writes.submit, batch=group)

    def _each(self, run: Callable[[G], T], groups: Iterator[G]) -> Iterator[T]:
        return map(run, groups)

    def open_session(self, session: Session) -> None:
        self._write(writes.open_session, session=session)

    def renew(self, session_id: str, holds: Sequence[Hold] = (), progress: Sequence[Progress] = ()) -> Renewal:
        return self._beside(writes.renew, session_id, holds, check_progress(progress), self.newest_schema)

    def drain(self, session_id: str, action: Action) -> Acted:
        check_drain(session_id, action)
        return self._write(acting.drain, session_id, action)

    def close_session(self, session_id: str) -> None:
        self._write(writes.close_session, session_id)
        # What an exchange that was under way has claimed meanwhile.
        if self._look(reads.mine, session_id):
            self._write(writes.close_session, session_id)

    def sessions(self) -> list[Session]:
        return self._look(reads.sessions)

    def exchange(
        self,
        session_id: str,
        n: int,
        *,
        settles: Sequence[Settle] = (),
        releases: Sequence[Release] = (),
        wants: Sequence[Want] = (),
    ) -> Reply:
        settles, releases, wants = check_exchange(session_id, n, settles, releases, wants)
        stirred, self._stirred = self._stirred, False
        if not (settles or releases or stirred):
            idle = self._look(exchange.idle, session_id, n, self._guess, wants)
            if idle is not None:
                return idle
        if self.one_batch and wants and not releases:
            done = self._write(exchange.quick, session_id, n, self._guess, settles=settles, wants=wants)
            if done is not None:
                return done
        return self._write(exchange.run, session_id, n, self._guess, settles=settles, releases=releases, wants=wants)

    def rescue(self, *, most: int = MAX_RESCUED) -> list[str]:
        # Every worker asks every few seconds: that there is nothing to do must not cost a write.
        if not self._look(writes.needs_rescue):
            return []
        self._write(writes.end_expired)
        return self._write(writes.rescue, most)

    def mine(self, session_id: str) -> list[Task]:
        return self._look(reads.mine, session_id)

    def cancel(self, ids: Sequence[str], action: Action) -> list[Acted]:
        return self._act("cancel", ids, action, actions.cancel)

    def retry(self, ids: Sequence[str], action: Action, *, force: bool = False) -> list[Acted]:
        return self._act("force" if force else "retry", ids, action, partial(actions.retry, force=force))

    def lose_result(self, task_id: str, result_blob: str | None, action: Action, *, told: Event | None = None) -> Acted:
        step = partial(acting.lose_result, result_blob=result_blob, told=told)
        return self._act("lose_result", [task_id], action, step)[0]

    def delete(self, ids: Sequence[str], action: Action) -> list[Acted]:
        return self._act("delete", ids, action, actions.delete)

    def _act(self, verb: str, targets: Sequence[str], action: Action, step: acting.Step) -> list[Acted]:
        return self._write(acting.act, verb, check_targets(targets, action), action, step)

    def pause(self, lane: str, action: Action, *, until: float | None = None) -> Acted:
        check_pause(lane, action, until)
        step = partial(acting.paused, until=until, note=action.note)
        return self._write(acting.act_on_lane, "pause", lane, action, step)

    def resume(self, lane: str, action: Action) -> Acted:
        check_pause(lane, action)
        return self._write(acting.act_on_lane, "resume", lane, action, acting.resumed)

    def prune(self, older_than_s: Mapping[Status, float], action: Action, *, most: int = 1000) -> int:
        check_ages(older_than_s, most)
        return self._write(acting.prune, older_than_s, action, most)

    def get(self, task_id: str) -> Task | None:
        return self._look(reads.get, ids.check_id(task_id))

    def get_many(self, task_ids: Sequence[str]) -> list[Task]:
        return self._look(reads.get_many, [ids.check_id(task_id) for task_id in task_ids])

    def get_job(self, job_id: str) -> Job | None:
        return self._look(reads.get_job, ids.check_id(job_id))

    def find(self, prefix: str) -> list[str]:
        return self._look(reads.find, ids.check_prefix(prefix))

    def list_tasks(self, query: Query) -> Page[Task]:
        return self._look(reads.list_tasks, query)

    def list_jobs(self, query: Query) -> Page[Job]:
        return self._look(reads.list_jobs, query)

    def count(self, *, tenant: str | None = None) -> dict[tuple[str, Status], int]:
        return self._look(reads.count, tenant)

    def open_job_count(self, tenant: str) -> int:
        return self._look(reads.open_job_count, check_name("tenant", tenant))

    def lanes(self) -> list[Lane]:
        return self._look(reads.lanes)

    def lane_state(self, lane: str) -> LaneState:
        return self._look(reads.lane_state, lane)

    def ahead(self, task_id: str) -> Depth:
        return self._look(reads.ahead, ids.check_id(task_id))

    def history(self, task_id: str) -> list[Attempt]:
        return self._look(reads.history, ids.check_id(task_id))

    def events(self, job_id: str, *, after: int = 0, most: int = 500) -> list[Event]:
        return self.news([(job_id, after)], most=most)[0]

    def news(self, asked: Sequence[tuple[str, int]], *, most: int = 500) -> list[list[Event]]:
        return self._look(reads.news, [(ids.check_id(job_id), after) for job_id, after in asked], most)

    def audit(self, *, most: int = 100, target: str | None = None) -> list[Audit]:
        return self._look(reads.audit, most, None if target is None else ids.check_id(target))

    def newer_schema(self) -> int | None:
        return self._query(reads.newer_schema, self.newest_schema)

    def used(self, *, tenant: str | None = None, since: float = 0.0) -> list[Usage]:
        return self._look(reads.used, tenant, check_instant("since", since))

    def remember(self, results: Sequence[Remembered]) -> None:
        self._write(writes.remember, results)

    def recall(self, tenant: str, keys: Sequence[str]) -> list[Remembered]:
        return self._look(reads.recall, tenant, keys)

    def forget(self, tenant: str, document: str, action: Action) -> int:
        return self._write(acting.forget, tenant, document, action)

    def forget_older(self, older_than_s: float, action: Action, *, most: int = 1000) -> int:
        check_older(older_than_s, most)
        return self._write(acting.forget_older, older_than_s, action, most)

    def add_key(self, key: ApiKey, action: Action) -> None:
        self._write(keys.add, check_key(key, action), action)

    def revoke_key(self, key_id: str, action: Action) -> Acted:
        check_drain(key_id, action)
        return self._write(keys.revoke, key_id, action)

    def get_key(self, key_id: str) -> ApiKey | None:
        return self._look(keys.get, ids.check_id(key_id))

    def keys(self) -> list[ApiKey]:
        return self._look(keys.every)

    def record_action(self, verb: str, targets: Sequence[str], action: Action) -> None:
        check_record(verb, targets, action)
        self._write(keys.record_action, verb, targets, action)

    def begin_request(self, tenant: str, key: str, token: str, for_s: float) -> bool:
        check_request(tenant, key, token, for_s)
        return self._write(keys.begin, tenant, key, token, for_s)

    def end_request(self, tenant: str, key: str, token: str) -> None:
        check_request(tenant, key, token)
        self._write(keys.end, tenant, key, token)

    def blobs_in_use(self, tenant: str, sha256s: Sequence[str]) -> set[str]:
        return self._look(reads.blobs_in_use, tenant, sha256s)

    def put_endpoint(self, endpoint: Endpoint, action: Action | None = None) -> bool:
        return self._write(writes.put_endpoint, endpoint, action)

    def endpoint(self, endpoint_id: str) -> Endpoint | None:
        return self._look(reads.endpoint, ids.check_id(endpoint_id))

    def endpoints(self, *, tenant: str | None = None) -> list[Endpoint]:
        return self._look(reads.endpoints, tenant)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def whole(tx: Transaction, step: Callable[..., Steps[T]], *arguments: Any, **named: Any) -> Steps[T]:  # noqa: ANN401 - the step's own
    """A step to its end: with what it gathered."""
    answer = yield from step(tx, *arguments, **named)
    yield from tx.finish()
    return answer


def _groups(batch: Sequence[NewTask | NewJob], most: int) -> Iterator[Sequence[NewTask | NewJob]]:
    """Parts of a batch that are short enough for others to get a turn between them; a job stays whole."""
    weights = ((1, len(text)) for text in batch.texts) if isinstance(batch, Bulk) else map(weigh, batch)
    start = 0
    while count := count_group(weights, most):
        yield batch[start : start + count]
        start += count
