"""The application of the run: handlers that call a provider under limits in every way, and some that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.engine import app as engine
from chaos.engine.app import LARGE, MAX_RETRIES, Result, note, result
from chaos.fleet import calls
from chaos.fleet.promised import BEAT_S, CALL_S, LEASE_S, NARROW, PACED, RULES, START_S, TRANSIT_S
from forebay.app.forebay import Forebay
from forebay.engine.context import Context
from forebay.engine.registry import KindOptions
from forebay.model.limit import Limit, Window
from forebay.stores.base import Ledger

if TYPE_CHECKING:
    from forebay.settings import Settings

TARGET = "chaos.fleet.app:app"
_TIMEOUT_S = 4


async def quick(ctx: Context, *, number: int, ms: int) -> Result:
    note("begin", ctx)
    await calls.acall(ctx, NARROW, ms)
    return result(ctx, number)


async def large(ctx: Context, *, number: int, ms: int, pages: int) -> Result:
    note("begin", ctx)
    await calls.acall(ctx, PACED, ms, pages)
    return result(ctx, number, filling=LARGE)


async def several(ctx: Context, *, number: int, ms: int, pages: list[int]) -> Result:
    note("begin", ctx)
    for count in pages:
        async with calls.slot(ctx, count):
            await calls.acall(ctx, PACED, ms, count)
    return result(ctx, number, filling=LARGE)


def block(ctx: Context, *, number: int, ms: int) -> Result:
    note("begin", ctx)
    calls.call(ctx, NARROW, ms)
    return result(ctx, number)


def steps(ctx: Context, *, number: int, ms: int, pages: list[int]) -> Result:
    note("begin", ctx)
    for count in pages:
        with calls.slot(ctx, count):
            calls.call(ctx, PACED, ms, count)
    return result(ctx, number, filling=LARGE)


async def page(ctx: Context, *, number: int, ms: int, split_token: int) -> Result:
    note("begin", ctx)
    await calls.acall(ctx, NARROW, ms)
    return result(ctx, number, split_token=split_token, filling=LARGE if number % 2 else "")


def _pages(*, pages: int, **_: object) -> dict[str, int]:
    return {"pages": pages}


def _limit(name: str) -> Limit:
    rules = RULES[name]
    return Limit(
        name,
        in_flight=rules.in_flight,
        windows=[Window(window.n, per_s=window.window_s, unit="pages") for window in rules.windows],
        call_timeout_s=CALL_S,
        lease_s=LEASE_S,
        heartbeat_s=BEAT_S,
        start_within_s=START_S,
        transit_s=TRANSIT_S,
    )


def _under(limit: str, **more: object) -> KindOptions:
    """Without a limit where somebody has broken it: the handlers see to it themselves, or nobody does."""
    options: KindOptions = {"timeout_s": _TIMEOUT_S, "max_retries": MAX_RETRIES}
    return options if calls.broken() else options | {"limit": limit, **more}  # type: ignore[return-value]


def build(ledger: Ledger | None = None, settings: Settings | None = None) -> Forebay:
    made = Forebay(ledger, settings=settings)
    for name in RULES:
        made.limit(_limit(name))
    for handler in (quick, block):
        made.task(handler.__name__, **_under(NARROW))(handler)
    made.task("large", **_under(PACED, units=_pages))(large)
    for caller in (several, steps):
        made.task(caller.__name__, **_under(PACED, slot="call"))(caller)
    for free in (engine.later, engine.flaky, engine.refuse):
        made.task(free.__name__, timeout_s=_TIMEOUT_S, max_retries=MAX_RETRIES)(free)
    pages = made.pipeline("pages")
    pages.split(timeout_s=_TIMEOUT_S, max_retries=MAX_RETRIES)(engine.split)
    pages.process(**_under(NARROW))(page)
    pages.merge(timeout_s=_TIMEOUT_S, max_retries=MAX_RETRIES)(engine.bind)
    return made


app = build()
