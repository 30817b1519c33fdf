from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pikepdf
import pytest

from forebay.testing import Simulated
from tests.simulate.ground import DOCUMENT, PDF, Clients, broken, document


def tagged(clients: Clients, data: bytes = DOCUMENT) -> bytes:
    done = clients.ended(clients.autotag(data).headers["location"])
    assert done["status"] == "done", done
    return clients.http.get(done["tagged-pdf"]["downloadUri"]).content


def marks(page: pikepdf.Page) -> list[int]:
    """The ids of the marked content of a page, each of which must be closed again."""
    found, depth = [], 0
    for step in pikepdf.parse_content_stream(page):
        name = str(step.operator)
        if name == "BDC":
            found.append(int(step.operands[1].MCID))
            depth += 1
        elif name == "EMC":
            depth -= 1
        assert 0 <= depth <= 1
    assert depth == 0
    return found


def orphans(pdf: pikepdf.Pdf) -> list[str]:
    """Marked content that the tree does not have, or has elsewhere than the parent tree says."""
    root = pdf.Root.StructTreeRoot
    numbers = list(root.ParentTree.Nums)
    parents = {int(key): value for key, value in zip(numbers[::2], numbers[1::2], strict=True)}
    wrong = []
    for index, page in enumerate(pdf.pages):
        elements = list(parents.get(int(page.obj.get("/StructParents", -1)), pikepdf.Array()))
        for mark in marks(page):
            element = elements[mark] if mark < len(elements) else None
            if element is None or int(element.K) != mark or element.Pg.objgen != page.obj.objgen:
                wrong.append(f"page {index} mark {mark}")
            elif element.P.objgen != root.K.objgen or element.objgen not in [each.objgen for each in root.K.K]:
                wrong.append(f"page {index} mark {mark} hangs nowhere")
    return wrong


@pytest.mark.slow
def test_all_marked_content_of_a_tagged_document_hangs_in_its_tree(clients: Clients) -> None:
    with pikepdf.open(io.BytesIO(tagged(clients))) as pdf:
        assert pdf.Root.MarkInfo.Marked
        assert str(pdf.Root.Lang) == "en"
        assert all(marks(page) for page in pdf.pages)
        assert orphans(pdf) == []
        del pdf.Root.StructTreeRoot.ParentTree.Nums[1][0]
        assert orphans(pdf)


def test_a_tagged_document_is_tagged_anew(clients: Clients) -> None:
    with pikepdf.open(io.BytesIO(tagged(clients, tagged(clients)))) as pdf:
        assert orphans(pdf) == []


def test_links_hang_in_the_tree_too(clients: Clients) -> None:
    with pikepdf.open(io.BytesIO(document("one", "two"))) as pdf:
        link = pikepdf.Dictionary(Type=pikepdf.Name.Annot, Subtype=pikepdf.Name.Link, Rect=[0, 0, 9, 9])
        pdf.pages[1].Annots = pikepdf.Array([pdf.make_indirect(link)])
        out = io.BytesIO()
        pdf.save(out)
    with pikepdf.open(io.BytesIO(tagged(clients, out.getvalue()))) as pdf:
        nums = list(pdf.Root.StructTreeRoot.ParentTree.Nums)
        key = int(pdf.pages[1].Annots[0].StructParent)
        element = nums[2 * key + 1]
        assert nums[2 * key] == key
        assert element.S == "/Link"
        assert element.K.Obj.objgen == pdf.pages[1].Annots[0].objgen


def test_a_job_is_in_progress_until_its_time_is_over(clients: Clients, sim: Simulated) -> None:
    sim.change(latency={"adobe.job": {"s": 0.8}}, adobe={"retry_after_s": 3})
    location = clients.autotag().headers["location"]
    poll = clients.adobe("GET", location)
    assert (poll.status_code, poll.json(), poll.headers["retry-after"]) == (200, {"status": "in progress"}, "3")
    assert clients.ended(location)["status"] == "done"
    (job,) = sim.calls("adobe.job")
    assert job["ended"] - job["arrived"] >= 0.8
    assert job["units"] == {"pages": 3, "transactions": 30}


def test_storage_takes_signed_addresses_and_nothing_else(clients: Clients) -> None:
    asset = clients.adobe("POST", "/assets", json={"mediaType": PDF}).json()
    put = clients.http.put
    for url, headers, code in (
        (asset["uploadUri"] + "0", {"content-type": PDF}, "SignatureDoesNotMatch"),
        (asset["uploadUri"], {"content-type": "text/plain"}, "SignatureDoesNotMatch"),
        (asset["uploadUri"], {"content-type": PDF, "authorization": "Bearer leaked"}, "InvalidArgument"),
    ):
        assert f"<Code>{code}</Code>" in put(url, content=b"x", headers=headers).text
    assert put(asset["uploadUri"], content=b"x", headers={"content-type": PDF}).status_code == 200
    assert clients.http.get(asset["uploadUri"]).status_code == 403


def test_assets_are_gone_when_their_time_is_over(clients: Clients, sim: Simulated) -> None:
    sim.change(adobe={"asset_ttl_s": 0.001})
    asset = clients.adobe("POST", "/assets", json={"mediaType": PDF}).json()
    time.sleep(0.01)
    gone = clients.http.put(asset["uploadUri"], content=b"x", headers={"content-type": PDF})
    assert (gone.status_code, "Request has expired" in gone.text) == (403, True)
    assert clients.adobe("GET", f"/assets/{asset['assetID']}").json()["error"]["code"] == "NOT_FOUND"


def test_what_is_no_pdf_fails_as_a_job(clients: Clients) -> None:
    failed = clients.ended(clients.autotag(broken()).headers["location"])
    assert (failed["status"], failed["error"]["code"], failed["error"]["status"]) == ("failed", "BAD_PDF", 400)


def test_both_kinds_of_429(clients: Clients) -> None:
    assert clients.adobe("POST", "/assets", json={"mediaType": PDF}, fault="429").json()["error_code"] == "429050"
    assert clients.autotag(fault="429").json()["error"]["code"] == "TOO_MANY_REQUESTS"
    assert clients.autotag(fault="quota").json()["error"]["code"] == "INSUFFICIENT_QUOTA"
    assert "retry-after" not in clients.autotag(fault="429").headers


def test_a_month_of_transactions_runs_out_and_comes_back(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"adobe": {"month": {"n": 30, "unit": "transactions"}}})
    assert clients.autotag().status_code == 201
    over = clients.autotag()
    assert (over.status_code, over.json()["error"]["code"]) == (429, "INSUFFICIENT_QUOTA")
    assert sim.verdict()["quotas"]["adobe"]["month"] == {"limit": 30, "unit": "transactions", "used": 30}


@pytest.mark.slow
def test_jobs_at_once_are_a_quota_of_their_own(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"adobe.job": {"in_flight": 1}}, latency={"adobe.job": {"s": 1.5}})
    first = clients.autotag()
    assert (first.status_code, clients.autotag().status_code) == (201, 429)
    clients.ended(first.headers["location"])
    assert clients.autotag().status_code == 201
    assert sim.verdict()["quotas"]["adobe.job"] == {
        "in_flight": {"limit": 1, "peak": 1},
        "windows": [],
        "refused": 1,
        "within": False,
    }


@pytest.mark.slow
def test_a_token_runs_out_in_the_middle_of_a_job(clients: Clients, sim: Simulated) -> None:
    location = clients.autotag().headers["location"]
    sim.expire_tokens()
    assert clients.adobe("GET", location).status_code == 401
    assert clients.adobe("POST", "/assets", json={"mediaType": PDF}).json()["error_code"] == "401013"


@pytest.mark.slow
def test_a_request_id_is_given_back(clients: Clients) -> None:
    answer = clients.http.post("/token", data={"client_id": "a"}, headers={"x-request-id": "mine"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (400, "mine")


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[dict[str, Any]], threading.Event]]:
    told: list[dict[str, Any]] = []
    came = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(
                json.loads(self.rfile.read(int(self.headers["content-length"]))) | {"key": self.headers["x-key"]}
            )
            self.send_response(200)
            self.end_headers()
            came.set()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/told", told, came
        server.shutdown()
        thread.join()


def test_a_job_tells_of_its_end(clients: Clients, receiver: tuple[str, list[dict[str, Any]], threading.Event]) -> None:
    url, told, came = receiver
    notifiers = [{"type": "CALLBACK", "data": {"url": url, "headers": {"x-key": "k"}}}]
    location = clients.autotag(notifiers=notifiers).headers["location"]
    assert came.wait(20)
    assert told[0]["jobID"] in location
    assert (told[0]["status"], told[0]["key"]) == ("done", "k")
    assert clients.http.get(told[0]["tagged-pdf"]["downloadUri"]).content[:5] == b"%PDF-"
