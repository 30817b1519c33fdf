"""The processor that has Adobe PDF Services tag the pages: asset, upload, job, polls, download."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from forebay.engine.context import Context
from forebay.engine.registry import SlotAt
from forebay.engine.signals import Permanent, Reschedule, Retry, Signal
from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.payload import Json
from forebay.processors import origins
from forebay.processors.adobe_errors import failure, is_gone, judged, judged_storage, judged_submit
from forebay.processors.adobe_token import Client, Token
from forebay.processors.base import Chunk, Pace, Price
from forebay.processors.messages import Judge, Refusal, Reply, Request, Stream
from forebay.processors.transport import Transport
from forebay.rules.verdict import ErrorClass

URL: Final = "https://pdf-services.adobe.io"
GATEWAYS: Final = ("pdf-services.adobe.io", "pdf-services-ue1.adobe.io", "pdf-services-ew1.adobe.io")
STORAGE: Final = (".amazonaws.com", ".adobe.io", ".adobe.com")
LIMIT: Final = "adobe"
PDF: Final = "application/pdf"
_OPTIONS: Final[dict[str, Json]] = {"shift_headings": False}
_MAX_REPLY: Final = 512 * 1024 * 1024
_MAX_JSON: Final = 1024 * 1024
_TRANSFER_S: Final = 300.0
_PIECE: Final = 1 << 20
_LEAST_S: Final = 0.1
_FIRST_S: Final = 1.0
_LONGEST_S: Final = 30.0
_SHARE: Final = 0.2  # of the time that a job has taken up to now, until it is looked at again
_OK: Final = 200


class Adobe:
    """A chunk's job outlives the attempt that began it: later ones ask what became of it, and pay for nothing."""

    name = "adobe"
    pipeline = "autotag"
    version = "1"
    max_pages = 150  # of scans; 200 of others would be taken
    max_bytes = 100_000_000
    page_units: tuple[float, float] | None = (6 * 72.0, 17.5 * 72.0)
    limit: str | None = LIMIT
    slot: SlotAt = "call"
    timeout_s = 900.0
    pace: Pace | None = None
    price = Price(calls=3, per_page={"transactions": 10})

    def __init__(self, client: Client, *, transport: Callable[[], Transport], url: str = URL) -> None:
        self._url = url.rstrip("/")
        self._home = origins.origin(url)
        self._transport = transport
        self._token = Token(url, client, transport=transport, limit=LIMIT)

    def units(self, chunk: Chunk) -> dict[str, int] | None:  # noqa: ARG002 - each call is one
        return None

    def checked(self, options: Mapping[str, Any]) -> dict[str, Json]:
        """Whether headings begin at the second level."""
        unknown = sorted(options.keys() - _OPTIONS.keys())
        if unknown:
            raise BadInput(
                f"Processor 'adobe' has no option {shown(unknown[0])}.", remedy=f"It has {', '.join(_OPTIONS)}."
            )
        given = _OPTIONS | dict(options)
        if not isinstance(given["shift_headings"], bool):
            raise BadInput(f"shift_headings is {shown(given['shift_headings'])}.", remedy="Give true or false.")
        return given

    async def process(self, ctx: Context, chunk: Chunk) -> bytes:
        """Reschedule as long as Adobe works on it."""
        job = chunk.under_way.job
        if job is None:
            raise await self._begun(ctx, chunk)
        location = str(job["location"])
        if not self._is_ours(location):
            await chunk.under_way.end("elsewhere")
            raise Reschedule("Its job is at another address than the one that is set: it starts over", delay_s=0)
        reply = await self._polled(ctx, chunk, location)
        if is_gone(reply):
            raise await _over(chunk, "its job")
        done: Any = reply.json if isinstance(reply.json, dict) else {}
        if done.get("status") == "in progress":
            took_s = max(0.0, time.time() - float(job["at"]))  # type: ignore[arg-type]  # written below
            raise Reschedule(f"Adobe has worked on it for {took_s:.0f} s", delay_s=_pause_s(reply.hint_s, took_s))
        asset = done.get("tagged-pdf")
        if done.get("status") != "done" or not isinstance(asset, dict):
            raise _bad(f"its job is {shown(done.get('status'))}")
        return await self._downloaded(ctx, chunk, asset)

    async def _begun(self, ctx: Context, chunk: Chunk) -> Reschedule:
        size = os.fstat(chunk.file.fileno()).st_size
        if size > self.max_bytes:
            raise Permanent(f"It has {size} bytes: Adobe takes {self.max_bytes}.", error_class=ErrorClass.REPLAN)
        reply = await self._call(ctx, Request.of_json("POST", f"{self._url}/assets", {"mediaType": PDF}))
        made: Any = reply.json if isinstance(reply.json, dict) else {}
        if not isinstance(made.get("assetID"), str):
            raise _bad("it names no asset")
        await self._upload(ctx, chunk.file.fileno(), size, self._followed(made.get("uploadUri")))
        asked = {"assetID": made["assetID"], "shiftHeadings": chunk.options.get("shift_headings") is True}
        reply = await self._call(
            ctx, Request.of_json("POST", f"{self._url}/operation/autotag", asked), judge=judged_submit
        )
        location = reply.headers["location"]
        if not self._is_ours(location):
            raise _bad("its job is at an address that is not Adobe's")
        await chunk.under_way.begin({"location": location, "at": time.time()})
        return Reschedule("Adobe works on it", delay_s=_pause_s(reply.hint_s, 0.0))

    async def _upload(self, ctx: Context, fd: int, size: int, url: str) -> None:
        def pieces() -> Iterator[bytes]:
            for offset in range(0, size, _PIECE):
                yield os.pread(fd, _PIECE, offset)

        request = Request(method="PUT", url=url, headers={"content-type": PDF}, body=Stream(size, pieces))
        reply = await self._stored(ctx, request)
        if reply.status // 100 != _OK // 100:
            raise _bad(f"the link for the upload gives {reply.status}")

    async def _polled(self, ctx: Context, chunk: Chunk, location: str) -> Reply:
        ended: list[str] = []

        def judge(reply: Reply) -> Refusal | None:
            # Within the call's slot: a quota that is used up has to reach the limit, whoever says so.
            failed = failure(reply)
            if failed is not None:
                ended.append(failed[0])
                return failed[1]
            return None if is_gone(reply) else judged(reply)

        try:
            return await self._call(ctx, Request(method="GET", url=location), judge=judge)
        except Signal:
            if ended:
                await chunk.under_way.end(ended[0])
            raise

    async def _downloaded(self, ctx: Context, chunk: Chunk, asset: dict[str, Any]) -> bytes:
        """A link that is over is asked for once more; an asset is there for a day."""
        reply = await self._stored(ctx, Request(method="GET", url=self._followed(asset.get("downloadUri"))))
        if reply.status != _OK:
            address = f"{self._url}/assets/{quote(str(asset.get('assetID', '')), safe='')}"
            found = await self._call(
                ctx,
                Request(method="GET", url=address),
                judge=lambda reply: None if is_gone(reply) else judged(reply),
            )
            if is_gone(found):
                raise await _over(chunk, "what it made")
            fresh: Any = found.json if isinstance(found.json, dict) else {}
            reply = await self._stored(ctx, Request(method="GET", url=self._followed(fresh.get("downloadUri"))))
        told: Any = asset.get("metadata")
        size = told.get("size") if isinstance(told, dict) else None
        if reply.status != _OK or not reply.body.startswith(b"%PDF-") or size not in {None, len(reply.body)}:
            raise _bad(f"{len(reply.body)} bytes came with status {reply.status}, which are not the tagged pages")
        return reply.body

    async def _call(self, ctx: Context, request: Request, *, judge: Judge = judged) -> Reply:
        """Of the gateway: each is counted."""
        return await self._transport().call(
            ctx,
            request,
            limit=LIMIT,
            meter=LIMIT,
            judge=judge,
            credentials=self._token.of(ctx, request.url),
            max_reply=_MAX_JSON,
        )

    async def _stored(self, ctx: Context, request: Request) -> Reply:
        """Of the storage behind it, by a signed link: nothing of ours goes along."""
        return await self._transport().call(
            ctx, request, limit=None, judge=judged_storage, timeout_s=_TRANSFER_S, max_reply=_MAX_REPLY
        )

    def _followed(self, url: object) -> str:
        return origins.followed(url, hosts=STORAGE, home=self._home)

    def _is_ours(self, url: str) -> bool:
        """Whether our credentials may go there: where we were told to, or, from Adobe, to another of its regions."""
        try:
            there = origins.origin(url)
        except BadInput:
            return False
        regions = {f"https://{host}:443" for host in GATEWAYS}
        return there == self._home or (self._home in regions and there in regions)


async def _over(chunk: Chunk, what: str) -> Retry:
    """Adobe keeps things for a day: it begins again, which costs a retry, and is paid and booked again."""
    await chunk.under_way.end("expired")
    return Retry(f"Adobe no longer has {what}: it starts over", error_class=ErrorClass.INTERNAL_ERROR, delay_s=0)


def _pause_s(hint_s: float | None, took_s: float) -> float:
    """The longer a job takes, the less often it is asked for: polls are calls, too."""
    least_s = _FIRST_S if hint_s is None else max(_LEAST_S, hint_s)
    return max(least_s, min(_LONGEST_S, _SHARE * took_s))


def _bad(what: str) -> Retry:
    return Retry(f"Adobe's answer cannot be used: {what}.", error_class=ErrorClass.BAD_RESPONSE)
