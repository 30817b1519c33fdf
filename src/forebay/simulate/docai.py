"""Google Document AI: online processing, `process`, with the words of the document's own text layer."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qs

from forebay.simulate import google
from forebay.simulate.docai_document import document, masked, numbered
from forebay.simulate.fault import Fault
from forebay.simulate.messages import Denial, Refused, Reply, Request, Work, encoded, encoded_reply, json_reply
from forebay.simulate.reading import Page, Reader, Unreadable, page_count
from forebay.simulate.state import State

_SERVICE: Final = "documentai.googleapis.com"
_PATH: Final = re.compile(
    r"/v1(?:beta3)?/(?P<name>projects/(?P<project>[^/]+)/locations/[^/]+/processors/[^/]+(?:/processorVersions/[^/:]+)?)"
    r":process"
)
_REMEMBERED: Final = 64
_IMAGES: Final = ("image/png", "image/jpeg", "image/tiff", "image/gif", "image/bmp", "image/webp")


@dataclass(frozen=True)
class _Wish:
    """What of a document is asked for, and how."""

    kind: str
    pages: tuple[int, ...]
    mask: str
    numeric: bool


class DocumentAi:
    def __init__(self, state: State) -> None:
        self._state = state
        self._reader = Reader()
        self._known: dict[tuple[str, _Wish], bytes] = {}

    def find(self, request: Request) -> str | None:
        if request.method != "POST":
            return None
        if request.path == "/google/token":
            return "docai.token"
        found = _PATH.fullmatch(request.path)
        if found is None:
            return None
        request.groups = found.groupdict()
        return "docai.process"

    async def prepare(self, route: str, request: Request) -> Work:
        if route == "docai.token":
            return Work(self._token(request))
        key = request.headers.get("x-goog-api-key") or request.query.get("key")
        if self._state.settings.auth and not (request.bearer() or key):
            raise Refused(self.unauthorized(route))
        asked = request.json()
        if asked is None:
            raise Refused(google.error(400, "Invalid JSON payload received."))
        data, kind = self._content(asked)
        fingerprint = sha256(data).hexdigest()
        pages = 1
        if kind == "application/pdf":
            pages = await self._count(data)
            self._check_pages(pages, imageless=asked.get("imagelessMode") is True)
        chosen = _chosen(asked, pages)
        numeric = request.query.get("$alt", request.query.get("alt", "")) == "json;enum-encoding=int"

        async def do() -> Reply:
            ask = partial(
                self._answer, data, fingerprint, _Wish(kind, tuple(chosen), str(asked.get("fieldMask", "")), numeric)
            )
            return encoded_reply(200, await asyncio.get_running_loop().run_in_executor(self._state.parsers, ask))

        return Work(do, {"pages": len(chosen)}, fingerprint=fingerprint)

    def denied(self, route: str, denial: Denial | None, fault: Fault) -> Reply:  # noqa: ARG002 - one route is counted
        return google.exhausted(_SERVICE, "projects/123456789", denial, fault, self._state.clock)

    def unauthorized(self, route: str) -> Reply:  # noqa: ARG002 - the same for all
        return google.error(
            401, "", google.info("ACCESS_TOKEN_EXPIRED", "googleapis.com", service=_SERVICE), www_authenticate="Bearer"
        )

    def broken(self, route: str, status: int) -> Reply:  # noqa: ARG002 - the same for all
        return google.error(status)

    def finish(self, route: str, request: Request, reply: Reply) -> None:
        pass

    def _token(self, request: Request) -> Any:  # noqa: ANN401 - a coroutine function
        """An OAuth token for a service account, so that Google's own credentials work too."""

        async def do() -> Reply:
            grant = parse_qs(request.body.decode(errors="replace")).get("grant_type", [""])[0]
            if not grant:
                return json_reply(400, {"error": "invalid_request", "error_description": "Missing grant_type."})
            return json_reply(
                200, {"access_token": "ya29.simulated", "expires_in": 3599, "token_type": "Bearer", "scope": ""}
            )

        return do

    def _content(self, asked: dict[str, Any]) -> tuple[bytes, str]:
        raw = asked.get("rawDocument")
        if not isinstance(raw, dict):
            raise Refused(
                google.error(400, "Exactly one of raw_document, inline_document or gcs_document must be set.")
            )
        content = raw.get("content", "")
        try:
            padded = content + "=" * (-len(content) % 4)
            data = base64.b64decode(padded.translate({45: 43, 95: 47}), validate=True)
        except (binascii.Error, ValueError, TypeError, AttributeError):
            message = "Invalid value at 'raw_document.content' (TYPE_BYTES), Base64 decoding failed"
            raise Refused(google.error(400, message)) from None
        limit = self._state.settings.docai.max_bytes
        if len(data) > limit:
            raise Refused(
                _bad(
                    f"Document size ({len(data)}) exceeds the limit: {limit}.",
                    "DOCUMENT_SIZE_LIMIT_EXCEEDED",
                    limit=str(limit),
                    size=str(len(data)),
                )
            )
        kind = str(raw.get("mimeType", ""))
        if kind != "application/pdf" and kind not in _IMAGES:
            raise Refused(_bad(f"Unsupported mime type: {kind}.", "UNSUPPORTED_MIME_TYPE", mime_type=kind))
        if not data:
            raise Refused(_bad("Document has no pages.", "NO_PAGES"))
        return data, kind

    async def _count(self, data: bytes) -> int:
        loop = asyncio.get_running_loop()
        try:
            pages = await loop.run_in_executor(self._state.parsers, page_count, data)
        except Unreadable:
            raise Refused(
                _bad("Request contains an invalid argument: the PDF cannot be read.", "INVALID_PDF")
            ) from None
        if not pages:
            raise Refused(_bad("Document has no pages.", "NO_PAGES"))
        return pages

    def _check_pages(self, pages: int, *, imageless: bool) -> None:
        plain, most = self._state.settings.docai.max_pages, self._state.settings.docai.max_pages_imageless
        if pages <= (most if imageless else plain):
            return
        message = f"Document pages exceed the limit: {most if imageless else plain} got {pages}"
        found = {"page_limit": str(plain), "pages": str(pages)}
        if imageless:
            reason = "PAGE_LIMIT_EXCEEDED_IN_IMAGELESS_MODE"
            raise Refused(_bad(message, reason, **found, imageless_page_limit=str(most)))
        raise Refused(_bad(message, "PAGE_LIMIT_EXCEEDED", **found))

    def _answer(self, data: bytes, fingerprint: str, wish: _Wish) -> bytes:
        """The last ones are remembered: a call that comes again must not cost the machine that is measured."""
        found = self._known.pop((fingerprint, wish), None)
        if found is None:
            read = self._reader.pages(data) if wish.kind == "application/pdf" else [Page(1000.0, 1000.0)]
            made = masked(document(read, wish.pages, wish.kind), wish.mask)
            found = encoded({"document": numbered(made) if wish.numeric else made})
            if len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
        self._known[fingerprint, wish] = found
        return found


def _chosen(asked: dict[str, Any], pages: int) -> list[int]:
    """The pages that are asked for, counted from 1; the others are neither read nor paid."""
    options = asked.get("processOptions") or {}
    try:
        if "individualPageSelector" in options:
            wanted = {int(each) for each in options["individualPageSelector"].get("pages", [])}
        elif "fromStart" in options:
            wanted = set(range(1, min(int(options["fromStart"]), pages) + 1))
        elif "fromEnd" in options:
            wanted = set(range(max(1, pages - int(options["fromEnd"]) + 1), pages + 1))
        else:
            wanted = set(range(1, pages + 1))
    except (AttributeError, TypeError, ValueError):
        wanted = {0}
    if wanted - set(range(1, pages + 1)):
        raise Refused(google.error(400, "Invalid page selector: a page is out of range."))
    return sorted(wanted)


def _bad(message: str, reason: str, **metadata: str) -> Reply:
    return google.error(
        400, message, google.info(reason, _SERVICE, **metadata), google.violation("raw_document.content", message)
    )
