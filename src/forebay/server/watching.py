"""Follows jobs for those who listen: one reader for all of them, which looks when the ledger stirs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from forebay.errors import ForebayError
from forebay.model.job import Event
from forebay.model.query import Query
from forebay.server.overview import Overview, Topic
from forebay.server.service import Service
from forebay.stores.base import Ledger

log = logging.getLogger("forebay.server")
SHOWN_JOBS = 50
_TOGETHER = 500
_PAUSE_S = 0.25
_POLL_S = 2.0
_LOOK_AGAIN_S = 15.0
_SHARE = 9  # a round may take up a tenth of the time


class News(NamedTuple):
    """What happened in a job since somebody looked; `over` says that nothing will follow, unless it is retried."""

    events: list[Event]
    over: bool = False


class Follower:
    """One who listens to a job: nothing more is read for them until they took what there is."""

    def __init__(self, job_id: str, after: int) -> None:
        self.job_id = job_id
        self.after = after
        self.news: News | None = None
        self.told = asyncio.Event()
        self._look_at = 0.0

    def due(self, now: float) -> bool:
        """Whether it is time to see if the job is there at all; so it is at the beginning."""
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_AGAIN_S
        return True

    def tell(self, news: News) -> None:
        self.news = news
        self.told.set()

    def take(self) -> News:
        news = self.news or News([])
        if news.events:
            self.after = news.events[-1].number
        self.news = None
        self.told.clear()
        return news


class Watcher:
    """Runs as long as the server does."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._followers: set[Follower] = set()
        self._overviews: dict[str | None, set[Overview]] = {}
        self._topics: dict[str | None, Topic] = {}
        self._stirred = asyncio.Event()

    @contextmanager
    def following(self, job_id: str, after: int) -> Iterator[Follower]:
        follower = Follower(job_id, after)
        self._followers.add(follower)
        self._stirred.set()
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    @contextmanager
    def overlooking(self, tenant: str | None) -> Iterator[Overview]:
        overview = Overview(self._topics.setdefault(tenant, Topic()))
        self._overviews.setdefault(tenant, set()).add(overview)
        self._stirred.set()
        try:
            yield overview
        finally:
            self._overviews[tenant].discard(overview)
            if not self._overviews[tenant]:
                del self._overviews[tenant], self._topics[tenant]

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        stop_listening = None
        try:
            while True:
                began = time.monotonic()
                self._stirred.clear()
                if self._followers or self._overviews:
                    try:
                        if stop_listening is None:
                            ledger = self._service.app.ledger
                            stop_listening = await self._service.ask(ledger.listen, self._stirred.set, loop=loop)
                        await self._round()
                    except ForebayError:
                        # The store is silent: its listeners hear heartbeats until it answers again.
                        await asyncio.sleep(_POLL_S)
                    except Exception:
                        log.exception("watching_failed")
                await asyncio.sleep(max(_PAUSE_S, _SHARE * (time.monotonic() - began)))
                try:
                    async with asyncio.timeout(_POLL_S):
                        await self._stirred.wait()
                except TimeoutError:
                    pass
        finally:
            if stop_listening is not None:
                stop_listening()

    async def _round(self) -> None:
        ledger = self._service.app.ledger
        waiting = [each for each in self._followers if each.news is None]
        for start in range(0, len(waiting), _TOGETHER):
            some = waiting[start : start + _TOGETHER]
            now = time.monotonic()
            asked = [(each.job_id, each.after, each.due(now)) for each in some]
            found = await self._service.ask(_read, ledger, asked)
            for place, news in found.items():
                some[place].tell(news)
        for tenant in [*self._overviews]:
            page = await self._service.ask(ledger.list_jobs, Query(tenant=tenant, size=SHOWN_JOBS))
            if tenant in self._topics:
                self._topics[tenant].update(page.items)
                for overview in self._overviews[tenant]:
                    overview.tell()


def _read(ledger: Ledger, asked: Sequence[tuple[str, int, bool]]) -> dict[int, News]:
    """By their place among those that asked; of most of them there is nothing to be told."""
    found = ledger.news([(job_id, after) for job_id, after, _ in asked])
    told = {}
    for place, (events, (job_id, after, due)) in enumerate(zip(found, asked, strict=True)):
        if events or due:
            over = _over(ledger, job_id, after, events)
            if events or over:
                told[place] = News(events, over)
    return told


def _over(ledger: Ledger, job_id: str, after: int, events: list[Event]) -> bool:
    """An end is an event; that a job was deleted is not, and is looked for where there is none."""
    if events and not events[-1].name.startswith("job_"):
        return False
    job = ledger.get_job(job_id)
    seen = events[-1].number if events else after
    return job is None or (job.status.terminal and seen >= job.event_count)
