"""The pipeline that tags pages: a chunk's result is a tagged PDF, the document's is one PDF with all their tags."""

from __future__ import annotations

import asyncio
import tempfile
from typing import IO, Any

from forebay.engine.signals import Permanent
from forebay.errors import BadTags
from forebay.model.job import Job
from forebay.model.payload import Json
from forebay.pipelines.ground import Ground, copied
from forebay.pipelines.merging import Hole, in_order
from forebay.pipelines.paged import cpu_s, paged
from forebay.pipelines.pipeline import AUTOTAG as NAME
from forebay.pipelines.pipeline import Merged, Output
from forebay.pipelines.whole import Result, Whole
from forebay.rules.verdict import ErrorClass


async def _described(ground: Ground, tagged: bytes, page_count: int) -> dict[str, Json]:
    """Faults in the tags are the provider's: they are counted and told, and the merge must not add to them."""
    with tempfile.TemporaryFile() as file:
        await asyncio.to_thread(_written, file, tagged)
        try:
            said: dict[str, Json] = await _checked(ground, file, page_count)
        except Permanent as error:
            raise BadTags(f"The tagged pages cannot be read: {error.text}", remedy=_REDO) from None
    if said["page_count"] != page_count or not said["tagged"]:
        found = f"{said['page_count']} pages {'with' if said['tagged'] else 'without'} tags"
        raise BadTags(f"Of {page_count} pages came {found}.", remedy=_REDO)
    return said


_REDO = "Retry the job; if it happens again, report it to the provider."


async def _merged(ground: Ground, whole: Whole) -> Merged:
    results = in_order(whole.order.document, whole.page_count, whole.results)
    with tempfile.TemporaryFile() as parts, tempfile.TemporaryFile() as output:
        listed = await asyncio.to_thread(_gathered, results, parts)
        files = [parts.fileno(), output.fileno()]
        await ground.parser().call("merge_tagged", {"parts": listed}, files=files, cpu_s=cpu_s(whole.page_count))
        holes = [result for result in results if result.hole is not None]
        said = await _checked(ground, output, whole.page_count, holes)
        before = sum(int(result.header.get("problem_count", 0)) for result in results)
        if said["page_count"] != whole.page_count or said["problem_count"] > before:
            raise Permanent(
                f"The tags do not survive the merge: {'; '.join(said['problems']) or 'pages are missing'}.",
                error_class=ErrorClass.BUG,
            )
        output.seek(0)
        ref = await asyncio.to_thread(ground.blobs().put, whole.tenant, output)
    return Merged(_summary(whole, said, holes), ref.sha256)


def _gathered(results: list[Result], parts: IO[bytes]) -> list[Json]:
    """All chunks in one file, one after the other: a parser gets few descriptors. Pages without tags as they were."""
    listed: list[Json] = []
    for result in results:
        content = result.read() if result.hole is None else result.unread()
        listed.append({"offset": parts.tell(), "size": len(content), "tagged": result.hole is None})
        parts.write(content)
    parts.flush()
    return listed


def _summary(whole: Whole, said: dict[str, Any], holes: list[Result]) -> dict[str, Json]:
    return {
        "page_count": whole.page_count,
        "element_count": said["element_count"],
        "language": said["language"],
        "problem_count": said["problem_count"],
        "problems": said["problems"],
        "holes": [_hole(result, result.hole) for result in holes if result.hole is not None],
        "repaired": whole.repaired,
        "notes": [*whole.notes],
    }


def _hole(result: Result, hole: Hole) -> dict[str, Json]:
    return {"page_start": result.page_start, "page_end": result.page_end, **hole._asdict()}


async def _checked(ground: Ground, file: IO[bytes], page_count: int, holes: list[Result] | None = None) -> Any:  # noqa: ANN401 - as our own verb answers
    untagged: list[Json] = [[each.page_start, each.page_end] for each in holes or ()]
    return await ground.parser().call(
        "check_tagged", {"untagged": untagged}, files=[file.fileno()], cpu_s=cpu_s(page_count)
    )


def _written(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()


async def _as_it_is(_: Ground, __: Job, merged: IO[bytes], output: IO[bytes]) -> None:
    merged.seek(0)
    await asyncio.to_thread(copied, merged, output)


AUTOTAG = paged(
    NAME,
    processors=("adobe",),
    described=_described,
    merged=_merged,
    outputs={"pdf": Output(".tagged.pdf", _as_it_is, is_text=False)},
    usual=("pdf",),
)
