"""A provider may say our own key back to us: no row of the ledger, no log and no error has it."""

from __future__ import annotations

import asyncio
import io
import logging
from pathlib import Path

from forebay import Context, Forebay, Limit
from forebay.app.working import awork, when_idle
from forebay.model.task import Task
from forebay.observe.logs import configure
from forebay.processors.credentials import Key
from forebay.processors.transport import Transport
from tests.processors.provider import Provider, Seen, get, http


def echo(seen: Seen) -> bytes:
    return http(400, f"Bad key: {seen.headers['x-key']}".encode())


def run(folder: Path, secret: str, *, hidden: bool) -> tuple[Task, str]:
    """A task whose provider refuses it with its own key in the text, and what the program logged."""
    app = Forebay(f"sqlite:///{folder}/forebay.db", blobs=f"file://{folder}/blobs")
    app.limit(Limit("api", in_flight=2))
    provider = Provider([echo])
    transport = Transport()
    stream = io.StringIO()
    key_known = asyncio.Event()

    @app.task("call", limit="api", slot="call", max_retries=0)
    async def call(ctx: Context) -> None:
        if hidden:
            credentials = Key(provider.url, "x-key", value=secret)
            key_known.set()
            await transport.call(ctx, get(provider.url), limit="api", credentials=credentials)
        else:
            key_known.set()
            await transport.call(ctx, get(provider.url, **{"x-key": secret}), limit="api")

    @app.task("says", max_retries=0)
    async def says(ctx: Context) -> None:
        await key_known.wait()
        raise ValueError(f"a handler's own words: {secret}")

    async def main() -> None:
        async with provider:
            try:
                await asyncio.wait_for(awork(app, when_idle(app)), 30)
            finally:
                await transport.aclose()

    configure("debug", "json", stream)
    try:
        with app:
            identifier = app.submit("call").id
            app.submit("says")
            asyncio.run(main())
            task = app.get(identifier)
            assert isinstance(task, Task)
    finally:
        root = logging.getLogger()
        root.removeHandler(next(each for each in root.handlers if each.get_name() == "forebay"))
    return task, stream.getvalue()


def files_with(folder: Path, secret: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_a_key_that_comes_back_is_nowhere(tmp_path: Path) -> None:
    task, logged = run(tmp_path, "canary-7f3a9", hidden=True)
    assert task.error_class == "refused"
    assert "Bad key: ***" in (task.error_text or "")
    assert files_with(tmp_path, "canary-7f3a9") == []
    assert "canary-7f3a9" not in logged
    assert "task_failed" in logged


def test_one_that_nobody_has_hidden_is_found_which_is_the_control(tmp_path: Path) -> None:
    task, _ = run(tmp_path, "canary-open-1", hidden=False)
    assert "canary-open-1" in (task.error_text or "")
    assert files_with(tmp_path, "canary-open-1") != []
