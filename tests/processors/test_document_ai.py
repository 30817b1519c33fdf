from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from tempfile import TemporaryFile
from typing import Any

import pytest

from forebay import Chunk, Limit, Page, Permanent, Retry, Window
from forebay.errors import BadInput
from forebay.model.payload import Json
from forebay.processors.credentials import Key
from forebay.processors.document_ai import DocumentAi, Place
from tests.processors.provider import Caller, Provider, against, http

LIMIT = Limit("docai", in_flight=5, windows=[Window(1000, per_s=60, unit="pages")])


class Sizes:
    """What a parser child would say of the pages' sizes."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def call(self, verb: str, arguments: Mapping[str, Json], *, files: Sequence[int] = (), **_: Any) -> Json:  # noqa: ANN401 - of parsers
        assert verb == "sizes"
        return [[595.0, 842.0]] * self._count


def document(*texts: str) -> dict[str, Any]:
    whole = ""
    found = []
    for text in texts:
        anchor = {"textSegments": [{"startIndex": str(len(whole)), "endIndex": str(len(whole) + len(text))}]}
        found.append({"tokens": [{"layout": {"textAnchor": anchor}}]})
        whole += text
    return {"document": {"text": whole, "pages": found}}


def processed(
    provider: Provider,
    content: bytes = b"%PDF-",
    *,
    pages: int = 2,
    version: str | None = None,
    **options: Any,  # noqa: ANN401 - JSON
) -> list[Page]:
    async def scenario(caller: Caller, url: str) -> list[Page]:
        place = Place(url=url, project="p", location="eu", processor="abc", version=version)
        key = Key(url, "authorization", value="canary-docai", form="Bearer {}")
        docai = DocumentAi(place, transport=lambda: caller.transport, credentials=key, parser=lambda: Sizes(pages))
        with TemporaryFile() as file:
            file.write(content)
            file.flush()
            chunk = Chunk(document="d", page_start=1, page_end=pages, file=file, options=docai.checked(options))
            found = await docai.process(caller.context(), chunk)
        (window,) = caller.limiter.usage("docai").windows
        assert window.used == pages
        return list(found)

    return against(provider, scenario, limit=LIMIT)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 3 * 65_536 - 1, 3 * 65_536, 3 * 65_536 + 1])
def test_the_chunk_is_sent_whole_in_base64(size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    provider = Provider([http(200, document("a", "b"))])
    processed(provider, content[:size])
    (seen,) = provider.seen
    assert base64.b64decode(seen.json["rawDocument"]["content"], validate=True) == content[:size]
    assert seen.json["rawDocument"]["mimeType"] == "application/pdf"
    assert seen.target == "/v1/projects/p/locations/eu/processors/abc:process"
    assert seen.headers["authorization"] == "Bearer canary-docai"


def test_pages_come_back_as_they_were_read() -> None:
    found = processed(Provider([http(200, document("One ", "Two "))]))
    assert [page.text for page in found] == ["One", "Two"]
    assert {(page.processor, page.version, page.width) for page in found} == {("docai", "1:abc", 595.0)}


def test_the_options_are_in_the_request() -> None:
    provider = Provider([http(200, document("a", "b"))])
    processed(provider)
    processed(provider, imageless=False, language="de+en", native_pdf=True, version="v2")
    plain, full = (seen.json for seen in provider.seen)
    assert plain["imagelessMode"] is True
    assert "processOptions" not in plain
    assert full["imagelessMode"] is False
    assert full["processOptions"] == {
        "ocrConfig": {"enableNativePdfParsing": True, "hints": {"languageHints": ["de", "en"]}}
    }
    assert provider.seen[1].target.endswith("/processors/abc/processorVersions/v2:process")
    assert {"text", "pages.tokens", "pages.layout"} <= set(full["fieldMask"].split(","))
    assert "pages.image" not in full["fieldMask"].split(",")


def test_more_pages_than_a_call_with_images_takes_are_cut_before_anything_is_paid() -> None:
    provider = Provider([http(200, {})])
    with pytest.raises(Permanent) as caught:
        processed(provider, pages=16, imageless=False)
    assert caught.value.error_class == "replan"
    assert provider.seen == []


@pytest.mark.parametrize("body", [{}, {"document": {}}, {"document": {"text": "a", "pages": [{}]}}, []])
def test_an_answer_that_is_not_the_documents_pages_is_a_bad_response(body: object) -> None:
    with pytest.raises(Retry) as caught:
        processed(Provider([http(200, body)]))
    assert caught.value.error_class == "bad_response"


@pytest.mark.parametrize(
    "options",
    [{"dpi": 300}, {"imageless": "yes"}, {"native_pdf": 1}, {"language": "english!"}, {"language": 3}],
)
def test_options_it_does_not_have_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        offline().checked(options)


def test_options_have_one_form() -> None:
    assert offline().checked({"language": "en+de+en"}) == {"imageless": True, "language": "en+de", "native_pdf": False}


def test_what_another_processor_or_version_reads_is_another_result() -> None:
    made = [offline(processor, version).version for processor, version in (("abc", None), ("abc", "v1"), ("xyz", None))]
    assert len(set(made)) == 3


def test_a_full_chunk_fits_into_a_request() -> None:
    assert DocumentAi.max_bytes * 4 // 3 < 40_000_000


@pytest.mark.parametrize("processor", ["", "a/b", "../x", "a b", "abc:process?x"])
def test_a_processor_that_would_be_another_address_is_refused(processor: str) -> None:
    with pytest.raises(BadInput):
        offline(processor)


def offline(processor: str = "abc", version: str | None = None) -> DocumentAi:
    def never() -> Any:  # noqa: ANN401 - it does not return
        raise AssertionError

    place = Place(url="https://docai.example", project="p", location="eu", processor=processor, version=version)
    return DocumentAi(place, transport=never, credentials=Key(place.url, "x", value="y"), parser=never)
