"""What all requests share: the application, threads for calls that block, and how long a store may take to answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ParamSpec, TypedDict, TypeVar

from fastapi import Depends, Request

from forebay.app.forebay import Forebay
from forebay.errors import MaybeApplied, StoreError
from forebay.model.exchange import Submitted
from forebay.model.job import NewJob
from forebay.observe import emit
from forebay.observe.metrics import Metrics
from forebay.server.disk_room import DiskRoom
from forebay.server.file_limit import current_limit, divide
from forebay.server.gathering import Gathering
from forebay.server.loop_threads import LoopThreads
from forebay.server.quotas import Quotas
from forebay.server.request_room import RequestRoom
from forebay.server.upload_room import UploadRoom
from forebay.stores.groups import count_group, weigh

log = logging.getLogger("forebay.server")
P = ParamSpec("P")
T = TypeVar("T")
THREADS = 32
CARRIERS = 16
ANSWER_WITHIN_S = 1.5
SLOW_AFTER_S = 30.0
HEARTBEAT_S = 15.0
LISTENERS_SHARE = 0.25
SLOTS_SHARE = 0.5
SCHEMA_EVERY_S = 5.0


class Bounds(TypedDict, total=False):
    """How long stores and bodies may take, how often listeners hear a heartbeat, and how tenants share the server.

    `schema_every_s` is how often the server looks whether a newer version has migrated the ledger.
    """

    answer_within_s: float
    slow_after_s: float
    heartbeat_s: float
    requests: RequestRoom
    uploads: UploadRoom
    most_listeners: int
    listeners_share: float
    slots_share: float
    schema_every_s: float


class Service:
    """Nothing that must outlive a request is kept here: any number of processes may serve the same stores.

    `keyed` is remembered once it is true: from the first API key on, nobody is let in without one.
    `worker_drained` says that the worker of this process has ended.
    `newer_schema` is the schema of the ledger while a newer version has migrated it.
    """

    def __init__(
        self,
        app: Forebay,
        *,
        keyed: bool = False,
        loopback: bool = True,
        metrics: Metrics | None = None,
        answer_within_s: float = ANSWER_WITHIN_S,
        slow_after_s: float = SLOW_AFTER_S,
        heartbeat_s: float = HEARTBEAT_S,
        requests: RequestRoom | None = None,
        uploads: UploadRoom | None = None,
        most_listeners: int | None = None,
        listeners_share: float = LISTENERS_SHARE,
        slots_share: float = SLOTS_SHARE,
        schema_every_s: float = SCHEMA_EVERY_S,
    ) -> None:
        self.app = app
        self.keyed = keyed
        self.loopback = loopback
        self.metrics = metrics
        self.stopping = asyncio.Event()
        self.worker_drained = False
        self.newer_schema: int | None = None
        self.disk = DiskRoom(self)
        self.slow_after_s = slow_after_s
        self.heartbeat_s = heartbeat_s
        room = divide(current_limit())
        self.requests = requests or RequestRoom(room.connections)
        self.uploads = uploads or UploadRoom(most_uploads=room.uploads)
        self.most_listeners = room.listeners if most_listeners is None else most_listeners
        self.listeners_share = listeners_share
        self.slots_share = slots_share
        self.quotas = Quotas(self)
        self._schema_every_s = schema_every_s
        self._key_looks: Gathering[None, bool] = Gathering(lambda asking: self.ask(self._any_keys, asking))
        self._job_stores = Gathering(lambda jobs: self.ask(app.store_each, jobs), self._count_group)
        self._answer_within_s = answer_within_s
        self._threads = LoopThreads("forebay-request", THREADS)
        self._carriers = LoopThreads("forebay-bytes", CARRIERS)

    async def ask(self, run: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what blocks; a store that is silent for too long is down, as far as the client is concerned."""
        answer = self._threads.run(partial(run, *args, **kwargs))
        patience = asyncio.get_running_loop().call_later(self._answer_within_s, self._give_up, answer)
        try:
            return await answer
        finally:
            patience.cancel()

    def _give_up(self, answer: asyncio.Future[Any]) -> None:
        if not answer.done():
            answer.set_exception(
                MaybeApplied(
                    f"A store has not answered within {self._answer_within_s:g} s;"
                    " what was asked for may have been done.",
                    remedy="Ask again in a moment, with the same Idempotency-Key where there is one.",
                )
            )

    async def any_key(self) -> bool:
        """Whether there is an API key now: those who ask while a read is under way share the next one."""
        return await self._key_looks.hand_in(None)

    async def store(self, job: NewJob) -> Submitted:
        """Store a job. Where the ledger stores many in one transaction, those that come meanwhile are stored next."""
        if self.app.ledger.group_tasks == 1:
            return await self.ask(self.app.store, job)
        return await self._job_stores.hand_in(job)

    async def watch_schema(self) -> None:
        """Look at the ledger's schema as long as the server runs."""
        while True:
            try:
                newer = await self.ask(self.app.ledger.newer_schema)
                if newer is not None and self.newer_schema is None:
                    emit("schema_newer", worker="", schema=newer)
                self.newer_schema = newer
            except StoreError:
                pass  # /readyz names a store that does not answer
            except Exception:
                log.exception("schema_watch_failed")
            await asyncio.sleep(self._schema_every_s)

    async def take(self, run: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what blocks for as long as it takes: bytes on their way."""
        return await self._carriers.run(partial(run, *args, **kwargs))

    def _any_keys(self, asking: Sequence[None]) -> list[bool]:
        return [bool(self.app.ledger.keys())] * len(asking)

    def _count_group(self, jobs: Sequence[NewJob]) -> int:
        return count_group(map(weigh, jobs), self.app.ledger.group_tasks)

    def close(self) -> None:
        for pool in (self._threads, self._carriers):
            pool.close()


def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


async def find_service(request: Request) -> Service:
    # FastAPI would take a thread for what is no coroutine.
    return service_of(request)


Serving = Annotated[Service, Depends(find_service)]
