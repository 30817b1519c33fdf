"""The application: registers handlers, submits tasks and jobs, waits for them, and runs workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar, Unpack

from forebay import ids
from forebay.app.finished import Finished
from forebay.app.lost_results import redo_lost
from forebay.app.stands import Stands
from forebay.app.waiting import looks, not_yet
from forebay.engine.pipeline import Pipeline
from forebay.engine.registry import Handler, Kind, KindOptions
from forebay.engine.submission import Options, conflict
from forebay.errors import Ambiguous, BadInput, ChunkNotFound, NotFound, StoreError
from forebay.model.exchange import Acted, Action, Submitted
from forebay.model.job import Job, NewJob, member_id
from forebay.model.limit import Limit
from forebay.model.names import CALLBACK
from forebay.model.payload import Json
from forebay.model.task import DEFAULT_TENANT, Attempt, NewTask, Role, Status, Task
from forebay.observe import emit
from forebay.rules.standing import Standing
from forebay.rules.why import Reason
from forebay.stores.access import check_not_migrated

if TYPE_CHECKING:
    from forebay.app.callbacks import AppCallbacks
    from forebay.app.documents import AppDocuments
    from forebay.app.explain import Explainer
    from forebay.model.budget import Budget
    from forebay.model.callback import Callback
    from forebay.pipelines.chunk_results import ChunkResult
    from forebay.processors.function import Function, ProcessorOptions
    from forebay.processors.llm import Llm
    from forebay.processors.transport import Transport

H = TypeVar("H", bound=Handler)
P = TypeVar("P", bound="Function")
_NAMED = 20  # targets that a log line names


class Forebay(Stands):
    """Registers, submits, looks, acts and works; nothing is opened before it is needed."""

    _transport: Transport | None = None

    # --- limits

    def limit(self, limit: Limit) -> Limit:
        """What the code says of a limit; workers tell its store, where an operator's changes stand above it."""
        return self.limits.add(limit)

    # --- handlers

    def task(self, kind: str, **options: Unpack[KindOptions]) -> Callable[[H], H]:
        """Register a handler: `async def` runs in the worker's loop, `def` in a child process that can be killed.

        With a limit the handler is one call of it: its slot, of so many units, is taken right before it starts.
        slot="call" leaves that to the handler, for each call it makes: `async with ctx.slot(): …`.
        """
        if kind == CALLBACK:
            raise BadInput(f"{kind!r} is a kind of Forebay's own.", remedy="Give yours another name.")

        def register(handler: H) -> H:
            self.registry.add(Kind(name=kind, handler=handler, **options))
            return handler

        return register

    @cached_property
    def _pipelines(self) -> dict[str, Pipeline]:
        return {}

    def pipeline(self, name: str, *, allow_holes: bool = False) -> Pipeline:
        """A pipeline of your own: decorate its `split`, `process` and `merge`."""
        if name in self._pipelines:
            raise BadInput(f"Pipeline {name!r} exists already.", remedy="Give the second one another name.")
        made = self._pipelines[name] = Pipeline(name, self.registry, allow_holes=allow_holes)
        return made

    def processor(self, name: str, **options: Unpack[ProcessorOptions]) -> Callable[[P], P]:
        """Register a processor of documents: an `async def` of a context and a chunk that returns the chunk's pages.

        With a limit the function is one call of it, unless slot="call" leaves that to it: `async with ctx.slot(): …`.
        """
        from forebay.processors.function import FunctionProcessor  # noqa: PLC0415 - only for documents

        def register(function: P) -> P:
            self.documents.add(FunctionProcessor(name=name, function=function, **options))
            return function

        return register

    def budget(self, budget: Budget) -> Budget:
        """What a processor may use in a day or a month; a chunk that would use more waits for the next one."""
        self.documents.bound(budget)
        return budget

    @cached_property
    def documents(self) -> AppDocuments:
        from forebay.app.documents import AppDocuments  # noqa: PLC0415 - only for documents

        return AppDocuments(self)

    @cached_property
    def callbacks(self) -> AppCallbacks:
        """Where jobs tell of themselves: endpoints, their secrets, and what was delivered."""
        from forebay.app.callbacks import AppCallbacks  # noqa: PLC0415 - only who uses them

        return AppCallbacks(self)

    @property
    def transport(self) -> Transport:
        """For all calls of this process to providers."""
        if self._transport is None:
            from forebay.processors.transport import Transport  # noqa: PLC0415 - those who only submit need none

            self._transport = Transport(proxy=self.settings.proxy)
        return self._transport

    @cached_property
    def llm(self) -> Llm:
        """The language model of the settings: `await app.llm.ask(ctx, system, text, schema)`."""
        from forebay.app.providers import language_model  # noqa: PLC0415 - only programs that use it

        return language_model(self.settings, transport=lambda: self.transport)

    def check_documents(self) -> None:
        """Reads the settings of documents, and refuses those that cannot be used, before anything begins."""
        if "documents" in vars(self):
            self.documents.pipeline  # noqa: B018 - the first look registers what the settings name
            self.documents.budgets()

    def check_budgets(self) -> None:
        """Before documents are worked on: all processors are known by then."""
        if "documents" in vars(self):
            self.documents.check_budgets()

    async def aclose_documents(self) -> None:
        """End the children that read documents, and connections to providers; both come again when they are needed."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()
        if "documents" in vars(self):
            await self.documents.aclose()

    # --- submitting

    def process(
        self,
        source: str | Path | IO[bytes],
        *,
        pipeline: str | None = None,
        processor: str | None = None,
        options: Mapping[str, object] | None = None,
        allow_holes: bool = False,
        reuse: bool = True,
        name: str | None = None,
        callback: str | None = None,
        callback_each: bool = False,
        callback_results: bool = False,
        **terms: Unpack[Options],
    ) -> Submitted:
        """Store a job of a pipeline over a document: `ocr` unless it or its processor is named.

        Of the same bytes and options there is one, unless reuse is refused.
        `callback` is a URL that gets a callback when the job has ended, and with `callback_each` for every chunk; with
        `callback_results` each callback carries the result, unless it is larger than `callback_result_max_bytes`.
        """
        place = Path(source) if isinstance(source, str) else source
        job = self.documents.job(
            place,
            name=name,
            pipeline=pipeline,
            processor=processor,
            options=options,
            allow_holes=allow_holes,
            reuse=reuse,
            callback=self._callback(callback, terms, each=callback_each, results=callback_results),
            **terms,
        )
        return self._submitted([job])[0]

    def submit(
        self, kind: str, payload: object = None, *, idempotency_key: str | None = None, **options: Unpack[Options]
    ) -> Submitted:
        """Store a task; with a key, the same submission again finds the first one."""
        return self._submitted([self.submissions.one(kind, payload, options, idempotency_key=idempotency_key)])[0]

    def submit_many(
        self,
        kind: str,
        payloads: Iterable[object],
        *,
        idempotency_keys: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> list[Submitted]:
        """Store one task for each payload, with the same options, much faster than one by one."""
        given = list(payloads)
        keys = [None] * len(given) if idempotency_keys is None else list(idempotency_keys)
        if len(keys) != len(given):
            raise BadInput(f"There are {len(given)} payloads and {len(keys)} keys.", remedy="Give one key for each.")
        return self._submitted(self.submissions.tasks(kind, given, keys, options))

    def start(
        self,
        pipeline: str,
        payload: object = None,
        *,
        chunks: Iterable[object] | None = None,
        idempotency_key: str | None = None,
        label: str | None = None,
        callback: str | None = None,
        callback_each: bool = False,
        callback_results: bool = False,
        **options: Unpack[Options],
    ) -> Submitted:
        """Store a job: the payload is split by the pipeline, or its chunks are given here.

        `callback` is a URL that gets a callback when the job has ended, and with `callback_each` for every chunk; with
        `callback_results` each callback carries the result, unless it is larger than `callback_result_max_bytes`.
        """
        known = self._pipelines.get(pipeline)
        if known is None:
            names = ", ".join(sorted(self._pipelines)) or "none"
            raise NotFound(f"There is no pipeline {ids.shown(pipeline)}.", remedy=f"Known pipelines: {names}.")
        job = known.job(
            payload,
            self.submissions,
            options,
            chunks=chunks,
            idempotency_key=idempotency_key,
            label=label,
            callback=self._callback(callback, options, each=callback_each, results=callback_results),
        )
        return self._submitted([job])[0]

    def _callback(self, url: str | None, options: Options, *, each: bool, results: bool) -> Callback | None:
        if url is None and not each and not results:
            return None
        return self.callbacks.of_job(url, each=each, results=results, tenant=options.get("tenant", DEFAULT_TENANT))

    def store(self, new: NewTask | NewJob) -> Submitted:
        """Store what was made ready elsewhere; IdempotencyConflict if its key stands for something else."""
        return self._submitted([new])[0]

    def store_each(self, jobs: Sequence[NewJob]) -> list[Submitted | Exception]:
        """Store jobs, in one transaction if they fit into one; an error of one of them does not fail the others."""
        try:
            answers = self.ledger.submit(jobs)
        except Exception as error:  # noqa: BLE001 - each caller gets its own
            if len(jobs) == 1 or isinstance(error, StoreError):
                return [error] * len(jobs)
            return [answer for job in jobs for answer in self.store_each([job])]
        return [conflict(answer.id) if answer.outcome == "conflict" else answer for answer in answers]

    def _submitted(self, batch: Sequence[NewTask | NewJob]) -> list[Submitted]:
        answers = self.ledger.submit(batch)
        for answer in answers:
            if answer.outcome == "conflict":
                raise conflict(answer.id)
        return answers

    async def asubmit(
        self, kind: str, payload: object = None, *, idempotency_key: str | None = None, **options: Unpack[Options]
    ) -> Submitted:
        return await asyncio.to_thread(self.submit, kind, payload, idempotency_key=idempotency_key, **options)

    async def asubmit_many(
        self,
        kind: str,
        payloads: Iterable[object],
        *,
        idempotency_keys: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> list[Submitted]:
        return await asyncio.to_thread(
            self.submit_many, kind, payloads, idempotency_keys=idempotency_keys, **options
        )  # fmt: skip

    async def astart(
        self,
        pipeline: str,
        payload: object = None,
        *,
        chunks: Iterable[object] | None = None,
        idempotency_key: str | None = None,
        label: str | None = None,
        callback: str | None = None,
        callback_each: bool = False,
        callback_results: bool = False,
        **options: Unpack[Options],
    ) -> Submitted:
        return await asyncio.to_thread(
            self.start,
            pipeline,
            payload,
            chunks=chunks,
            idempotency_key=idempotency_key,
            label=label,
            callback=callback,
            callback_each=callback_each,
            callback_results=callback_results,
            **options,
        )

    # --- looking

    def resolve(self, prefix: str) -> str:
        """The one id that begins so."""
        found = self.ledger.find(ids.check_prefix(prefix))
        if not found:
            raise NotFound(
                f"There is no task or job {ids.shown(prefix)}.", remedy="`forebay list` shows those there are."
            )
        if len(found) > 1:
            raise Ambiguous(f"More than one id begins with {ids.shown(prefix)}.", remedy="Give more of it.")
        return found[0]

    def get(self, identifier: str) -> Task | Job:
        """A task or a job by its id."""
        found = self.ledger.get(ids.check_id(identifier)) or self.ledger.get_job(identifier)
        if found is None:
            raise NotFound(f"There is no task or job {identifier}.", remedy="`forebay list` shows those there are.")
        return found

    def history(self, identifier: str) -> list[Attempt]:
        self.get(identifier)
        return self.ledger.history(identifier)

    def why(self, identifier: str) -> tuple[Reason, ...]:
        """Why it does not run now, and until when; the first reason is what to look at."""
        return self.standing(identifier).reasons

    def standing(self, identifier: str) -> Standing:
        """Why it waits, behind how many, until when, what binds, and whether more workers would help."""
        return self.look().standing(self.get(identifier))

    def look(self) -> Explainer:
        """Around all tasks at once, for those who ask about many."""
        from forebay.app.explain import Explainer  # noqa: PLC0415 - those who only submit need none of it

        self.check_documents()
        return Explainer(self.ledger, self.limits.found, self.registry, now=time.time())

    def result(self, identifier: str, *, timeout_s: float | None = None) -> Json | bytes:
        """Wait for it and return its result, or raise with the error it ended with."""
        return self.wait(identifier, timeout_s=timeout_s).result

    async def aresult(self, identifier: str, *, timeout_s: float | None = None) -> Json | bytes:
        for pause_s in looks(timeout_s):
            finished = await asyncio.to_thread(self._finished, identifier)
            if finished is not None:
                return finished.result
            await asyncio.sleep(pause_s)
        raise not_yet(identifier, timeout_s)

    def wait(self, identifier: str, *, timeout_s: float | None = None) -> Finished:
        """Wait until a task or a job has ended, however it ends."""
        for pause_s in looks(timeout_s):
            finished = self._finished(identifier)
            if finished is not None:
                return finished
            time.sleep(pause_s)
        raise not_yet(identifier, timeout_s)

    def _finished(self, identifier: str) -> Finished | None:
        found = self.get(identifier)
        if not found.status.terminal:
            check_not_migrated(self.ledger)
            return None
        if found.status is not Status.COMPLETED:
            return Finished(found, None)
        holder = found if isinstance(found, Task) else found.merge_id and self.ledger.get(found.merge_id)
        return Finished(found, self.content.result(holder) if holder else None)

    def chunk(self, job_id: str, index: int) -> Task:
        """Return a chunk of a job by its number, from 0; ChunkNotFound if the job has no such chunk."""
        job = self.ledger.get_job(ids.check_id(job_id))
        if job is None:
            raise NotFound(f"There is no job {job_id}.", remedy="`forebay list --jobs` shows those there are.")
        found = self.ledger.get(member_id(job_id, Role.CHUNK, index))
        if found is None:
            raise ChunkNotFound(
                f"Job {job_id} has no chunk {index}.", remedy=f"`forebay list --job {job_id}` shows those there are."
            )
        return found

    def chunk_result(self, job_id: str, index: int) -> ChunkResult:
        """Return the pages that a completed chunk of `ocr` has read: text, boxes and confidence."""
        from forebay.pipelines.chunk_results import read  # noqa: PLC0415 - only for documents

        return read(self.blobs, self.chunk(job_id, index))

    # --- acting

    def cancel(self, *identifiers: str, who: str = "api", note: str = "", tenant: str = DEFAULT_TENANT) -> list[Acted]:
        return self.ledger.cancel(list(identifiers), Action(who=who, note=note, tenant=tenant))

    def retry(
        self,
        *identifiers: str,
        force: bool = False,
        who: str = "api",
        note: str = "",
        tenant: str = DEFAULT_TENANT,
        check: bool = False,
    ) -> list[Acted]:
        """Run again what failed or was canceled, and what completed with a result that is lost; answer for each.

        With `check` the first refusal is raised instead: RetryLimitExceeded, NotRetryable or NotFound.
        """
        answers = self.ledger.retry(list(identifiers), Action(who=who, note=note, tenant=tenant), force=force)
        answers = [
            answer if answer.done else redo_lost(self, answer.id, who=who, note=note, tenant=tenant) or answer
            for answer in answers
        ]
        emit(
            "retry_requested",
            who=who,
            targets=list(identifiers[:_NAMED]),
            target_count=len(identifiers),
            done_count=sum(answer.done for answer in answers),
            force=force,
            note=note,
        )
        if check:
            for answer in answers:
                answer.check()
        return answers

    def delete(self, *identifiers: str, who: str = "api", note: str = "", tenant: str = DEFAULT_TENANT) -> list[Acted]:
        return self.ledger.delete(list(identifiers), Action(who=who, note=note, tenant=tenant))

    # --- working

    def work(
        self,
        *,
        concurrency: int | None = None,
        processes: int | None = None,
        name: str | None = None,
        until_idle: bool = False,
    ) -> None:
        """Run a worker in this process until SIGTERM or Ctrl-C; plain functions run in children of it.

        `until_idle` ends it as well once no task of its kinds is pending, be it for later, or running anywhere.
        """
        from forebay.app.working import work  # noqa: PLC0415 - those who only submit need none of it

        work(self, concurrency=concurrency, processes=processes, name=name, until_idle=until_idle)
