"""The local processor with its real parts: parser children and tesseract, one process for each page."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ParamSpec, cast

import pytest
from pikepdf import Pdf
from PIL import Image, ImageChops, ImageFilter

from examples.documents.recall import recall
from forebay.engine.context import Context
from forebay.engine.signals import Permanent, Retry
from forebay.errors import BadInput
from forebay.model.payload import Json
from forebay.processors import limited, recognizing, tesseract
from forebay.processors.base import Chunk
from forebay.processors.local import Local
from forebay.processors.parsers import Parsers
from forebay.processors.pdf.verbs import VERBS
from forebay.rules.verdict import ErrorClass
from tests.processors.pdf.papers import ENGLISH, drawn, paper, paragraph, saved, scanned

P = ParamSpec("P")
CTX = cast("Context", SimpleNamespace(progress=lambda share, note="": None))
GERMAN = (
    "Die Mühle am oberen Wehr gehörte früher der Familie des Müllers, der im Frühjahr die Schleusen öffnete und im "
    "Herbst schloss. Größere Schäden entstanden nur, wenn das Hochwasser über Nacht kam."
)


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Here:
    """The verbs in this process, and how often each was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Json]]] = []

    async def call(
        self,
        verb: str,
        arguments: Mapping[str, Json],
        *,
        files: Sequence[int] = (),
        cpu_s: float | None = None,
        timeout_s: float | None = None,
    ) -> Json:
        self.calls.append((verb, dict(arguments)))
        for file in files:
            os.lseek(file, 0, os.SEEK_SET)
        return VERBS[verb](dict(arguments), list(files))


@asynccontextmanager
async def parsers() -> AsyncIterator[Parsers]:
    made = Parsers(2)
    try:
        yield made
    finally:
        await made.aclose()


@contextmanager
def chunk_of(document: bytes, *, first: int = 1, **options: Json) -> Iterator[Chunk]:
    with tempfile.TemporaryFile() as file, Pdf.open(io.BytesIO(document)) as pdf:
        file.write(document)
        file.flush()
        last = first + len(pdf.pages) - 1
        yield Chunk(document="d", page_start=first, page_end=last, file=file, options=options)


def lines_of(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def noisy(document: bytes, *, skew: float = 0, dpi: int = 150, turn: int = 0) -> bytes:
    """The first page as a scan of it."""
    page = drawn(document, dpi=dpi).rotate(skew, Image.Resampling.BICUBIC, fillcolor=255)
    page = ImageChops.add(page, Image.effect_noise(page.size, 24), offset=-128)
    page = page.filter(ImageFilter.GaussianBlur(0.5)).rotate(-turn, expand=True)
    return scanned(page, size=(page.width * 72 / dpi, page.height * 72 / dpi))


def together(*documents: bytes) -> bytes:
    with Pdf.new() as pdf:
        parts = [Pdf.open(io.BytesIO(document)) for document in documents]
        for part in parts:
            pdf.pages.extend(part.pages)
        return saved(pdf)


@pytest.mark.slow
@in_loop
async def test_text_is_read_and_scans_are_recognized_in_the_order_of_pages() -> None:
    text = paper(paragraph())
    scan = noisy(paper(paragraph()), skew=2)
    german = noisy(paper(paragraph(GERMAN)), skew=-1.5)
    async with parsers() as pool:
        with chunk_of(together(text, scan, german)) as chunk:
            pages = lines_of(await Local(lambda: pool, cores=2).process(CTX, chunk))
    assert [page["method"] for page in pages] == ["text", "ocr", "ocr"]
    assert [page["language"] for page in pages] == ["en", "en", "de"]
    assert [recall(ENGLISH, page["text"]) >= 0.99 for page in pages] == [True, True, False]
    assert recall(GERMAN, pages[2]["text"]) >= 0.97
    assert [page["turned"] for page in pages] == [0, 0, 0]
    assert pages[1]["confidence"] > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("turn", [90, 180])
@in_loop
async def test_a_page_that_was_scanned_the_wrong_way_round_is_turned(turn: int) -> None:
    here = Here()
    with chunk_of(noisy(paper(paragraph()), turn=turn)) as chunk:
        (page,) = lines_of(await Local(lambda: here, cores=1).process(CTX, chunk))
    assert recall(ENGLISH, page["text"]) >= 0.99
    assert page["turned"] == 360 - turn
    (left, top, right, bottom) = page["blocks"][0]["box"]
    # The text began in the upper left corner.
    assert (left > 0.5) if turn == 90 else (top > 0.8)
    assert 0 <= left < right <= 1
    assert 0 <= top < bottom <= 1


@pytest.mark.slow
@in_loop
async def test_upright_pages_are_recognized_once_and_empty_ones_looked_at_again() -> None:
    here = Here()
    blank = scanned(Image.new("L", (60, 84), 250))
    with chunk_of(together(noisy(paper(paragraph())), blank)) as chunk:
        pages = lines_of(await Local(lambda: here, cores=2).process(CTX, chunk))
    assert [verb for verb, _ in here.calls].count("render") == 3
    assert [page["word_count"] > 0 for page in pages] == [True, False]


@in_loop
async def test_a_page_that_takes_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognizing, "TIMEOUT_S", 0.05)
    with (
        chunk_of(noisy(paper(paragraph())), first=41) as chunk,
        pytest.raises(Retry, match=r"Page 41: tesseract took longer") as error,
    ):
        await Local(Here, cores=1).process(CTX, chunk)
    assert error.value.error_class is ErrorClass.PARSER_TIMEOUT


def tesseracts() -> set[int]:
    """Those that this process has started."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and b"tesseract" in (entry.parent / "cmdline").read_bytes():
                found.add(int(entry.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes where only Linux has them")
@in_loop
async def test_canceled_it_leaves_no_tesseract_behind() -> None:
    document = noisy(paper([*paragraph(), *paragraph(top=700), *paragraph(top=620)]))
    with chunk_of(together(document, document, document)) as chunk:
        working = asyncio.create_task(Local(Here, cores=2).process(CTX, chunk))
        until = time.monotonic() + 20
        while len(tesseracts()) < 2 and time.monotonic() < until:  # noqa: ASYNC110 - no one tells of another's processes
            await asyncio.sleep(0.01)
        assert len(tesseracts()) == 2
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    assert tesseracts() == set()


@in_loop
async def test_pages_of_several_chunks_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one core the second chunk does not wait for the first one's last page."""
    order: list[int] = []
    running = 0

    async def run(command: Sequence[str], **_: object) -> int:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0.01)
        running -= 1
        return 0

    class Fake(Here):
        async def call(self, verb: str, arguments: Mapping[str, Json], **_: object) -> Json:
            if verb == "read":
                return {"pages": [{"ocr": True, "width": 9.0, "height": 9.0}] * 6}
            if verb == "render":
                order.append(int(str(arguments["first"])))
                return {"width": 9, "height": 9, "image": [9, 9], "skew": 0.0, "sideways": False}
            return {"size": 0, "words": 9, "confidence": 0.9, "on_end": False}

    monkeypatch.setattr(limited, "run", run)
    local = Local(Fake, cores=1)
    with chunk_of(paper(*[[]] * 6)) as one, chunk_of(paper(*[[]] * 6), first=7) as two:
        await asyncio.gather(local.process(CTX, one), local.process(CTX, two))
    assert sorted(order) == [1] * 6 + [7] * 6
    assert set(order[:6]) == set(order[6:]) == {1, 7}


@in_loop
async def test_a_page_that_is_refused_is_named_as_it_is_in_the_document() -> None:
    document = paper(paragraph(), [], size=(4200, 4200))
    document = together(document, scanned(Image.new("L", (9, 9), 9), size=(4200, 4200)))
    async with parsers() as pool:
        with (
            chunk_of(document, first=21) as chunk,
            pytest.raises(Permanent, match="Page 23 would have 136 megapixels") as error,
        ):
            await Local(lambda: pool, cores=1).process(CTX, chunk)
    assert error.value.error_class is ErrorClass.PAGE_TOO_LARGE


@in_loop
async def test_a_file_with_another_number_of_pages_is_not_believed() -> None:
    with chunk_of(paper([], [])) as chunk:
        wrong = Chunk(document="d", page_start=1, page_end=3, file=chunk.file)
        with pytest.raises(Permanent, match="came as 2 pages"):
            await Local(Here).process(CTX, wrong)


def test_options_have_defaults_and_one_form() -> None:
    local = Local(Here)
    assert local.checked({}) == {"language": "eng+deu", "ocr": "auto", "dpi": 200}
    assert local.checked({"language": "deu+eng+deu", "dpi": 300}) == {"language": "deu+eng", "ocr": "auto", "dpi": 300}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lang": "eng"}, "no option 'lang'. It has language, ocr, dpi."),
        ({"ocr": "sometimes"}, "Give one of auto, always, never."),
        ({"dpi": 20}, "from 70 to 600"),
        ({"dpi": True}, "from 70 to 600"),
        ({"dpi": "200"}, "from 70 to 600"),
        ({"language": ""}, "names that tesseract has"),
        ({"language": "../eng"}, "names that tesseract has"),
        ({"language": ["eng"]}, "names that tesseract has"),
        ({"language": "eng+tlh"}, "There is no OCR for tlh. Those that come with Forebay are deu, eng"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as error:
        Local(Here).checked(options)
    assert message in str(error.value)


def test_a_tesseract_of_the_machine_is_used_for_languages_that_ours_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tesseract"
    program.write_text('#!/bin/sh\necho "List of available languages (2):"\necho nor\necho eng\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert tesseract.found(["nor", "eng"]).path == str(program)
    assert tesseract.found(["eng"]).path != str(program)
    with pytest.raises(BadInput, match="No tesseract has all of nor, deu") as error:
        tesseract.found(["nor", "deu"])
    assert f"{program} has eng, nor" in str(error.value)
