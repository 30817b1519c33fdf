"""An application whose blobs, and whose calls, take as long as a test wants."""

import asyncio
import os
import time
from pathlib import Path

from forebay import Context, Forebay, Limit
from forebay.blobs import BlobRef, Blobs
from forebay.blobs.folder import Folder
from forebay.errors import StoreUnreachable

NOTES = Path(os.environ.get("TEST_NOTES", "/nonexistent"))
HELD = NOTES.with_name("held")
AWAY = NOTES.with_name("away")


def note(text: str) -> None:
    with NOTES.open("a") as file:
        file.write(f"{text}\n")


def wait() -> None:
    while HELD.exists():
        time.sleep(0.01)


class LateBlobs(Blobs):
    def get(self, ref: BlobRef) -> bytes:
        note("reads")
        wait()
        if AWAY.exists():
            raise StoreUnreachable("The blobs are away.", remedy="Wait.")
        return super().get(ref)


app = Forebay(os.environ.get("TEST_LEDGER"), blobs=LateBlobs(Folder(NOTES.with_name("blobs"))))
app.limit(Limit("api", in_flight=1))
app.limit(Limit("claims", in_flight=10))


@app.task("told")
async def told(ctx: Context, text: str) -> None:
    note("begins")


@app.task("told_blocking")
def told_blocking(ctx: Context, text: str) -> None:
    note("begins")


@app.task("told_limited", limit="api")
def told_limited(ctx: Context, text: str) -> None:
    note("begins")


@app.task("calls", limit="claims", slot="call")
async def calls(ctx: Context) -> None:
    for _ in range(2):
        async with ctx.slot("api"):
            note("begins")
            await asyncio.to_thread(wait)


@app.task("calls_blocking", limit="api", slot="call")
def calls_blocking(ctx: Context) -> None:
    for _ in range(2):
        with ctx.slot():
            note("begins")
            wait()
