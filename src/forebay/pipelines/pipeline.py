"""What a pipeline of documents is: which it takes, its steps, how a chunk is processed, and which files come of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from forebay.engine.context import Context
from forebay.model.job import Job
from forebay.model.outcome import Outcome
from forebay.model.payload import Json

if TYPE_CHECKING:
    from forebay.pipelines.ground import Ground
    from forebay.pipelines.whole import Whole
    from forebay.processors.base import Processor

OCR = "ocr"
AUTOTAG = "autotag"
SEGMENT = "segment"
NAMES = (OCR, AUTOTAG, SEGMENT)
STEPS = ("split", "stored", "articles", "merge")

Run = Callable[["Ground", Context, dict[str, Any]], Awaitable[Outcome]]
"""What a worker does with a task of a step, given the task's payload."""


class Merged(NamedTuple):
    """The result of a document: what its record tells, and the blob with its bytes."""

    summary: Mapping[str, Json]
    blob: str


class Output(NamedTuple):
    """A file that can be made of a merged result; `write` reads the second file from its beginning."""

    suffix: str
    write: Callable[[Ground, Job, IO[bytes], IO[bytes]], Awaitable[None]]
    is_text: bool = True


class Step(NamedTuple):
    """A kind of task that every job of a pipeline may have, whoever processes its chunks."""

    run: Run
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """`sniffed` tells the media type of a document; BadDocument for one that the pipeline does not take.

    `suffixes` are what its documents end in, in a folder. `process` runs a chunk. `checked` gives the options of a job
    with their defaults; BadInput for others. `so_far` is what there is of a job that has not ended well. `usual` are
    the outputs that are written unless others are asked for, `processors` who works unless somebody is named: the first
    that is set up.
    """

    name: str
    sniffed: Callable[[IO[bytes]], str]
    suffixes: frozenset[str]
    steps: Mapping[str, Step]
    process: Run
    checked: Callable[[Ground, Processor, Mapping[str, Any]], dict[str, Json]]
    so_far: Callable[[Ground, Job], Awaitable[Merged]]
    outputs: Mapping[str, Output]
    usual: tuple[str, ...]
    processors: tuple[str, ...]

    def kind(self, step: str) -> str:
        """Of one of the steps, or of a processor's chunks."""
        return f"{self.name}.{step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paged(Pipeline):
    """One whose chunks are pages: splitting, reuse, halving, budgets, retries and holes are the same for all.

    `described` says what a chunk's record tells of its result; BadChunks unless that is the result of so many pages.
    """

    described: Callable[[Ground, bytes, int], Awaitable[dict[str, Json]]]
    merged: Callable[[Ground, Whole], Awaitable[Merged]]
