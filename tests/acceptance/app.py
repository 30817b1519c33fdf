"""The application of the acceptance tests: every chunk is one call to the provider, which is all that limits see."""

import asyncio
import json
import os
import time
from typing import Any

from chaos.limits.controls import CalendarWindow, CountThenAdd, Polling
from forebay import Context, Forebay, Limit, Retry, Window

TERMS: dict[str, Any] = json.loads(os.environ.get("ACCEPTANCE_TERMS", '{"in_flight": 5}'))
PORT = int(os.environ.get("ACCEPTANCE_PORT", "0"))
CONTROL = os.environ.get("ACCEPTANCE_CONTROL", "")

app = Forebay()


def limit() -> Limit:
    windows = [Window(n, per_s=per_s) for n, per_s in TERMS.get("windows", ())]
    rest = {name: value for name, value in TERMS.items() if name not in {"windows", "poll_s", "prefix"}}
    return Limit("api", windows=windows, **rest)


def control() -> Polling | None:
    """A limiter of the usual broken sort, in the place of ours."""
    kinds: dict[str, type[CountThenAdd | CalendarWindow]]
    kinds = {"count_then_add": CountThenAdd, "calendar_window": CalendarWindow}
    return kinds[CONTROL](os.environ["ACCEPTANCE_REDIS"], TERMS) if CONTROL else None


async def answered(work_s: float) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    try:
        call = {"limit": "api", "work_s": work_s, "who": str(os.getpid()), "sent": time.monotonic()}
        writer.write(json.dumps(call).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionError("the provider hung up")
    answer: dict[str, Any] = json.loads(line)
    return answer


async def call(work_s: float) -> int:
    answer = await answered(work_s)
    if answer["status"] == 429:
        raise Retry("429 from the provider", error_class="rate_limited", delay_s=answer["retry_after_s"] or None)
    if answer["status"] >= 500:
        raise Retry(f"{answer['status']} from the provider", error_class="service_unavailable", delay_s=0.0)
    return int(answer["status"])


pages = app.pipeline("pages")
broken = control()

if broken is None:
    app.limit(limit())

    @pages.process(limit="api")
    async def process(ctx: Context, work_s: float) -> int:
        return await call(work_s)

else:

    @pages.process()
    async def process(ctx: Context, work_s: float) -> int:
        assert broken is not None
        async with broken.aslot():
            return await call(work_s)


@pages.merge()
async def merge(ctx: Context) -> int:
    return sum([1 async for _ in ctx.chunks()])
