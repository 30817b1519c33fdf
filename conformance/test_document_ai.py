"""Google's own client of Document AI takes the simulator for the real thing."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import BadRequest, GoogleAPICallError, ServiceUnavailable, TooManyRequests
from google.cloud import documentai_v1 as documentai
from google.cloud.documentai_v1.services.document_processor_service.transports import (
    DocumentProcessorServiceRestTransport,
)
from google.oauth2.credentials import Credentials

from forebay.testing import Simulated

CREDENTIALS = Credentials("token")  # type: ignore[no-untyped-call]  # ships no types
NAME = "projects/p/locations/us/processors/abc123"


@pytest.fixture
def client(sim: Simulated) -> Any:
    host = sim.base.removeprefix("http://")
    transport = DocumentProcessorServiceRestTransport(host=host, credentials=CREDENTIALS, url_scheme="http")
    return documentai.DocumentProcessorServiceClient(transport=transport)


def request(document: bytes, **fields: Any) -> Any:
    raw = documentai.RawDocument(content=document, mime_type="application/pdf")
    return documentai.ProcessRequest(name=fields.pop("name", NAME), raw_document=raw, **fields)


def text_of(document: Any, layout: Any) -> str:
    return "".join(document.text[part.start_index : part.end_index] for part in layout.text_anchor.text_segments)


def test_words_lines_and_paragraphs_are_anchored_in_the_text(client: Any, document: bytes) -> None:
    found = client.process_document(request=request(document), retry=None).document
    assert [page.page_number for page in found.pages] == [1, 2, 3]
    first = found.pages[0]
    assert text_of(found, first.tokens[0].layout) == "The "
    assert text_of(found, first.lines[0].layout) == "The Water That Waits\n"
    assert text_of(found, first.paragraphs[0].layout).startswith("The Water That Waits")
    assert "".join(text_of(found, page.layout) for page in found.pages) == found.text
    assert "".join(text_of(found, token.layout) for page in found.pages for token in page.tokens) == found.text
    assert first.detected_languages[0].language_code == "en"
    assert first.tokens[0].detected_break.type_ == documentai.Document.Page.Token.DetectedBreak.Type.SPACE
    corners = first.layout.bounding_poly.normalized_vertices
    assert [(corner.x, corner.y) for corner in corners] == [(0, 0), (1, 0), (1, 1), (0, 1)]
    assert 0 < first.tokens[0].layout.confidence <= 1


def test_a_field_mask_and_a_page_selector(client: Any, document: bytes) -> None:
    options = documentai.ProcessOptions(
        individual_page_selector=documentai.ProcessOptions.IndividualPageSelector(pages=[2])
    )
    asked = request(
        document,
        name=f"{NAME}/processorVersions/pretrained",
        field_mask="text,pages.pageNumber",
        process_options=options,
    )
    found = client.process_document(request=asked, retry=None).document
    assert [page.page_number for page in found.pages] == [2]
    assert found.text
    assert not found.pages[0].tokens


def test_a_429_has_its_reason_and_its_retry_info(client: Any, sim: Simulated, document: bytes) -> None:
    sim.fault("docai", "429 form=info after=7")
    with pytest.raises(TooManyRequests) as raised:
        client.process_document(request=request(document), retry=None)
    info, retry = raised.value.details
    assert info["reason"] == "RATE_LIMIT_EXCEEDED"
    assert info["metadata"]["quota_limit_value"] == "120"
    assert retry == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}


def test_too_many_pages_are_refused_with_the_limit(client: Any, sim: Simulated, document: bytes) -> None:
    sim.change(docai={"max_pages": 2, "max_pages_imageless": 3})
    with pytest.raises(BadRequest) as raised:
        client.process_document(request=request(document), retry=None)
    info, where = raised.value.details
    assert info["reason"] == "PAGE_LIMIT_EXCEEDED"
    assert info["metadata"] == {"page_limit": "2", "pages": "3"}
    assert where["fieldViolations"][0]["field"] == "raw_document.content"
    assert client.process_document(request=request(document, imageless_mode=True), retry=None).document.text


@pytest.mark.parametrize(("fault", "kind"), [("503", ServiceUnavailable), ("502", GoogleAPICallError)])
def test_errors_of_the_server(client: Any, sim: Simulated, document: bytes, fault: str, kind: type[Exception]) -> None:
    sim.fault("docai", fault)
    with pytest.raises(kind):
        client.process_document(request=request(document), retry=None)
