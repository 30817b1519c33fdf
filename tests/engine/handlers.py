"""An application for the tests of the engine; its ledger and blobs come from the environment."""

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from forebay import Context, Forebay, Permanent, Reschedule, Retry

app = Forebay(os.environ.get("TEST_LEDGER"), blobs=os.environ.get("TEST_BLOBS"))
NOTES = Path(os.environ.get("TEST_NOTES", "/nonexistent"))


def note(text: str) -> None:
    with NOTES.open("a") as file:
        file.write(f"{text}\n")


def wait_for_file(name: str) -> None:
    while not NOTES.with_name(name).exists():
        time.sleep(0.02)


@app.task("echo")
async def echo(ctx: Context, value: object = None) -> object:
    return value


@app.task("echo_blocking")
def echo_blocking(ctx: Context, value: object = None) -> object:
    return value


@app.task("large")
async def large(ctx: Context, size: int) -> str:
    return "x" * size


@app.task("large_blocking")
def large_blocking(ctx: Context, size: int) -> bytes:
    return b"x" * size


@app.task("throttled", max_reschedules=100)
async def throttled(ctx: Context, times: int) -> int:
    if ctx.reschedule_count < times:
        raise Reschedule("429 from the provider", delay_s=0)
    return ctx.reschedule_count


@app.task("flaky")
async def flaky(ctx: Context, times: int) -> int:
    if ctx.retry_count < times:
        raise Retry("not this time", delay_s=0)
    return ctx.attempt


@app.task("hopeless")
async def hopeless(ctx: Context) -> None:
    raise Permanent("no PDF at all", error_class="invalid_pdf")


@app.task("broken")
def broken(ctx: Context) -> None:
    raise ZeroDivisionError("a bug in a handler")


@app.task("sleeps", timeout_s=60)
async def sleeps(ctx: Context, seconds: float) -> str:
    note(f"began {ctx.task_id}")
    await asyncio.sleep(seconds)
    return "slept"


@app.task("stubborn", timeout_s=0.2, max_retries=0)
async def stubborn(ctx: Context) -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            note("refused to be cancelled")


@app.task("wedges", timeout_s=60)
async def wedges(ctx: Context) -> int:
    note(f"began {ctx.task_id}")
    if ctx.token == 1:
        time.sleep(3.5)  # noqa: ASYNC251 - the fault that is tested
    return ctx.token


@app.task("always_wedges", timeout_s=60)
async def always_wedges(ctx: Context) -> None:
    time.sleep(2.6)  # noqa: ASYNC251 - the fault that is tested


@app.task("sleeps_blocking", timeout_s=60)
def sleeps_blocking(ctx: Context, seconds: float) -> str:
    note(f"began {ctx.task_id}")
    time.sleep(seconds)
    return "slept"


@app.task("shells", timeout_s=60)
def shells(ctx: Context) -> None:
    grandchild = subprocess.Popen(["sleep", "600"])
    note(f"grandchild {grandchild.pid}")
    note(f"began {ctx.task_id}")
    ctypes.PyDLL(None).sleep(600)


@app.task("forks", timeout_s=10, max_retries=0)
def forks(ctx: Context, number: int) -> str:
    note(f"ran {number} {os.getpid()}")
    if number == 2 and os.fork() == 0:
        time.sleep(0.1)
        return "from the fork"
    time.sleep(0.05)
    return f"result of {number}"


@app.task("leaves_a_thread", timeout_s=10)
def leaves_a_thread(ctx: Context) -> str:
    def late() -> None:
        time.sleep(0.5)
        ctx.used("calls", "calls", 7)
        ctx.progress(0.9, "too late")
        note("spoke too late")

    threading.Thread(target=late, daemon=True).start()
    return "gone ahead"


@app.task("checks", timeout_s=60)
def checks(ctx: Context) -> None:
    note(f"began {ctx.task_id}")
    try:
        while True:
            ctx.checkpoint()
            time.sleep(0.01)
    finally:
        note(f"pid {os.getpid()} stopped at a checkpoint")


@app.task("stuck", timeout_s=2, max_retries=0)
def stuck(ctx: Context) -> None:
    """In a C call, deaf to SIGTERM, with a grandchild that went away into a session of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    deaf = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.setsid(); time.sleep(600)"
    grandchild = subprocess.Popen([sys.executable, "-I", "-S", "-c", deaf], env={})
    daemon = f"import os, sys; os.fork() and sys.exit(); os.setsid(); {deaf.replace('os.setsid(); ', '')}"
    subprocess.run([sys.executable, "-I", "-S", "-c", daemon], env={}, check=True)
    note(f"pids {os.getpid()} {grandchild.pid}")
    ctypes.PyDLL(None).sleep(600)  # keeps the interpreter's lock: no Python code of this process runs any more


@app.task("hog", timeout_s=30, max_retries=1)
def hog(ctx: Context) -> None:
    note(f"hog {os.getpid()}")
    kept = []
    while True:
        kept.append(bytearray(16 * 1024 * 1024))


@app.task("crash", max_retries=1)
def crash(ctx: Context) -> None:
    note(f"crash {os.getpid()}")
    os.kill(os.getpid(), signal.SIGSEGV)


@app.task("ends_slowly", max_retries=0)
def ends_slowly(ctx: Context) -> None:
    """As a large process on a busy machine: its connection is closed long before it has ended."""
    for descriptor in [*Path("/proc/self/fd").iterdir()]:
        if descriptor.exists() and descriptor.is_socket():
            socket.socket(fileno=os.dup(int(descriptor.name))).shutdown(socket.SHUT_RDWR)
    time.sleep(0.3)
    os._exit(3)


@app.task("burns", timeout_s=30, max_retries=0)
def burns(ctx: Context) -> None:
    while True:
        pass


@app.task("told")
async def told(ctx: Context) -> dict[str, object]:
    ctx.progress(0.5, "half")
    ctx.used("pages", "pages", 3)
    return {"attempt": ctx.attempt, "tenant": ctx.tenant, "remaining": ctx.remaining_s, "tags": list(ctx.tags)}


@app.task("reports", timeout_s=60)
async def reports(ctx: Context, notes: list[str]) -> None:
    for number, text in enumerate(notes, 1):
        ctx.progress(number / (len(notes) + 1), text)
        await asyncio.to_thread(wait_for_file, f"after {text}")


@app.task("reports_blocking", timeout_s=60)
def reports_blocking(ctx: Context, notes: list[str]) -> None:
    for number, text in enumerate(notes, 1):
        ctx.progress(number / (len(notes) + 1), text)
        wait_for_file(f"after {text}")


@app.task("pays", timeout_s=2, max_retries=0)
async def pays(ctx: Context) -> None:
    ctx.used("pages", "pages", 2)
    await asyncio.sleep(30)


@app.task("pays_blocking", timeout_s=2, max_retries=0)
def pays_blocking(ctx: Context) -> None:
    ctx.used("pages", "pages", 3)
    time.sleep(30)


@app.task("exits")
def exits(ctx: Context) -> None:
    sys.exit(3)


@app.task("not_json")
async def not_json(ctx: Context) -> object:
    return {1, 2, 3}


words = app.pipeline("words")


@words.split()
async def split(ctx: Context, text: str) -> list[dict[str, object]]:
    return [{"line": line} for line in text.splitlines()]


@words.process(max_retries=0)
async def count(ctx: Context, line: str) -> int:
    if line == "bad":
        raise Permanent("a bad line")
    return len(line.split())


@words.merge()
async def merge(ctx: Context, text: str) -> dict[str, object]:
    counts = [chunk.result async for chunk in ctx.chunks()]
    return {"counts": counts, "characters": len(text)}


heavy = app.pipeline("heavy", allow_holes=True)


@heavy.process(max_retries=0)
def grow(ctx: Context, size: int) -> str:
    if size < 0:
        raise Permanent("negative")
    return "y" * size


@heavy.merge()
def total(ctx: Context, base: int) -> list[object]:
    return [
        base,
        *(len(chunk.result) if isinstance(chunk.result, str) else chunk.error_class for chunk in ctx.chunks()),
    ]


halves = app.pipeline("halves")


@halves.split()
def halve(ctx: Context, numbers: list[int]) -> list[int]:
    return numbers


@halves.process()
def half(ctx: Context, number: int) -> float:
    return number / 2
