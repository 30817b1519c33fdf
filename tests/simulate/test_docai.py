from __future__ import annotations

import io
from typing import Any

import pikepdf
import pytest

from forebay.testing import Simulated
from tests.simulate.ground import DOCUMENT, Clients, broken, document, process


def anchored(found: dict[str, Any], layout: dict[str, Any]) -> str:
    return "".join(
        found["text"][int(part.get("startIndex", "0")) : int(part["endIndex"])]
        for part in layout.get("textAnchor", {}).get("textSegments", [])
    )


@pytest.mark.slow
def test_every_token_line_and_block_is_anchored_in_the_text(clients: Clients) -> None:
    found = clients.docai().json()["document"]
    assert found["mimeType"] == "application/pdf"
    for page in found["pages"]:
        whole = anchored(found, page["layout"])
        for kind in ("tokens", "lines", "paragraphs", "blocks"):
            assert "".join(anchored(found, each["layout"]) for each in page[kind]) == whole
    assert "".join(anchored(found, page["layout"]) for page in found["pages"]) == found["text"]


@pytest.mark.slow
def test_zeros_are_left_out_and_offsets_are_strings(clients: Clients) -> None:
    first = clients.docai().json()["document"]["pages"][0]
    assert first["tokens"][0]["layout"]["textAnchor"] == {"textSegments": [{"endIndex": "4"}]}
    assert first["layout"]["boundingPoly"]["normalizedVertices"] == [{}, {"x": 1.0}, {"x": 1.0, "y": 1.0}, {"y": 1.0}]
    assert "image" not in first


def test_a_page_is_the_same_in_whatever_document_it_stands(clients: Clients) -> None:
    texts = ["The first page.\nIt has two lines.", "Die zweite Seite.", "La dernière page."]
    whole = clients.docai(process(document(*texts))).json()["document"]
    pieces = [clients.docai(process(document(text))).json()["document"] for text in texts]
    assert whole["text"] == "".join(piece["text"] for piece in pieces)
    for page, piece in zip(whole["pages"], pieces, strict=True):
        boxes = [each["layout"]["boundingPoly"] for each in page["tokens"]]
        assert boxes == [each["layout"]["boundingPoly"] for each in piece["pages"][0]["tokens"]]


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_words_of_a_turned_page_lie_where_a_reader_sees_them(clients: Clients, turn: int) -> None:
    with pikepdf.open(io.BytesIO(document("Upper left"))) as pdf:
        pdf.pages[0].Rotate = turn
        out = io.BytesIO()
        pdf.save(out)
    corner = clients.docai(process(out.getvalue())).json()["document"]["pages"][0]["tokens"][0]["layout"]
    vertex = corner["boundingPoly"]["normalizedVertices"][0]
    across, down = {90: (0.85, 0.1), 180: (0.8, 0.85), 270: (0.05, 0.8)}[turn]
    assert vertex["x"] == pytest.approx(across, abs=0.1)
    assert vertex["y"] == pytest.approx(down, abs=0.1)


def test_offsets_count_code_points(clients: Clients) -> None:
    found = clients.docai(process(document("caf\xe9 $$ cr\xe8me"))).json()["document"]
    words = [anchored(found, each["layout"]) for each in found["pages"][0]["tokens"]]
    assert words == ["caf\xe9 ", "\U0001f600\U0001f600 ", "cr\xe8me\n"]


def test_a_selector_chooses_pages_and_only_they_are_counted(clients: Clients, sim: Simulated) -> None:
    chosen = {"individualPageSelector": {"pages": [3, 1]}}
    found = clients.docai(process(processOptions=chosen)).json()["document"]
    assert [page["pageNumber"] for page in found["pages"]] == [1, 3]
    assert [
        page["pageNumber"] for page in clients.docai(process(processOptions={"fromEnd": 1})).json()["document"]["pages"]
    ] == [3]
    assert [call["units"] for call in sim.calls()] == [{"pages": 2}, {"pages": 1}]


def test_a_field_mask_leaves_the_rest_out(clients: Clients) -> None:
    found = clients.docai(process(fieldMask="text,pages.pageNumber")).json()["document"]
    assert found.keys() == {"text", "pages"}
    assert found["pages"] == [{"pageNumber": 1}, {"pageNumber": 2}, {"pageNumber": 3}]


def test_choices_are_numbers_for_those_who_ask_for_numbers(clients: Clients) -> None:
    asked = "/v1/projects/p/locations/us/processors/abc/processorVersions/v1:process?%24alt=json%3Benum-encoding%3Dint"
    token = clients.docai(path=asked).json()["document"]["pages"][0]["tokens"][0]
    assert token["detectedBreak"] == {"type": 1}
    assert token["layout"]["orientation"] == 1


def refused(clients: Clients, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    answer = clients.docai(body)
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    return answer.status_code, error


def test_too_many_pages_are_refused_whatever_is_selected(clients: Clients, sim: Simulated) -> None:
    long = document(*["page"] * 16)
    status, error = refused(clients, process(long, processOptions={"fromStart": 1}))
    assert (status, error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["details"][0]["reason"] == "PAGE_LIMIT_EXCEEDED"
    assert error["details"][0]["metadata"] == {"page_limit": "15", "pages": "16"}
    assert clients.docai(process(long, imagelessMode=True)).status_code == 200
    _, error = refused(clients, process(document(*["page"] * 31), imagelessMode=True))
    assert error["details"][0]["reason"] == "PAGE_LIMIT_EXCEEDED_IN_IMAGELESS_MODE"
    assert error["details"][0]["metadata"]["imageless_page_limit"] == "30"
    assert [call["paid"] for call in sim.calls()] == [False, True, False]


def test_too_many_bytes_are_refused(clients: Clients, sim: Simulated) -> None:
    sim.change(docai={"max_bytes": 1000})
    _, error = refused(clients, process())
    assert error["details"][0]["reason"] == "DOCUMENT_SIZE_LIMIT_EXCEEDED"
    assert error["details"][0]["metadata"] == {"limit": "1000", "size": str(len(DOCUMENT))}
    assert error["details"][1]["fieldViolations"][0]["field"] == "raw_document.content"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (process(b"hello", kind="text/plain"), "UNSUPPORTED_MIME_TYPE"),
        (process(b""), "NO_PAGES"),
        (process(broken()), "INVALID_PDF"),
    ],
)
def test_what_is_no_document_is_refused(clients: Clients, body: dict[str, Any], reason: str) -> None:
    status, error = refused(clients, body)
    assert status == 400
    assert error["details"][0]["reason"] == reason


def test_bad_base64_bad_json_and_no_document_are_refused(clients: Clients) -> None:
    assert refused(clients, {"rawDocument": {"content": "&&&", "mimeType": "application/pdf"}})[0] == 400
    assert refused(clients, {"name": "x"})[0] == 400
    answer = clients.http.post(
        "/v1/projects/p/locations/us/processors/abc:process", content=b"{", headers={"authorization": "Bearer x"}
    )
    assert answer.status_code == 400


def test_a_call_without_a_token_is_refused(clients: Clients, sim: Simulated) -> None:
    answer = clients.http.post("/v1/projects/p/locations/us/processors/abc:process", json=process())
    assert answer.status_code == 401
    assert answer.json()["error"]["status"] == "UNAUTHENTICATED"
    sim.change(auth=False)
    assert clients.http.post("/v1/projects/p/locations/us/processors/abc:process", json=process()).status_code == 200


def test_a_service_account_gets_a_token(clients: Clients) -> None:
    grant = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "a.b.c"}
    assert clients.http.post("/google/token", data=grant).json()["access_token"]
