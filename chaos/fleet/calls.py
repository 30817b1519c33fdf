"""Calls of the provider, as handlers make them: with what they say of themselves, and what a 429 means."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import cache
from typing import Any

from chaos.engine import app
from chaos.fleet.promised import RULES
from chaos.limits.adapter import Settings
from chaos.limits.controls import CalendarWindow, CountThenAdd, Polling
from chaos.limits.lines import AsyncLine, Line, Message
from forebay.engine.context import Context
from forebay.engine.signals import Retry

PROVIDER = "CHAOS_PROVIDER"
BROKEN = "CHAOS_BROKEN_LIMITS"
"""What stands in the limiter's place in a run that must be convicted: nothing, or one of the usual mistakes."""
_CONTROLS: dict[str, Callable[[str, Settings], Polling]] = {"count-then-add": CountThenAdd, "calendar": CalendarWindow}


def broken() -> str:
    return os.environ.get(BROKEN, "")


def _message(limit: str, ms: int, pages: int) -> Message:
    who = os.environ.get(app.LIFE, "")
    return {"limit": limit, "work_s": ms / 1000, "units": pages, "who": who, "sent": time.monotonic()}


def _heard(ctx: Context, answer: Message) -> None:
    if answer["status"] == 429:
        app.note("refused", ctx, call=answer["call"])
        raise Retry("too many", error_class="rate_limited", delay_s=answer["retry_after_s"])


async def acall(ctx: Context, limit: str, ms: int, pages: int = 1) -> None:
    line = await AsyncLine.to(os.environ[PROVIDER])
    try:
        async with _acontrolled(limit):
            line.tell(_message(limit, ms, pages))
            app.sent(ctx)
            _heard(ctx, await line.hear())
    finally:
        line.close()


def call(ctx: Context, limit: str, ms: int, pages: int = 1) -> None:
    with Line(os.environ[PROVIDER]) as line, _controlled(limit):
        line.tell(_message(limit, ms, pages))
        app.sent(ctx)
        _heard(ctx, line.hear())


def slot(ctx: Context, pages: int) -> Any:  # noqa: ANN401 - for `with` or `async with`, as the context's own
    return nullcontext() if broken() else ctx.slot(units={"pages": pages})


@cache
def _control(limit: str) -> Polling | None:
    kind = _CONTROLS.get(broken())
    if kind is None:
        return None
    rules = RULES[limit]
    windows = [[window.n, window.window_s] for window in rules.windows] or [[10_000, 1.0]]
    settings = {"prefix": f"chaos-{limit}:", "in_flight": rules.in_flight, "windows": windows, "ttl_s": 5}
    return kind(os.environ["FOREBAY_LIMITS"], settings)


@contextmanager
def _controlled(limit: str) -> Iterator[None]:
    control = _control(limit)
    with nullcontext() if control is None else control.slot():
        yield


@asynccontextmanager
async def _acontrolled(limit: str) -> AsyncIterator[None]:
    control = _control(limit)
    async with nullcontext() if control is None else control.aslot():
        yield
