"""The latest jobs for those who listen to all of them: as they are, and what has changed, each written down once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from forebay.model.job import Job
from forebay.server.jobs import shown


class Topic:
    """The latest jobs of one tenant, or of all; `version` rises whenever one of them has changed."""

    def __init__(self) -> None:
        self.version = 0
        self._jobs: Sequence[Job] = ()
        self._change = ""
        self._whole: str | None = None

    def update(self, jobs: Sequence[Job]) -> None:
        if self.version and jobs == self._jobs:
            return
        known = {job.id: job for job in self._jobs}
        self._change = _written([job for job in jobs if known.get(job.id) != job])
        self._whole = None
        self._jobs = jobs
        self.version += 1

    def since(self, version: int) -> str:
        """What somebody has missed who saw that version: the last change, or all of it as it is."""
        if 0 < version == self.version - 1:
            return self._change
        if self._whole is None:
            self._whole = _written(self._jobs)
        return self._whole


class Overview:
    """One who listens."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._seen = 0
        self.told = asyncio.Event()

    def tell(self) -> None:
        if self._seen < self._topic.version:
            self.told.set()

    def take(self) -> tuple[int, str]:
        """The number of what there is, and its text."""
        text = self._topic.since(self._seen)
        self._seen = self._topic.version
        self.told.clear()
        return self._seen, text


def _written(jobs: Sequence[Job]) -> str:
    return json.dumps({"jobs": [shown(job) for job in jobs]}, ensure_ascii=False, separators=(",", ":"))
