"""Any ledger behind a bad line: calls that fail before they begin, come late, or are done but not answered."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from forebay.errors import MaybeApplied, StoreUnreachable
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
from forebay.stores.base import MAX_RESCUED, Ledger

if TYPE_CHECKING:
    import asyncio

P = ParamSpec("P")
T = TypeVar("T")


def faulty(
    ledger: Ledger,
    *,
    random_state: int = 0,
    error_before: float = 0.0,
    delay_s: float = 0.0,
    applied_but_timeout: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
) -> FaultyLedger:
    """The same ledger, with faults drawn from `random_state`.

    A call waits for up to `delay_s` before it begins. Then it is not made at all by the chance of `error_before`,
    or made but not answered by that of `applied_but_timeout`, both from 0 to 1. `fired` counts what struck.
    """
    return FaultyLedger(ledger, Random(random_state), (delay_s, error_before, applied_but_timeout), sleep)  # noqa: S311 - no secret


class FaultyLedger:
    """See `faulty`. Listening and closing are spared."""

    def __init__(
        self, ledger: Ledger, random: Random, faults: tuple[float, float, float], sleep: Callable[[float], None]
    ) -> None:
        self._ledger = ledger
        self._random = random
        self._faults = faults
        self._sleep = sleep
        self._lock = Lock()
        self.fired: Counter[tuple[str, str]] = Counter()

    @property
    def group_tasks(self) -> int:
        return self._ledger.group_tasks

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _draw(self, verb: str) -> tuple[float, bool, bool]:
        """What strikes the next call; as many draws for each, so that one call's fate does not shift the others'."""
        delay_s, error_before, applied_but_timeout = self._faults
        with self._lock:
            delayed_s = self._random.uniform(0, delay_s)
            not_made = self._random.random() < error_before
            unanswered = self._random.random() < applied_but_timeout and not not_made
            self.fired["delay", verb] += delayed_s > 0
            self.fired["error_before", verb] += not_made
            self.fired["applied_but_timeout", verb] += unanswered
        return delayed_s, not_made, unanswered

    def _call(self, verb: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        name = verb.__name__
        delayed_s, not_made, unanswered = self._draw(name)
        if delayed_s:
            self._sleep(delayed_s)
        if not_made:
            raise StoreUnreachable(f"{name} did not reach the ledger.", remedy="Repeat it.")
        answer = verb(*args, **kwargs)
        if unanswered:
            raise MaybeApplied(f"{name} was not answered in time.", remedy="Repeat it with the same ids.")
        return answer

    def submit(self, batch: Sequence[NewTask | NewJob]) -> list[Submitted]:
        return self._call(self._ledger.submit, batch)

    def open_session(self, session: Session) -> None:
        self._call(self._ledger.open_session, session)

    def renew(self, session_id: str, holds: Sequence[Hold] = (), progress: Sequence[Progress] = ()) -> Renewal:
        return self._call(self._ledger.renew, session_id, holds, progress)

    def drain(self, session_id: str, action: Action) -> Acted:
        return self._call(self._ledger.drain, session_id, action)

    def close_session(self, session_id: str) -> None:
        self._call(self._ledger.close_session, session_id)

    def sessions(self) -> list[Session]:
        return self._call(self._ledger.sessions)

    def exchange(
        self,
        session_id: str,
        n: int,
        *,
        settles: Sequence[Settle] = (),
        releases: Sequence[Release] = (),
        wants: Sequence[Want] = (),
    ) -> Reply:
        verb = self._ledger.exchange
        return self._call(verb, session_id, n, settles=settles, releases=releases, wants=wants)

    def rescue(self, *, most: int = MAX_RESCUED) -> list[str]:
        return self._call(self._ledger.rescue, most=most)

    def mine(self, session_id: str) -> list[Task]:
        return self._call(self._ledger.mine, session_id)

    def listen(self, wake: Callable[[], None], *, loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], None]:
        return self._ledger.listen(wake, loop=loop)

    def cancel(self, ids: Sequence[str], action: Action) -> list[Acted]:
        return self._call(self._ledger.cancel, ids, action)

    def retry(self, ids: Sequence[str], action: Action, *, force: bool = False) -> list[Acted]:
        return self._call(self._ledger.retry, ids, action, force=force)

    def lose_result(self, task_id: str, result_blob: str | None, action: Action, *, told: Event | None = None) -> Acted:
        return self._call(self._ledger.lose_result, task_id, result_blob, action, told=told)

    def pause(self, lane: str, action: Action, *, until: float | None = None) -> Acted:
        return self._call(self._ledger.pause, lane, action, until=until)

    def resume(self, lane: str, action: Action) -> Acted:
        return self._call(self._ledger.resume, lane, action)

    def delete(self, ids: Sequence[str], action: Action) -> list[Acted]:
        return self._call(self._ledger.delete, ids, action)

    def prune(self, older_than_s: Mapping[Status, float], action: Action, *, most: int = 1000) -> int:
        return self._call(self._ledger.prune, older_than_s, action, most=most)

    def get(self, task_id: str) -> Task | None:
        return self._call(self._ledger.get, task_id)

    def get_many(self, task_ids: Sequence[str]) -> list[Task]:
        return self._call(self._ledger.get_many, task_ids)

    def get_job(self, job_id: str) -> Job | None:
        return self._call(self._ledger.get_job, job_id)

    def find(self, prefix: str) -> list[str]:
        return self._call(self._ledger.find, prefix)

    def list_tasks(self, query: Query) -> Page[Task]:
        return self._call(self._ledger.list_tasks, query)

    def list_jobs(self, query: Query) -> Page[Job]:
        return self._call(self._ledger.list_jobs, query)

    def count(self, *, tenant: str | None = None) -> dict[tuple[str, Status], int]:
        return self._call(self._ledger.count, tenant=tenant)

    def open_job_count(self, tenant: str) -> int:
        return self._call(self._ledger.open_job_count, tenant)

    def lanes(self) -> list[Lane]:
        return self._call(self._ledger.lanes)

    def lane_state(self, lane: str) -> LaneState:
        return self._call(self._ledger.lane_state, lane)

    def ahead(self, task_id: str) -> Depth:
        return self._call(self._ledger.ahead, task_id)

    def history(self, task_id: str) -> list[Attempt]:
        return self._call(self._ledger.history, task_id)

    def events(self, job_id: str, *, after: int = 0, most: int = 500) -> list[Event]:
        return self._call(self._ledger.events, job_id, after=after, most=most)

    def news(self, asked: Sequence[tuple[str, int]], *, most: int = 500) -> list[list[Event]]:
        return self._call(self._ledger.news, asked, most=most)

    def audit(self, *, most: int = 100, target: str | None = None) -> list[Audit]:
        return self._call(self._ledger.audit, most=most, target=target)

    def newer_schema(self) -> int | None:
        return self._call(self._ledger.newer_schema)

    def used(self, *, tenant: str | None = None, since: float = 0.0) -> list[Usage]:
        return self._call(self._ledger.used, tenant=tenant, since=since)

    def remember(self, results: Sequence[Remembered]) -> None:
        self._call(self._ledger.remember, results)

    def recall(self, tenant: str, keys: Sequence[str]) -> list[Remembered]:
        return self._call(self._ledger.recall, tenant, keys)

    def add_key(self, key: ApiKey, action: Action) -> None:
        return self._call(self._ledger.add_key, key, action)

    def revoke_key(self, key_id: str, action: Action) -> Acted:
        return self._call(self._ledger.revoke_key, key_id, action)

    def get_key(self, key_id: str) -> ApiKey | None:
        return self._call(self._ledger.get_key, key_id)

    def keys(self) -> list[ApiKey]:
        return self._call(self._ledger.keys)

    def record_action(self, verb: str, targets: Sequence[str], action: Action) -> None:
        return self._call(self._ledger.record_action, verb, targets, action)

    def begin_request(self, tenant: str, key: str, token: str, for_s: float) -> bool:
        return self._call(self._ledger.begin_request, tenant, key, token, for_s)

    def end_request(self, tenant: str, key: str, token: str) -> None:
        return self._call(self._ledger.end_request, tenant, key, token)

    def forget(self, tenant: str, document: str, action: Action) -> int:
        return self._call(self._ledger.forget, tenant, document, action)

    def forget_older(self, older_than_s: float, action: Action, *, most: int = 1000) -> int:
        return self._call(self._ledger.forget_older, older_than_s, action, most=most)

    def blobs_in_use(self, tenant: str, sha256s: Sequence[str]) -> set[str]:
        return self._call(self._ledger.blobs_in_use, tenant, sha256s)

    def put_endpoint(self, endpoint: Endpoint, action: Action | None = None) -> bool:
        return self._call(self._ledger.put_endpoint, endpoint, action)

    def endpoint(self, endpoint_id: str) -> Endpoint | None:
        return self._call(self._ledger.endpoint, endpoint_id)

    def endpoints(self, *, tenant: str | None = None) -> list[Endpoint]:
        return self._call(self._ledger.endpoints, tenant=tenant)

    def check(self) -> list[str]:
        return self._call(self._ledger.check)

    def backup(self, target: Path) -> None:
        self._call(self._ledger.backup, target)

    def close(self) -> None:
        self._ledger.close()
