"""The processor that has Google Document AI read the pages, by its online `process` call."""

from __future__ import annotations

import asyncio
import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from forebay.engine.context import Context
from forebay.engine.registry import SlotAt
from forebay.engine.signals import Permanent, Retry
from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.document import Page
from forebay.model.payload import Json
from forebay.processors.base import Chunk, Pace, Parser, Price
from forebay.processors.credentials import Credentials
from forebay.processors.document_ai_pages import Malformed, pages
from forebay.processors.google_errors import judged
from forebay.processors.messages import Request, Stream
from forebay.processors.transport import Transport
from forebay.rules.verdict import ErrorClass

MAX_PAGES: Final = 15
MAX_PAGES_IMAGELESS: Final = 30
_MAX_REQUEST: Final = 40_000_000
_MAX_REPLY: Final = 256 * 1024 * 1024  # what 15 pages with their images may be
_CALL_S: Final = 60.0
_PIECE: Final = 3 * 65_536  # bytes that base64 needs no padding for
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_HERE: Final = "@"
_FIELDS: Final = ",".join(
    ("text", *(f"pages.{each}" for each in ("pageNumber", "layout", "paragraphs", "blocks", "lines", "tokens"))),
)
_DEFAULTS: Final[dict[str, Json]] = {"imageless": True, "language": "", "native_pdf": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which of Google's processors; without a `version`, the one that is its default."""

    url: str
    project: str
    location: str
    processor: str
    version: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("project", self.project), ("location", self.location), ("processor", self.processor)):
            _checked(name, value)
        if self.version is not None:
            _checked("version", self.version)

    @property
    def address(self) -> str:
        version = "" if self.version is None else f"/processorVersions/{self.version}"
        within = f"projects/{self.project}/locations/{self.location}"
        return f"{self.url.rstrip('/')}/v1/{within}/processors/{self.processor}{version}:process"


def _checked(name: str, value: str) -> None:
    if not _NAME.fullmatch(value):
        raise BadInput(f"docai_{name} is {shown(value)}.", remedy="Give the id as Google's console shows it.")


def usual_url(location: str) -> str:
    return f"https://{location}-documentai.googleapis.com"


class DocumentAi:
    """`version` names Google's processor as well: what another one reads is another result."""

    name = "docai"
    pipeline = "ocr"
    max_pages = MAX_PAGES_IMAGELESS
    max_bytes = (_MAX_REQUEST - 4096) * 3 // 4
    page_units: tuple[float, float] | None = None
    limit: str | None = "docai"
    slot: SlotAt = "call"
    timeout_s = 150.0
    pace: Pace | None = None
    price = Price()

    def __init__(
        self,
        place: Place,
        *,
        transport: Callable[[], Transport],
        credentials: Credentials,
        parser: Callable[[], Parser],
    ) -> None:
        self.version = f"1:{place.processor}{'' if place.version is None else f':{place.version}'}"
        self._address = place.address
        self._transport = transport
        self._credentials = credentials
        self._parser = parser

    def units(self, chunk: Chunk) -> dict[str, int] | None:
        return {"calls": 1, "pages": chunk.page_count}

    def checked(self, options: Mapping[str, Any]) -> dict[str, Json]:
        """Whether images are left out of the answer, hints for languages, and the use of a page's own text."""
        unknown = sorted(options.keys() - _DEFAULTS.keys())
        if unknown:
            raise BadInput(
                f"Processor 'docai' has no option {shown(unknown[0])}.", remedy=f"It has {', '.join(_DEFAULTS)}."
            )
        given = _DEFAULTS | dict(options)
        for name in ("imageless", "native_pdf"):
            if not isinstance(given[name], bool):
                raise BadInput(f"{name} is {shown(given[name])}.", remedy="Give true or false.")
        return given | {"language": "+".join(_languages(given["language"]))}

    async def process(self, ctx: Context, chunk: Chunk) -> list[Page]:
        options = self.checked(chunk.options)
        if not options["imageless"] and chunk.page_count > MAX_PAGES:
            raise Permanent(f"With images, a call takes {MAX_PAGES} pages.", error_class=ErrorClass.REPLAN)
        sizes: Any = await self._parser().call("sizes", {"first": chunk.page_start}, files=[chunk.file.fileno()])
        reply = await self._transport().call(
            ctx,
            Request(
                method="POST",
                url=self._address,
                headers={"content-type": "application/json"},
                body=_body(chunk.file.fileno(), options),
            ),
            limit=self.limit,
            units=self.units(chunk),
            meter=self.name,
            judge=judged,
            credentials=self._credentials,
            timeout_s=_CALL_S,
            max_reply=_MAX_REPLY,
        )
        return await asyncio.to_thread(self._read, reply.json, [(width, height) for width, height in sizes])

    def _read(self, answer: object, sizes: list[tuple[float, float]]) -> list[Page]:
        document = answer.get("document") if isinstance(answer, dict) else None
        try:
            return pages(document, sizes, processor=self.name, version=self.version)
        except Malformed as error:
            raise Retry(f"Document AI's answer: {error}", error_class=ErrorClass.BAD_RESPONSE) from None


def _languages(hints: object) -> list[str]:
    """From "en+de"."""
    found = [each for each in hints.split("+") if each] if isinstance(hints, str) else [""]
    if not all(map(_LANGUAGE.fullmatch, found)):
        raise BadInput(f"language is {shown(hints)}.", remedy='Give tags such as "en" or "en+de", or none at all.')
    return list(dict.fromkeys(found))


def _body(fd: int, options: Mapping[str, Json]) -> Stream:
    """The request with the chunk's bytes in it, encoded as they are sent: they are not held in memory."""
    config: dict[str, Json] = {}
    if options["native_pdf"]:
        config["enableNativePdfParsing"] = True
    if hints := _languages(options["language"]):
        config["hints"] = {"languageHints": [*hints]}
    asked: dict[str, Json] = {
        "rawDocument": {"mimeType": "application/pdf", "content": _HERE},
        "imagelessMode": options["imageless"],
        "fieldMask": f"{_FIELDS},pages.detectedLanguages",
    }
    if config:
        asked["processOptions"] = {"ocrConfig": config}
    before, after = json.dumps(asked, separators=(",", ":")).encode().split(_HERE.encode())
    size = os.fstat(fd).st_size

    def pieces() -> Iterator[bytes]:
        yield before
        for offset in range(0, size, _PIECE):
            yield b64encode(os.pread(fd, _PIECE, offset))
        yield after

    return Stream(len(before) + -(-size // 3) * 4 + len(after), pieces)
