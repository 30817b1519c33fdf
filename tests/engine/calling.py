"""An application whose handlers call an API by some HTTP client and let its exceptions pass."""

import asyncio
import os
import urllib.request

import httpx2
import requests

from forebay import Context, Forebay, Limit

app = Forebay(os.environ.get("TEST_LEDGER"), blobs=os.environ.get("TEST_BLOBS"))
app.limit(Limit("api", in_flight=5, cooldown_s=(0.2,), on_disconnect="stops"))
_TIMEOUT_S = 0.3


def fetch(client: str, url: str) -> str:
    if client == "urllib":
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            return str(answer.status)
    if client == "requests":
        answered = requests.get(url, timeout=_TIMEOUT_S)
        answered.raise_for_status()
        return str(answered.status_code)
    return str(httpx2.get(url, timeout=_TIMEOUT_S, trust_env=False).raise_for_status().status_code)


@app.task("call", max_retries=0)
async def call(ctx: Context, client: str, url: str) -> str:
    return await asyncio.to_thread(fetch, client, url)


@app.task("call_blocking", max_retries=0)
def call_blocking(ctx: Context, client: str, url: str) -> str:
    return fetch(client, url)


@app.task("limited", limit="api", max_retries=0)
async def limited(ctx: Context, client: str, url: str) -> str:
    return await asyncio.to_thread(fetch, client, url)


@app.task("inside", limit="api", slot="call", max_retries=0)
async def inside(ctx: Context, client: str, url: str, outside_url: str = "") -> str:
    async with ctx.slot():
        found = await asyncio.to_thread(fetch, client, url)
    return await asyncio.to_thread(fetch, client, outside_url) if outside_url else found


@app.task("inside_blocking", limit="api", slot="call", max_retries=0)
def inside_blocking(ctx: Context, client: str, url: str) -> str:
    with ctx.slot():
        return fetch(client, url)


@app.task("judges_blocking", limit="api", slot="call", max_retries=0)
def judges_blocking(ctx: Context, status: int) -> str:
    with ctx.slot() as slot:
        return str(slot.answered(status, {"retry-after": "30"}).kind)
