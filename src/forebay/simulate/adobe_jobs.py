"""Adobe's jobs: they run after their request was answered, and are polled or tell of their end themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from forebay.simulate.adobe_storage import PDF, SHEET, Asset, Storage
from forebay.simulate.reading import Reader, Unreadable, language
from forebay.simulate.record import Call
from forebay.simulate.state import State
from forebay.simulate.tagging import Untaggable, report, tagged

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_TOLD_WITHIN_S: Final = 10.0


@dataclass
class Job:
    id: str
    fingerprint: str
    status: str = "in progress"
    error: dict[str, Any] | None = None
    results: dict[str, Asset] = field(default_factory=dict)


@dataclass(frozen=True)
class _Order:
    """What a job is to do, and how it is to fail."""

    data: bytes
    asked: Mapping[str, Any]
    pages: int
    base: str
    fails: str


class Jobs:
    def __init__(self, state: State, storage: Storage) -> None:
        self._state = state
        self._storage = storage
        self._jobs: dict[str, Job] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._reader = Reader(32)

    def get(self, identifier: str) -> Job | None:
        return self._jobs.get(identifier)

    def start(
        self, asset: Asset, asked: Mapping[str, Any], units: Mapping[str, int], base: str, *, fails: str = ""
    ) -> Job:
        """Its span in the record begins now; the quota that it takes was asked with the request."""
        job = Job(token_hex(12), asset.fingerprint)
        self._jobs[job.id] = job
        span = self._state.ledger.begin("adobe.job", self._state.clock.now())
        span.units, span.fingerprint, span.admitted, span.paid = dict(units), asset.fingerprint, True, True
        task = asyncio.create_task(self._run(job, span, _Order(asset.data or b"", asked, units["pages"], base, fails)))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return job

    async def _run(self, job: Job, span: Call, order: _Order) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._state.latency("adobe.job")
        try:
            made, error = await self._made(order)
            await asyncio.sleep(until - loop.time())
            if error is None:
                job.results = {name: self._storage.create(kind, content) for name, (kind, content) in made.items()}
                job.status = "done"
            else:
                job.error = error
                job.status = "failed"
            span.status = 200 if error is None else error["status"]
            span.whole = error is None
        finally:
            self._state.quotas.release("adobe.job")
            self._state.ledger.end(span, self._state.clock.now())
        for notifier in order.asked.get("notifiers") or ():
            await _tell(notifier, {"jobID": job.id} | described(job, self._storage, order.base))

    async def _made(self, order: _Order) -> tuple[dict[str, tuple[str, bytes]], dict[str, Any] | None]:
        if order.fails == "failed":
            return {}, _error(500, "INTERNAL_ERROR", "Internal error; please try again")
        if order.fails == "bad_pdf":
            return {}, _error(400, "BAD_PDF", "Unable to process the input. The content of the file is too complex.")
        if order.pages > self._state.settings.adobe.max_pages:
            return {}, _error(400, "PAGE_LIMIT_EXCEEDED", f"The file has {order.pages} pages, more than are supported.")
        try:
            content = await asyncio.get_running_loop().run_in_executor(
                self._state.parsers, partial(self._tag, order.data, shift=order.asked.get("shiftHeadings") is True)
            )
        except (Untaggable, Unreadable) as error:
            return {}, _error(400, "BAD_PDF", f"Unable to process the input: it is damaged or protected. {error}")
        made = {"tagged-pdf": (PDF, content)}
        if order.asked.get("generateReport") is True:
            made["report"] = (SHEET, report(order.pages))
        return made, None

    def _tag(self, data: bytes, *, shift: bool) -> bytes:
        pages = self._reader.pages(data)
        code, _ = language(next((page.text for page in pages if page.text), ""))
        return tagged(data, language="en-US" if code == "und" else code, shift_headings=shift)


def described(job: Job, storage: Storage, base: str) -> dict[str, Any]:
    """A job as its status and its notice tell of it."""
    content: dict[str, Any] = {"status": job.status}
    if job.error is not None:
        content["error"] = job.error
    for name, asset in job.results.items():
        content[name] = _result(asset, storage, base)
    return content


def _result(asset: Asset, storage: Storage, base: str) -> dict[str, Any]:
    return {
        "metadata": {"type": asset.media_type, "size": len(asset.data or b"")},
        "downloadUri": storage.address(asset, "GET", base),
        "assetID": asset.id,
    }


def _error(status: int, code: str, message: str) -> dict[str, Any]:
    return {"status": status, "code": code, "message": message}


async def _tell(notifier: Mapping[str, Any], content: dict[str, Any]) -> None:
    """Once, and only on this machine: the address comes from a request."""
    data = notifier.get("data") or {}
    url = str(data.get("url", ""))
    if notifier.get("type") != "CALLBACK" or urlsplit(url).hostname not in _LOOPBACK:
        return
    headers = {str(name): str(value) for name, value in (data.get("headers") or {}).items()}
    try:
        async with httpx2.AsyncClient(timeout=_TOLD_WITHIN_S, trust_env=False) as client:
            await client.post(url, json=content, headers=headers)
    except httpx2.HTTPError:
        return
