"""The pipeline that makes articles of documents: each with its text, its language and its tags."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

from forebay.engine.context import Context
from forebay.engine.signals import Permanent
from forebay.errors import BadInput
from forebay.model import payload as json_text
from forebay.model.job import Job
from forebay.model.outcome import Completed, Outcome
from forebay.model.payload import Json
from forebay.model.task import Status, Task
from forebay.pipelines import job_time, segmenting, sniffing_articles, tagging
from forebay.pipelines.cutting import Order
from forebay.pipelines.ground import Ground, copied
from forebay.pipelines.merging import Hole
from forebay.pipelines.pipeline import SEGMENT as NAME
from forebay.pipelines.pipeline import Merged, Output, Pipeline, Step
from forebay.pipelines.whole import Whole, so_far, tasks_so_far, whole
from forebay.rules.chunks import ARTICLES_INDEX
from forebay.rules.verdict import ErrorClass

FORMAT = 1
_TIMEOUT_S = 3600.0  # of one step; the job's own time is mostly over before
_FIRST = b'{"forebay":%d,"document":' % FORMAT
_ARTICLES = b',"articles":[\n'
_SUMMARY = b'],"summary":'


async def _merge(ground: Ground, ctx: Context, payload: dict[str, Any]) -> Outcome:
    return await job_time.within(ground, ctx, _merged(ground, ctx, Order.of(payload)))


async def _merged(ground: Ground, ctx: Context, order: Order) -> Completed:
    def make() -> Completed:
        made = _made(ground, whole(ground, ctx, order), ctx.chunks().tasks())
        return Completed(result_json=json_text.encode(made.summary), result_blob=made.blob)

    return await asyncio.to_thread(make)


async def _so_far(ground: Ground, job: Job) -> Merged:
    return await asyncio.to_thread(lambda: _made(ground, so_far(ground, job), tasks_so_far(ground, job)))


def _made(ground: Ground, found: Whole, tasks: Iterator[Task]) -> Merged:
    articles = _Articles(ground, found, tasks)
    ref = ground.blobs().put(found.tenant, articles)
    return Merged(articles.summary, ref.sha256)


class _Articles:
    """The result piece by piece: one article a line; what they amount to is known when all were given out."""

    def __init__(self, ground: Ground, found: Whole, tasks: Iterator[Task]) -> None:
        self._ground = ground
        self._whole = found
        self._tasks = tasks
        self._count = 0
        self._languages: Counter[str] = Counter()
        self._by: Counter[str] = Counter()
        self._untagged: list[Json] = []
        self._uncut: Hole | None = None

    def __iter__(self) -> Iterator[bytes]:
        order = self._whole.order
        yield _FIRST + _json({"sha256": order.document, "media_type": order.media_type}) + _ARTICLES
        between = b""
        for task in self._tasks:
            if task.chunk_index == ARTICLES_INDEX and task.status is not Status.COMPLETED:
                self._uncut = Hole(task.error_class or "unknown", task.error_text or "")
            payload: Any = self._ground.submissions().content.payload(task)
            if "article" in payload:
                yield between + _json(self._article(task, payload))
                between = b",\n"
        yield (b"\n" if between else b"") + _SUMMARY + _json(self.summary) + b"}\n"

    def _article(self, task: Task, payload: dict[str, Any]) -> dict[str, Json]:
        self._count += 1
        article: dict[str, Json] = dict(payload["article"])
        if article["ordinal"] != self._count:
            raise Permanent(f"Article {self._count} is missing.", error_class=ErrorClass.BUG)
        said: Any = task.result
        if task.status is Status.COMPLETED and isinstance(said, dict):
            article |= {name: value for name, value in said.items() if name != "reused"}
            self._languages[said["lang"]] += 1
            self._by[str(said.get("lang_by", payload["processor"]))] += 1
        else:
            missing: dict[str, Json] = {"error_class": task.error_class, "error_text": task.error_text}
            article |= {"lang": None, "tags": [], "missing": missing}
            self._untagged.append(self._count)
        return article | {"text": payload["text"]}

    @property
    def summary(self) -> dict[str, Json]:
        return {
            "page_count": self._whole.page_count,
            "article_count": self._count,
            "languages": _most_first(self._languages),
            "lang_by": _most_first(self._by),
            "untagged": self._untagged,
            "holes": [
                {"page_start": each.page_start, "page_end": each.page_end, **hole._asdict()}
                for each in self._whole.results
                if (hole := each.hole or self._uncut) is not None
            ],
            "repaired": self._whole.repaired,
            "notes": [*self._whole.notes],
        }


def _most_first(counts: Counter[str]) -> dict[str, Json]:
    return {name: counts[name] for name in sorted(counts, key=lambda name: (-counts[name], name))}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def read(result: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The articles of a result, one after the other; it has one a line."""
    result.seek(0)
    if not result.readline().endswith(_ARTICLES):
        raise BadInput("This is not a result of `segment`.", remedy="Take it from `forebay result` or run it again.")
    for line in result:
        if line.startswith(_SUMMARY):
            return
        yield json.loads(line.rstrip(b",\n"))


async def _as_it_is(_: Ground, __: Job, merged: IO[bytes], output: IO[bytes]) -> None:
    merged.seek(0)
    await asyncio.to_thread(copied, merged, output)


async def _markdown(_: Ground, __: Job, merged: IO[bytes], output: IO[bytes]) -> None:
    """The articles one after the other are the text that they were cut from."""
    await asyncio.to_thread(lambda: output.writelines(each["text"].encode() for each in read(merged)))


SEGMENT = Pipeline(
    name=NAME,
    sniffed=sniffing_articles.sniffed,
    suffixes=sniffing_articles.SUFFIXES,
    steps={
        "split": Step(segmenting.split, _TIMEOUT_S),
        "articles": Step(segmenting.articles, _TIMEOUT_S),
        "merge": Step(_merge, _TIMEOUT_S),
    },
    process=tagging.process,
    checked=segmenting.checked,
    so_far=_so_far,
    processors=("llm", "keywords"),
    outputs={"md": Output(".md", _markdown), "json": Output(".articles.json", _as_it_is)},
    usual=("md", "json"),
)
