"""What a pipeline of documents is: what a chunk's result tells, how results are merged, and which files come of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple

from forebay.model.job import Job
from forebay.model.payload import Json

if TYPE_CHECKING:
    from forebay.pipelines.ground import Ground
    from forebay.pipelines.whole import Whole

OCR = "ocr"
AUTOTAG = "autotag"
NAMES = (OCR, AUTOTAG)
STEPS = ("split", "stored", "merge")


class Merged(NamedTuple):
    """The result of a document: what its record tells, and the blob with its bytes."""

    summary: Mapping[str, Json]
    blob: str


class Output(NamedTuple):
    """A file that can be made of a merged result; `write` reads the second file from its beginning."""

    suffix: str
    write: Callable[[Ground, Job, IO[bytes], IO[bytes]], Awaitable[None]]
    is_text: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Splitting, reuse, halving, budgets, retries, holes and tracking are the same for all.

    `described` says what a chunk's record tells of its result; BadChunks unless that is the result of so many pages.
    `usual` are the outputs that are written unless others are asked for.
    """

    name: str
    described: Callable[[Ground, bytes, int], Awaitable[dict[str, Json]]]
    merged: Callable[[Ground, Whole], Awaitable[Merged]]
    outputs: Mapping[str, Output]
    usual: tuple[str, ...]

    def kind(self, step: str) -> str:
        """Of one of the steps, or of a processor's chunks."""
        return f"{self.name}.{step}"
