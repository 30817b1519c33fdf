"""An application whose handlers call a limited API; its ledger and limits come from the environment."""

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from forebay import Context, Forebay, Limit, Retry, Window
from forebay.errors import Conflict

app = Forebay(os.environ.get("TEST_LEDGER"), blobs=os.environ.get("TEST_BLOBS"))
NOTES = Path(os.environ.get("TEST_NOTES", "/nonexistent"))
app.limit(Limit("api", in_flight=2, cooldown_s=(0.5, 1.0), breaker_after=3))
app.limit(Limit("stops", in_flight=2, on_disconnect="stops"))
app.limit(Limit("goes-on", in_flight=2, call_timeout_s=4.0))
app.limit(Limit("pages", in_flight=10, windows=[Window(10, per_s=60, unit="pages")]))


def note(text: str) -> None:
    with NOTES.open("a") as file:
        file.write(f"{text}\n")


def meet() -> None:
    """Until another one has begun, too."""
    while NOTES.read_text().splitlines().count("begin") < 2:
        time.sleep(0.01)


def meet_note(text: str) -> None:
    while text not in NOTES.read_text().splitlines():
        time.sleep(0.01)


@app.task("free_blocking")
def free_blocking(ctx: Context) -> None:
    note("free")


@app.task("free")
async def free(ctx: Context) -> None:
    note("free")


@app.task("call", limit="api")
async def call(ctx: Context, wait_s: float = 0.05, *, meets: bool = False) -> None:
    note("begin")
    if meets:
        await asyncio.to_thread(meet)
    await asyncio.sleep(wait_s)
    note("end")


@app.task("call_blocking", limit="api")
def call_blocking(ctx: Context, wait_s: float = 0.05, *, meets: bool = False) -> None:
    note("begin")
    if meets:
        meet()
    time.sleep(wait_s)
    note("end")


@app.task("several", limit="api", slot="call", timeout_s=1.0)
async def several(ctx: Context, times: int = 3, wait_s: float = 0.05, *, meets: bool = False) -> float:
    for _ in range(times):
        async with ctx.slot():
            note("begin")
            if meets:
                await asyncio.to_thread(meet)
            await asyncio.sleep(wait_s)
            note("end")
    return ctx.remaining_s


@app.task("several_blocking", limit="api", slot="call", timeout_s=2.0)
def several_blocking(ctx: Context, times: int = 3, wait_s: float = 0.05, *, meets: bool = False) -> float:
    for _ in range(times):
        with ctx.slot() as slot:
            slot.start()
            note("begin")
            if meets:
                meet()
            time.sleep(wait_s)
            note("end")
    return ctx.remaining_s


# Claimed for the slots of one limit, these wait for a slot of another.
@app.task("impatient", limit="stops", slot="call")
async def impatient(ctx: Context) -> str:
    async with ctx.slot("api", timeout_s=0.2):
        return "served"


@app.task("impatient_blocking", limit="stops", slot="call")
def impatient_blocking(ctx: Context) -> str:
    with ctx.slot("api", timeout_s=0.2):
        return "served"


@app.task("asks", limit="stops", slot="call", timeout_s=1.0)
async def asks(ctx: Context) -> float:
    async with ctx.slot("api"):
        return ctx.remaining_s


@app.task("asks_blocking", limit="stops", slot="call", timeout_s=2.0)
def asks_blocking(ctx: Context) -> float:
    with ctx.slot("api"):
        return ctx.remaining_s


@app.task("twice", limit="api")
async def twice(ctx: Context) -> None:
    async with ctx.slot():
        note("twice")


@app.task("twice_blocking", limit="api", slot="call")
def twice_blocking(ctx: Context) -> None:
    with ctx.slot(), ctx.slot():
        note("twice")


@app.task("asks_in_threads", limit="stops", slot="call")
def asks_in_threads(ctx: Context) -> list[str]:
    def enter(limit: str) -> str:
        with ctx.slot(limit) as slot:
            note(f"in {slot.limit}")
            return str(slot.limit)

    with ThreadPoolExecutor(2) as pool:
        waits = pool.submit(enter, "api")
        return [*pool.map(enter, ["stops"] * 20), waits.result()]


@app.task("leaves_a_question", limit="stops", slot="call")
def leaves_a_question(ctx: Context) -> None:
    def ask() -> None:
        note("asks")
        try:
            with ctx.slot("api"):
                note("entered too late")
        except Conflict as error:
            note(error.what)

    threading.Thread(target=ask, daemon=True).start()
    meet_note("asks")


@app.task("answers", limit="api", max_retries=10)
async def answers(ctx: Context, error_class: str, delay_s: float | None = None) -> str:
    if ctx.attempt == 1:
        raise Retry("what the API said", error_class=error_class, delay_s=delay_s)
    return "well"


@app.task("answers_inside", limit="api", slot="call")
def answers_inside(ctx: Context, error_class: str) -> str:
    if ctx.attempt == 1:
        with ctx.slot():
            raise Retry("what the API said", error_class=error_class)
    return "well"


@app.task("unwell", limit="api", max_retries=10)
async def unwell(ctx: Context) -> None:
    raise Retry("503", error_class="service_unavailable", delay_s=0)


@app.task("pages", limit="pages", units=lambda pages: {"pages": pages})
async def pages(ctx: Context, pages: int) -> int:
    note(f"pages {pages}")
    return pages


def leave(**_: object) -> dict[str, int]:
    raise SystemExit(3)


@app.task("leaves", limit="api", units=leave)
async def leaves(ctx: Context) -> None:
    note("left")


@app.task("hangs", limit="stops", timeout_s=0.3, max_retries=0)
def hangs(ctx: Context) -> None:
    time.sleep(60)


@app.task("hangs_on", limit="goes-on", timeout_s=3.0, max_retries=0)
async def hangs_on(ctx: Context) -> None:
    note(f"called {time.monotonic()}")
    await asyncio.sleep(60)


@app.task("hangs_on_inside", limit="goes-on", slot="call", timeout_s=3.0, max_retries=0)
def hangs_on_inside(ctx: Context) -> None:
    with ctx.slot():
        note(f"called {time.monotonic()}")
        time.sleep(60)
