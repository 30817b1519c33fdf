"""The application of the run: handlers that end in every way and write down what a provider would have seen."""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.journal import Journal
from forebay import failpoint
from forebay.app.forebay import Forebay
from forebay.engine.context import Context
from forebay.engine.signals import Permanent, Reschedule, Retry
from forebay.stores.base import Ledger

if TYPE_CHECKING:
    from forebay.settings import Settings

JOURNAL = "CHAOS_JOURNAL"
LIFE = "CHAOS_LIFE"
TARGET = "chaos.engine.app:app"
MAX_RETRIES = 2
LARGE = "." * 4096

Result = dict[str, Any]


@cache
def _journal() -> Journal:
    return Journal(Path(os.environ[JOURNAL]))


def note(event: str, ctx: Context, **more: object) -> None:
    life = os.environ.get(LIFE, "")
    _journal().note(event, id=ctx.task_id, token=ctx.token, attempt=ctx.attempt, pid=os.getpid(), life=life, **more)


def sent(ctx: Context) -> None:
    note("sent", ctx)
    failpoint.reach("request_sent")


def result(ctx: Context, number: int, **more: object) -> Result:
    """Carries its token, so that the judge knows whose work was recorded."""
    note("end", ctx)
    return {"task": ctx.task_id, "token": ctx.token, "number": number, **more}


async def _call(ctx: Context, ms: int) -> None:
    note("begin", ctx)
    await asyncio.sleep(ms / 2000)
    sent(ctx)
    await asyncio.sleep(ms / 2000)


def _blocking_call(ctx: Context, ms: int) -> None:
    note("begin", ctx)
    time.sleep(ms / 2000)
    sent(ctx)
    time.sleep(ms / 2000)


async def quick(ctx: Context, *, number: int, ms: int) -> Result:
    await _call(ctx, ms)
    return result(ctx, number)


async def large(ctx: Context, *, number: int, ms: int) -> Result:
    await _call(ctx, ms)
    return result(ctx, number, filling=LARGE)


def block(ctx: Context, *, number: int, ms: int) -> Result:
    _blocking_call(ctx, ms)
    return result(ctx, number)


def render(ctx: Context, *, number: int, ms: int) -> Result:
    _blocking_call(ctx, ms)
    return result(ctx, number, filling=LARGE)


async def later(ctx: Context, *, number: int, ms: int, times: int, filling: str = "") -> Result:
    await _call(ctx, ms)
    if ctx.reschedule_count < times:
        note("end", ctx)
        raise Reschedule("not yet", delay_s=0.05)
    return result(ctx, number, filling=filling)


async def flaky(ctx: Context, *, number: int, ms: int, times: int, filling: str = "") -> Result:
    await _call(ctx, ms)
    if ctx.retry_count < times:
        note("end", ctx)
        raise Retry("by chance", delay_s=0.05)
    return result(ctx, number, filling=filling)


def refuse(ctx: Context, *, number: int, ms: int) -> Result:
    _blocking_call(ctx, ms)
    note("end", ctx)
    raise Permanent(f"number {number} is refused")


def stuck(ctx: Context, *, number: int, ms: int) -> Result:
    """Longer than its timeout, and deaf to every plea."""
    _blocking_call(ctx, ms)
    time.sleep(60)
    return result(ctx, number)


async def split(ctx: Context, *, numbers: list[int], ms: int) -> list[Result]:
    await _call(ctx, ms)
    note("end", ctx)
    return [{"number": number, "ms": ms, "split_token": ctx.token} for number in numbers]


async def page(ctx: Context, *, number: int, ms: int, split_token: int) -> Result:
    await _call(ctx, ms)
    return result(ctx, number, split_token=split_token, filling=LARGE if number % 2 else "")


def bind(ctx: Context, *, numbers: list[int], ms: int) -> Result:
    _blocking_call(ctx, ms)
    parts = [[chunk.index, _brief(chunk.result)] for chunk in ctx.chunks()]
    return result(ctx, len(numbers), parts=parts)


def scan(ctx: Context, *, number: int, ms: int) -> Result:
    _blocking_call(ctx, ms)
    if number % 7 == 0:
        note("end", ctx)
        raise Permanent(f"number {number} is blank")
    return result(ctx, number)


async def gather(ctx: Context, *, number: int) -> Result:
    await _call(ctx, 10)
    parts = [[chunk.index, _brief(chunk.result)] async for chunk in ctx.chunks()]
    return result(ctx, number, parts=parts)


def _brief(made: object) -> list[object] | None:
    return [made["task"], made["token"], made["number"]] if isinstance(made, dict) else None


def build(ledger: Ledger | None = None, settings: Settings | None = None) -> Forebay:
    made = Forebay(ledger, settings=settings)
    for handler in (quick, large, block, render, later, flaky, refuse):
        made.task(handler.__name__, timeout_s=4, max_retries=MAX_RETRIES)(handler)
    made.task("stuck", timeout_s=1, max_retries=1)(stuck)
    pages = made.pipeline("pages")
    pages.split(timeout_s=4, max_retries=MAX_RETRIES)(split)
    pages.process(timeout_s=4, max_retries=MAX_RETRIES)(page)
    pages.merge(timeout_s=4, max_retries=MAX_RETRIES)(bind)
    scans = made.pipeline("scans", allow_holes=True)
    scans.process(timeout_s=4, max_retries=MAX_RETRIES)(scan)
    scans.merge(timeout_s=4, max_retries=MAX_RETRIES)(gather)
    return made


app = build()
