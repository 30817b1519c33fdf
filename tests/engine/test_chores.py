"""What workers clear away by themselves, and what they leave alone unless they are told to."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.app.cleaning import chores
from forebay.app.forebay import Forebay
from forebay.app.working import awork
from forebay.engine import chores as engine
from forebay.engine.chores import Chore, keep
from forebay.errors import StoreBusy, StoreUnreachable
from forebay.model.exchange import Remembered
from forebay.settings import load
from forebay.testing.workers import blob

DAYS_AGO = time.time() - 2 * 86_400


def made(folder: Path, **settings: float) -> Forebay:
    chosen = load({"home": str(folder), **settings})
    return Forebay(f"sqlite:///{folder}/forebay.db", blobs=f"file://{folder}/blobs", settings=chosen)


def run(app: Forebay) -> list[str]:
    """Each once, as a worker does it; their names."""
    known = chores(app, "worker-1")
    for each in known:
        each.run()
    return [each.name for each in known]


def draft(folder: Path, *, old: bool) -> Path:
    place = folder / "blobs" / "tmp" / (("a" if old else "b") * 32)
    place.write_bytes(b"half")
    if old:
        os.utime(place, (DAYS_AGO, DAYS_AGO))
    return place


def age(folder: Path) -> None:
    """Make all blobs as old as if nobody had written them for days."""
    for each in (folder / "blobs" / "blobs").rglob("*"):
        if each.is_file():
            os.utime(each, (DAYS_AGO, DAYS_AGO))


def test_drafts_of_writers_that_died_go_after_a_day_and_blobs_stay(tmp_path: Path) -> None:
    with made(tmp_path) as app:
        stray = app.blobs.put("default", b"stray")
        dead, alive = draft(tmp_path, old=True), draft(tmp_path, old=False)
        age(tmp_path)
        assert run(app) == ["drafts"]
        assert (dead.exists(), alive.exists(), app.blobs.exists(stray)) == (False, True, True)


def test_blobs_that_nothing_points_at_go_where_the_settings_say_so(tmp_path: Path) -> None:
    with made(tmp_path, gc_every_s=60) as app:
        stray, used = app.blobs.put("default", b"stray"), app.blobs.put("default", b"used")
        app.ledger.remember([Remembered(tenant="default", key=blob(1), document=blob(2), result_blob=used.sha256)])
        age(tmp_path)
        young = app.blobs.put("default", b"young")
        assert run(app) == ["drafts", "gc"]
        assert [app.blobs.exists(each) for each in (stray, used, young)] == [False, True, True]


def test_what_is_remembered_goes_after_its_retention(tmp_path: Path) -> None:
    with made(tmp_path, retention_remembered_s=0) as app:
        app.ledger.remember([Remembered(tenant="default", key=blob(1), document=blob(2), result_blob=blob(3))])
        app.blobs.put("default", b"x")
        assert run(app) == ["drafts", "forget"]
        assert app.ledger.recall("default", [blob(1)]) == []
        assert app.ledger.audit()[0].note == "retention"


def test_a_worker_does_them_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_FIRST_S", 0.01)
    with made(tmp_path) as app:
        app.task("x")(_nothing)
        app.blobs.put("default", b"x")
        dead = draft(tmp_path, old=True)

        async def until_gone(drain: Callable[[str], None]) -> None:
            while dead.exists():  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.01)
            drain("swept")

        asyncio.run(asyncio.wait_for(awork(app, until_gone), 20))


async def _nothing(_: object) -> None:
    pass


def test_a_store_that_fails_does_not_end_them() -> None:
    went_on = threading.Event()
    errors = iter([StoreBusy("busy", remedy="wait"), StoreUnreachable("gone", remedy="wait")])

    def step() -> None:
        for error in errors:
            raise error
        went_on.set()

    async def main() -> None:
        running = asyncio.create_task(keep(Chore("gc", 0.001, step)))
        assert await asyncio.to_thread(went_on.wait, 10)
        running.cancel()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_nobody_waits_for_one_that_takes_long() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def step() -> None:
        begun.set()
        go_on.wait(30)
        ended.set()

    async def main() -> None:
        running = asyncio.create_task(keep(Chore("gc", 0.001, step)))
        assert await asyncio.to_thread(begun.wait, 10)
        running.cancel()

    asyncio.run(main())
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(10)
