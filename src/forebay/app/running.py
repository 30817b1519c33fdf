"""Runs documents through a worker in this process, from their files to their outputs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from forebay.app.item import Item
from forebay.app.naming import Source
from forebay.app.outputs import Outputs
from forebay.app.plain import remedy
from forebay.engine.signals import Permanent
from forebay.errors import (
    BadDocument,
    ForebayError,
    NotFound,
    NotRetryable,
    ParserUnavailable,
    ResultCorrupt,
    StoreError,
)
from forebay.ids import printable
from forebay.model.exchange import Action
from forebay.model.job import Job, member_id
from forebay.model.query import MAX_PAGE, Query
from forebay.model.task import DEFAULT_TENANT, Role, Status, Task, WaitReason
from forebay.observe import subscribe
from forebay.rules import verdict
from forebay.rules.standing import Standing
from forebay.rules.verdict import ErrorClass

if TYPE_CHECKING:
    from forebay.app.forebay import Forebay

_FIRST_LOOK_S = 0.02
_LOOK_S = 0.2
_FEW = 10
_LAST_STEP = ".merge"
_LOOKS = 200
_WATCH_S = 0.5
_WHY_S = 2.0


class Run:
    """`told` hears of each item that changed, `noted` of what is to be said besides."""

    def __init__(
        self,
        app: Forebay,
        outputs: Outputs,
        *,
        terms: dict[str, Any],
        force: bool,
        who: str,
        told: Callable[[Item], None],
        noted: Callable[[str], None],
    ) -> None:
        self._app = app
        self._outputs = outputs
        self._terms = terms
        self._tenant: str = terms.get("tenant", DEFAULT_TENANT)
        self._who = who
        self._limit = app.documents.pipeline.processor(terms["processor"]).limit
        self._force = force
        self._told = told
        self._noted = noted
        self._why_at = 0.0
        self._budget_at = 0.0
        self._looked_at = 0
        self._rests = False
        self.items: list[Item] = []
        self.held_back = ""

    @property
    def done(self) -> bool:
        """Whether nothing is left undone of what was found up to now."""
        return self._rests and all(item.ended for item in self.items)

    async def follow(self, looks: Iterator[Sequence[Source]], drain: Callable[[str], None]) -> None:
        """Take in one file after the other and look after those that are under way, until all have ended.

        The sources come in one look, or in one after the other as long as folders are watched.
        """
        taking = asyncio.create_task(self._take_all(looks))
        pause_s = _FIRST_LOOK_S  # who hands in one page shall not wait for the pace of a thousand
        ended, unsubscribe = _endings()
        try:
            while not (taking.done() and self.done):
                if taking.done():
                    taking.result()
                await self._look()
                if taking.done() and await asyncio.to_thread(self._out_of_budget):
                    drain("budget")
                    return
                if not (taking.done() and self.done):
                    # With many, some end all the time: to look at once would be to do nothing else.
                    await _pause(pause_s, ended if len(self.items) <= _FEW else None)
                pause_s = min(_LOOK_S, 1.2 * pause_s)
        finally:
            unsubscribe()
            taking.cancel()
        drain("done")

    async def _take_all(self, looks: Iterator[Sequence[Source]]) -> None:
        while (sources := await asyncio.to_thread(next, looks, None)) is not None:
            self._rests = not sources
            for path in self._outputs.names.give(sources):
                name = self._outputs.names.of(path)
                self._noted(printable(f"{path}: another is called so too, its outputs are {name}.*"))
            for source in sources:
                item = Item(source.path)
                self.items.append(item)
                await asyncio.to_thread(self._take, item)
                self._told(item)
            self._rests = True
            if not sources:
                await asyncio.sleep(_WATCH_S)

    def _take(self, item: Item) -> None:
        try:
            approve = partial(self._outputs.check, item.path, tenant=self._tenant)
            job = self._app.documents.job(item.path, approve=approve, **self._terms)
            job_id = self._app.ledger.submit([job])[0].id
            self._take_up(item, job_id)
            # Only now: who looks after the items must not find this one's former end.
            item.job_id = job_id
        except StoreError:
            raise
        except ForebayError as error:
            error_class = error.error_class if isinstance(error, BadDocument) else error.code
            item.end("refused", error_class, error.what, todo=error.remedy, exit_code=error.exit_code)

    def _take_up(self, item: Item, job_id: str) -> None:
        """Retry what failed before, unless that cannot help."""
        job = self._app.ledger.get_job(job_id)
        if job is None or job.status not in {Status.FAILED, Status.CANCELED}:
            item.status = Status.RUNNING  # also one that is completed: its outputs are still to be written
            if job is not None and not job.status.terminal:
                self._hasten(job)
            return
        acted = self._app.retry(job.id, force=self._force, who=self._who, tenant=self._tenant)[0]
        if acted.done or not self._has_ended(job):
            item.status = Status.PENDING
        elif acted.outcome == NotRetryable.code:
            self._end_failed(item, job)
        else:
            item.end("failed", acted.outcome, acted.text, todo="Give --force." if acted.needs_force else "")

    def _hasten(self, job: Job) -> None:
        """What waits for a budget looks at it at once: it may have been raised, which is why the command was given."""
        if self._app.standing(job.id).wait_reason is not WaitReason.BUDGET:
            return
        waiting = list(self._app.ledger.list_tasks(Query(job_id=job.id, status=Status.PENDING, size=MAX_PAGE)).items)
        held_back = [task.id for task in waiting if task.wait_reason is WaitReason.BUDGET]
        self._app.ledger.retry(held_back, Action(who=self._who, tenant=self._tenant))

    def _has_ended(self, job: Job) -> bool:
        """Somebody else may have retried it in the same moment."""
        now = self._app.ledger.get_job(job.id)
        return now is not None and now.status in {Status.FAILED, Status.CANCELED}

    async def _look(self) -> None:
        """At some of those that are under way, so that many do not keep the store busy; then at the next."""
        under_way = [item for item in self.items if item.job_id is not None and not item.ended]
        first = self._looked_at if self._looked_at < len(under_way) else 0
        self._looked_at = first + _LOOKS
        for item in islice(under_way, first, self._looked_at):
            job = await asyncio.to_thread(self._app.ledger.get_job, item.job_id or "")
            if job is None:
                item.end("failed", "not_found", "Its job was deleted meanwhile.", todo="Run it again.")
            elif job.status is Status.COMPLETED:
                await self._write(item, job)
            elif job.status.terminal:
                await asyncio.to_thread(self._end_failed, item, job)
            else:
                await asyncio.to_thread(self._note, item, job)
            self._told(item)

    def _out_of_budget(self) -> bool:
        """Whether nothing is left but what waits for the next day or month of a budget."""
        if time.monotonic() < self._budget_at:
            return False
        self._budget_at = time.monotonic() + _WHY_S
        text = ""
        for item in self.items:
            if item.ended or item.job_id is None:
                continue
            job = self._app.ledger.get_job(item.job_id)
            standing = None if job is None or job.running_count else self._app.standing(job.id)
            if standing is None or standing.wait_reason is not WaitReason.BUDGET:
                return False
            text = _waits_for(standing)
        self.held_back = text
        return bool(text)

    def _note(self, item: Item, job: Job) -> None:
        item.status = job.status
        if time.monotonic() >= self._why_at:
            self._why_at = time.monotonic() + _WHY_S
            item.waits = self._waits(job)
        if job.chunk_count:
            item.done_share = 1 - job.open_count / job.chunk_count
            if item.page_count is None:
                item.page_count = self._pages(job)

    def _waits(self, job: Job) -> str:
        """What keeps it from going on, if something does: a chunk that runs may still wait for its call."""
        if job.chunk_count and self._limit is not None:
            standings = [standing for _, standing in self._app.look().lanes(self._limit)]
        else:
            standings = [] if job.running_count else [self._app.standing(job.id)]
        return next((_waits_for(each) for each in standings if each.wait_reason is not None), "")

    def _pages(self, job: Job) -> int | None:
        split = self._app.ledger.get(member_id(job.id, Role.SPLIT, 1))
        said = split.result if split else None
        return said["pages"] if isinstance(said, dict) else None  # type: ignore[return-value]  # written by our split

    async def _write(self, item: Item, job: Job) -> None:
        try:
            item.outputs = await self._outputs.write(item.path, job)
        except (ResultCorrupt, NotFound) as error:
            await asyncio.to_thread(self._mend, item, job, error)
            return
        except StoreError:
            raise
        except (BadDocument, ParserUnavailable, Permanent) as error:
            why = printable(error.text) if isinstance(error, Permanent) else error.what
            todo = "What was read is stored: see that there is room, then run it again."
            item.end("unwritten", "output_failed", f"An output cannot be written: {why}", todo=todo)
            return
        except ForebayError as error:
            item.end("unwritten", error.code, error.what, todo=error.remedy, exit_code=error.exit_code)
            return
        except OSError as error:
            text = printable(f"{error.strerror or error}: {error.filename or item.path}")
            todo = "What was read is stored: make room, then run it again."
            item.end("unwritten", "output_failed", f"An output cannot be written: {text}.", todo=todo)
            return
        merge = await asyncio.to_thread(self._app.ledger.get, job.merge_id or "")
        said = merge.result if merge else None
        if isinstance(said, dict):
            item.page_count = said["page_count"]  # type: ignore[assignment]  # written by our merge
            item.hole_count = sum(hole["page_end"] - hole["page_start"] + 1 for hole in said["holes"])  # type: ignore[union-attr,index,operator,call-overload,misc]  # same
            if said["repaired"]:
                item.damage = "; ".join(["the document is damaged, and was repaired", *said["notes"]])  # type: ignore[misc]  # same
        item.status, item.done_share = Status.COMPLETED, 1.0

    def _mend(self, item: Item, job: Job, lost: ForebayError) -> None:
        """What the stores lost can be had once more at no cost: the document is here, and a merge makes no call."""
        merge = self._app.ledger.get(job.merge_id or "")
        if item.mended or merge is None:
            item.end("unwritten", lost.code, lost.what, todo=lost.remedy)
            return
        item.mended = True
        self._app.documents.job(item.path, keep=True, **self._terms)
        acted = self._app.ledger.lose_result(merge.id, merge.result_blob, Action(who=self._who, tenant=self._tenant))
        if acted.done or acted.outcome == "changed":
            item.status = Status.RUNNING
        else:
            item.end("unwritten", lost.code, lost.what, todo=lost.remedy)

    def _end_failed(self, item: Item, job: Job) -> None:
        failed = self._failed(job)
        error_class = (failed.error_class if failed else None) or job.error_class or "unknown"
        text = job.error_text or "It failed."
        if failed is not None and failed.role is Role.SPLIT:
            text = failed.error_text or text
        item.end(job.status, error_class, text, todo=remedy(error_class), exit_code=_exit_code(error_class))

    def _failed(self, job: Job) -> Task | None:
        """The first task that failed for good, which tells why the job did."""
        found = self._app.ledger.list_tasks(Query(job_id=job.id, status=Status.FAILED, size=1)).items
        return found[0] if found else None


def _endings() -> tuple[asyncio.Event, Callable[[], None]]:
    """What is set when a task of this worker's ends that may be the last of its document, and how to stop that."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def heard(name: str, fields: Mapping[str, object]) -> None:
        if name == "task_failed" or (name == "task_completed" and str(fields["kind"]).endswith(_LAST_STEP)):
            loop.call_soon_threadsafe(ended.set)

    return ended, subscribe(heard)


async def _pause(longest_s: float, ended: asyncio.Event | None) -> None:
    if ended is None:
        await asyncio.sleep(longest_s)
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            await ended.wait()
    ended.clear()


def _waits_for(standing: Standing) -> str:
    return next((reason.text for reason in standing.reasons if reason.code == standing.wait_reason), "")


def _exit_code(error_class: str) -> int:
    known = {str(each) for each in ErrorClass}
    return verdict.of(verdict.parse(error_class)).exit_code if error_class in known else 1
