from __future__ import annotations

import io
import socket
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from forebay.app.forebay import Forebay
from forebay.engine.signals import Permanent, Retry
from forebay.errors import BadInput, IdempotencyConflict, MaybeApplied
from forebay.ids import random_id
from forebay.model.document import Page
from forebay.model.exchange import Action, Submitted
from forebay.model.job import NewJob
from forebay.model.query import Query
from forebay.model.task import NewTask, Role
from forebay.processors.base import Chunk
from forebay.processors.parsers import Parsers
from forebay.rules import verdict
from forebay.server import submitting
from forebay.settings import load
from tests.documents.hostile import user_password
from tests.pipelines.ground import Ground, as_pages, pdf
from tests.pipelines.works import work
from tests.server.ground import DOCUMENT, NOBODY, PDF, Service, problem, serving


def drafts(folder: Path) -> list[Path]:
    return [*(folder / "blobs" / "tmp").iterdir()]


def jobs(app: Forebay) -> int:
    return len(app.ledger.list_jobs(Query()).items)


def test_a_document_becomes_a_job_and_its_result(service: Service) -> None:
    answer = service.post("/v1/jobs", content=DOCUMENT, headers=PDF, params={"name": "Über/../scan.pdf", "tags": "a,b"})
    assert answer.status_code == 202
    job_id = answer.json()["id"]
    assert answer.headers["location"] == f"/v1/jobs/{job_id}"
    problem(service.get(f"/v1/jobs/{job_id}/result"), 409, "not_completed")
    problem(service.get(f"/v1/jobs/{job_id}/result", params={"partial": 1}), 409, "not_completed")
    assert service.get(f"/v1/jobs/{job_id}/why").json()["reasons"][-1]["code"] == "no_worker"
    work(service.app)
    found = service.get(answer.headers["location"]).json()
    assert (found["status"], found["label"], found["tags"]) == ("completed", "scan.pdf", ["a", "b"])
    result = service.get(f"/v1/jobs/{job_id}/result")
    assert result.json()["pages"][0]["number"] == 1
    markdown = service.get(f"/v1/jobs/{job_id}/result", params={"format": "md"})
    assert "Page 1" in markdown.text
    assert "scan.md" in markdown.headers["content-disposition"]
    assert service.get(f"/v1/jobs/{job_id}/chunks").json()["items"][0]["status"] == "completed"
    problem(service.get(f"/v1/jobs/{job_id}/result", params={"format": "exe"}), 422, "bad_input")


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (Retry("closed", error_class="service_unavailable"), 503, "service_unavailable"),
        (Retry("too long", error_class="parser_timeout"), 422, "parser_timeout"),
        (Permanent("torn", error_class="corrupted_content"), 422, "corrupted_content"),
        (Permanent("oops", error_class="bug"), 500, "bug"),
    ],
)
def test_an_output_that_cannot_be_made_is_answered_by_the_class_of_what_failed(
    service: Service, monkeypatch: pytest.MonkeyPatch, failure: Exception, status: int, code: str
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise failure

    job_id = service.submit()
    work(service.app)
    monkeypatch.setattr(Parsers, "call", fails)
    answer = service.get(f"/v1/jobs/{job_id}/result", params={"format": "pdf"})
    problem(answer, status, code)
    assert ("retry-after" in answer.headers) is (status == 503)


def test_a_result_has_an_etag_and_ranges(service: Service) -> None:
    job_id = service.submit()
    work(service.app)
    path = f"/v1/jobs/{job_id}/result"
    whole = service.get(path)
    etag = whole.headers["etag"]
    assert service.get(path, headers={"if-none-match": etag}).status_code == 304
    part = service.get(path, headers={"range": "bytes=2-9"})
    assert (part.status_code, part.content) == (206, whole.content[2:10])
    assert part.headers["content-range"] == f"bytes 2-9/{len(whole.content)}"
    assert service.get(path, headers={"range": "bytes=-4"}).content == whole.content[-4:]
    assert service.get(path, headers={"range": "pages=1"}).content == whole.content
    too_long = {"range": f"bytes={','.join(['2-9'] * 500)}"}, {"range": "bytes=2-9", "if-range": f'"{"x" * 1500}"'}
    for headers in too_long:
        ignored = service.get(path, headers=headers)
        assert (ignored.status_code, ignored.content) == (200, whole.content)
    beyond = service.get(path, headers={"range": "bytes=999999-"})
    problem(beyond, 416, "range_not_there")
    assert service.get(path, params={"format": "md"}).headers["etag"] != etag


@pytest.mark.slow
def test_a_range_of_a_result_that_was_made_anew_gets_the_whole(service: Service) -> None:
    job_id = service.submit()
    work(service.app)
    path = f"/v1/jobs/{job_id}/result"
    whole = service.get(path)
    etag = whole.headers["etag"]
    part = service.get(path, headers={"range": "bytes=2-9", "if-range": etag})
    assert (part.status_code, part.content) == (206, whole.content[2:10])
    for other in ('"older"', f"W/{etag}", etag.strip('"'), "Wed, 21 Oct 2026 07:28:00 GMT"):
        for wanted in ("bytes=2-9", "bytes=999999-"):
            again = service.get(path, headers={"range": wanted, "if-range": other})
            assert (again.status_code, again.content) == (200, whole.content), other


def test_a_form_brings_the_document_and_its_options(service: Service) -> None:
    answer = service.post(
        "/v1/jobs",
        data={"priority": "5", "options": "{}", "tags": "one"},
        files={"file": ("C:\\x\\..\\a\nb.pdf", io.BytesIO(DOCUMENT), "text/plain")},
    )
    assert answer.status_code == 202, answer.text
    found = service.get(answer.headers["location"]).json()
    assert found["tags"] == ["one"]
    assert "/" not in found["label"]
    assert "\n" not in found["label"]


def test_what_is_no_document_is_refused_by_its_content(service: Service, app: Forebay, tmp_path: Path) -> None:
    for raw in (b"PK\x03\x04 a zip", b"<html>named .pdf", b"MZ program", b"\x00\x01 odd", b"plain text"):
        answer = service.post("/v1/jobs", content=raw, headers=PDF, params={"name": "scan.pdf"})
        problem(answer, 415, "unsupported_format")
    problem(service.post("/v1/jobs", content=b"", headers=PDF), 422, "invalid_pdf")
    problem(service.post("/v1/jobs", content=b"<html>" + DOCUMENT, headers=PDF), 422, "invalid_pdf")
    problem(service.post("/v1/jobs", data={"priority": "1"}, files={"file": b""}), 422, "invalid_pdf")
    assert jobs(app) == 0
    assert drafts(tmp_path) == []


def blobs(folder: Path) -> list[Path]:
    """All that lies in the blob store, drafts as well."""
    return [each for each in (folder / "blobs").rglob("*") if each.is_file()]


def test_nothing_stays_of_a_document_that_is_refused_whatever_the_reason(
    service: Service, app: Forebay, tmp_path: Path
) -> None:
    large = DOCUMENT + b"\n" * (3 << 20)
    told = {"callback": "nope"}
    unknown, bad, each = {"options": '{"dpi": 1}'}, {"tags": "a" * 300}, {"callback_each": "true"}
    for raw in (DOCUMENT, large):
        for asked in (told, unknown, bad, each, {"priority": "1000"}, {"processor": "nobody"}):
            answer = service.post("/v1/jobs", files={"file": raw}, data=asked)
            assert answer.status_code in {404, 422}, answer.text
            answer = service.post("/v1/jobs", content=raw, headers=PDF, params=asked)
            assert answer.status_code in {404, 422}, answer.text
    # A zip says at its end what it is: by then all of it is there.
    zipped = service.post("/v1/jobs", content=b"PK\x03\x04" + bytes(3 << 20), params={"pipeline": "segment"})
    problem(zipped, 415, "unsupported_format")
    assert (blobs(tmp_path), jobs(app)) == ([], 0)


def test_what_is_refused_takes_nothing_from_those_who_have_the_same_document(service: Service, tmp_path: Path) -> None:
    service.submit()
    (kept,) = blobs(tmp_path)
    problem(service.post("/v1/jobs", files={"file": DOCUMENT}, data={"callback": "nope"}), 422, "bad_input")
    assert blobs(tmp_path) == [kept]


def test_a_key_that_stands_for_another_document_leaves_nothing_of_this_one(service: Service, tmp_path: Path) -> None:
    key = {"idempotency-key": "order 7"}
    service.submit(headers=key)
    before = blobs(tmp_path)
    problem(service.post("/v1/jobs", content=pdf(2), headers=PDF | key), 422, "idempotency_conflict")
    assert blobs(tmp_path) == before


def test_a_large_archive_is_told_by_its_end_and_kept(service: Service, app: Forebay, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("padding", bytes(3 << 20))
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", "<document/>")
    raw = packed.getvalue()
    service.submit(raw, params={"pipeline": "segment"})
    (kept,) = blobs(tmp_path)
    assert kept.read_bytes() == raw
    assert jobs(app) == 1


def test_forms_that_are_none_are_refused(service: Service) -> None:
    no_file = service.post("/v1/jobs", files={"priority": (None, "1")})
    problem(no_file, 422, "no_file")
    two = service.post("/v1/jobs", files=[("file", DOCUMENT), ("file", DOCUMENT)])
    problem(two, 422, "two_files")
    cut = service.post("/v1/jobs", content=b"--x\r\n", headers={"content-type": "multipart/form-data; boundary=x"})
    problem(cut, 400, "bad_form")
    none = service.post("/v1/jobs", content=b"--x\r\n", headers={"content-type": "multipart/form-data"})
    problem(none, 400, "bad_form")
    unknown = service.post("/v1/jobs", content=DOCUMENT, headers=PDF, params={"color": "red"})
    assert problem(unknown, 422, "invalid_request")["errors"][0]["at"] == "query.color"
    problem(service.post("/v1/jobs", content=DOCUMENT, headers=PDF, params={"processor": "nobody"}), 404, "not_found")


def test_a_document_that_is_sent_as_a_field_is_told_to_have_a_filename(service: Service) -> None:
    for raw in (DOCUMENT, DOCUMENT + b"\n" * 100_000):
        found = problem(service.post("/v1/jobs", files={"file": (None, raw)}), 422, "no_filename")
        assert "file=@" in found["remedy"]
        found = problem(service.post("/v1/jobs", files={"scan": (None, b"a" * 100_000)}), 413, "form_too_large")
        assert "filename" in found["remedy"]


def test_a_refusal_is_in_words_of_http(service: Service) -> None:
    other = problem(service.post("/v1/jobs", content=b"PK\x03\x04 x", headers=PDF), 415, "unsupported_format")
    assert "`segment`" in other["remedy"]
    assert "--" not in other["remedy"]
    bad = service.post("/v1/jobs", content=DOCUMENT, headers=PDF, params={"options": "no"})
    said = "query.options: The options is not JSON: 'Expecting value: line 1 column 1 (char 0)'."
    assert problem(bad, 422, "invalid_request")["detail"] == said
    assert [each.remedy for each in verdict.TABLE.values() if "--" in each.remedy] == []


@pytest.mark.parametrize("bound", ["upload_max_bytes", "document_max_bytes"])
def test_a_document_that_is_too_large_is_refused_early(tmp_path: Path, bound: str) -> None:
    small = Forebay(
        f"sqlite:///{tmp_path}/forebay.db",
        blobs=f"file://{tmp_path}/blobs",
        settings=load({bound: 4096, "home": str(tmp_path)}),
    )
    exact = DOCUMENT + b"\n" * (4096 - len(DOCUMENT))
    with small, serving(small) as service:
        assert service.post("/v1/jobs", content=exact, headers=PDF).status_code == 202
        found = problem(service.post("/v1/jobs", content=exact + b"\n", headers=PDF), 413, "too_large")
        assert bound in found["remedy"]
        # Announced, and refused before any of it was sent.
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n"
        assert service.say(head).startswith(b"HTTP/1.1 413 ")
        chunked = service.post("/v1/jobs", content=iter([exact, b"\n"]), headers=PDF)
        assert bound in problem(chunked, 413, "too_large")["remedy"]
        assert service.post("/v1/jobs", content=iter([exact]), headers=PDF).status_code == 202
        assert jobs(small) == 1
        assert drafts(tmp_path) == []


def test_a_client_that_vanishes_leaves_nothing_behind(service: Service, app: Forebay, tmp_path: Path) -> None:
    head = (
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/pdf\r\nContent-Length: 5000000\r\n\r\n"
    )
    with socket.create_connection(service.place) as line:
        line.sendall(head + DOCUMENT + b"\n" * 2_000_000)
        ends_at = time.monotonic() + 40
        while not drafts(tmp_path) and time.monotonic() < ends_at:
            time.sleep(0.01)
        assert drafts(tmp_path), "it was being written"
    while drafts(tmp_path) and time.monotonic() < ends_at:
        time.sleep(0.01)
    assert drafts(tmp_path) == []
    assert jobs(app) == 0
    assert service.get("/livez").status_code == 200


def test_bytes_that_were_left_behind_would_be_seen(service: Service, app: Forebay, tmp_path: Path) -> None:
    with app.blobs.writing("default") as blob:
        blob.write(DOCUMENT)
        assert drafts(tmp_path)
    assert drafts(tmp_path) == []


def test_a_key_stands_for_one_request(service: Service, app: Forebay) -> None:
    key = {"idempotency-key": "order 7"}
    first = service.post("/v1/jobs", content=DOCUMENT, headers=PDF | key)
    again = service.post("/v1/jobs", content=DOCUMENT, headers=PDF | key)
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert again.headers["forebay-replayed"] == "true"
    problem(service.post("/v1/jobs", content=pdf(2), headers=PDF | key), 422, "idempotency_conflict")
    for other in ({"pipeline": "segment"}, {"allow_holes": "true"}, {"options": '{"dpi": 300}'}, {"reuse": "false"}):
        asked = service.post("/v1/jobs", content=DOCUMENT, headers=PDF | key, params=other)
        problem(asked, 422, "idempotency_conflict")
    for other in ({"name": "b.pdf"}, {"tags": "x"}, {"priority": "3"}, {"callback": "https://example.com/"}):
        problem(
            service.post("/v1/jobs", content=DOCUMENT, headers=PDF | key, params=other), 422, "idempotency_conflict"
        )
    second = service.post("/v1/jobs", content=DOCUMENT, headers=PDF | {"idempotency-key": "order 8"})
    assert second.json()["id"] != first.json()["id"]
    assert jobs(app) == 2


@pytest.mark.slow
def test_the_key_of_a_server_that_was_killed_is_free_when_it_said_so(
    service: Service, app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"idempotency-key": "dead"}
    assert submitting._HELD_S <= 15
    monkeypatch.setattr(submitting, "_HELD_S", 3.0)
    assert app.ledger.begin_request("default", "dead", random_id(), submitting._HELD_S)  # as the dead one left it
    refused = service.post("/v1/jobs", content=DOCUMENT, headers=PDF | key)
    problem(refused, 409, "request_running")
    assert refused.headers["retry-after"] == "3"
    time.sleep(3)
    assert service.post("/v1/jobs", content=DOCUMENT, headers=PDF | key).status_code == 202


def test_a_key_is_kept_however_slowly_its_document_comes(
    service: Service, app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitting, "_HELD_S", 0.3)
    begin, kept = app.ledger.begin_request, threading.Semaphore(0)

    def counted(*arguments: Any) -> bool:  # noqa: ANN401 - of the ledger
        kept.release()
        return begin(*arguments)

    monkeypatch.setattr(app.ledger, "begin_request", counted)

    def slowly() -> Iterator[bytes]:
        yield DOCUMENT[:10]
        for _ in range(4):
            assert kept.acquire(timeout=20)
        yield DOCUMENT[10:]

    answer = service.post("/v1/jobs", content=slowly(), headers=PDF | {"idempotency-key": "slow"})
    assert answer.status_code == 202


def test_while_a_request_is_read_its_key_is_taken(
    service: Service, app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"idempotency-key": "slow"}
    taken, go_on = threading.Event(), threading.Event()
    begin_request = app.ledger.begin_request

    def begin(tenant: str, key: str, token: str, for_s: float) -> bool:
        began = begin_request(tenant, key, token, for_s)
        taken.set()
        return began

    monkeypatch.setattr(app.ledger, "begin_request", begin)

    def slowly() -> object:
        yield DOCUMENT[:10]
        go_on.wait(60)
        yield DOCUMENT[10:]

    answers: list[httpx2.Response] = []
    with httpx2.Client(base_url=service.base, timeout=20, trust_env=False) as other:
        thread = threading.Thread(
            target=lambda: answers.append(other.post("/v1/jobs", content=slowly(), headers=PDF | key))  # type: ignore[arg-type]  # an iterator of bytes
        )
        thread.start()
        assert taken.wait(30)
        problem(service.post("/v1/jobs", content=DOCUMENT, headers=PDF | key), 409, "request_running")
        # Another server over the same ledger says the same.
        with serving(app) as second:
            problem(second.post("/v1/jobs", content=DOCUMENT, headers=PDF | key), 409, "request_running")
        go_on.set()
        thread.join(30)
    assert answers[0].status_code == 202
    assert service.submit(headers=key) == answers[0].json()["id"]


@pytest.mark.slow
def test_who_prefers_to_wait_gets_the_end(service: Service) -> None:
    waited = service.post("/v1/jobs", content=DOCUMENT, headers=PDF | {"prefer": "respond-async, wait=1"})
    assert waited.status_code == 202
    work(service.app)
    again = service.post("/v1/jobs", content=DOCUMENT, headers=PDF | {"prefer": "wait=5"})
    assert (again.status_code, again.json()["status"]) == (201, "completed")
    assert again.headers["location"] == waited.headers["location"]
    assert (again.headers["forebay-replayed"], "forebay-replayed" in waited.headers) == ("true", False)


def test_lists_come_in_pages(service: Service) -> None:
    made = [service.submit(params={"reuse": "false"}) for _ in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        answer = service.get("/v1/jobs", params={"limit": 2} | ({"cursor": cursor} if cursor else {}))
        page = answer.json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == made[::-1]
    assert service.get("/v1/jobs", params={"status": "completed"}).json()["items"] == []
    for wrong in ("0", "-1", "501", "1000000000", "x"):
        problem(service.get("/v1/jobs", params={"limit": wrong}), 422, "invalid_request")
    first = service.get("/v1/jobs", params={"limit": 1}).json()["next"]
    for garbage in ("garbage", "1", "1.abc", "'--", first[:-1]):
        problem(service.get("/v1/jobs", params={"cursor": garbage}), 400, "bad_cursor")
    problem(service.get("/v1/dead", params={"cursor": first}), 400, "bad_cursor")


def test_jobs_are_canceled_retried_and_deleted(service: Service, app: Forebay) -> None:
    job_id = service.submit()
    path = f"/v1/jobs/{job_id}"
    problem(service.post(f"{path}/retry"), 409, "not_retryable")
    assert service.post(f"{path}/cancel", json={"note": "sent twice"}).status_code == 202
    assert service.get(path).json()["status"] == "canceled"
    problem(service.post(f"{path}/cancel"), 409, "already_canceled")
    assert service.post(f"{path}/retry", json={"force": True}).status_code == 202
    assert service.get(path).json()["status"] == "pending"
    work(app)
    problem(service.post(f"{path}/retry"), 409, "not_retryable")
    assert service.client.delete(path).status_code == 204
    problem(service.get(path), 404, "not_found")
    problem(service.client.delete(path), 404, "not_found")
    for verb in ("retry", "cancel"):
        problem(service.post(f"/v1/jobs/{NOBODY}/{verb}"), 404, "not_found")
    trail = service.get("/v1/audit").json()["items"]
    assert {line["verb"] for line in trail} == {"delete", "retry", "force", "cancel"}
    assert {line["note"] for line in trail} == {"", "sent twice"}


def test_a_document_that_could_not_even_be_opened_says_why_for_good(service: Service) -> None:
    """Nothing of it was read, so nobody is told to ask for a part, or to ask again."""
    job_id = service.submit(user_password())
    work(service.app)
    for partial in (0, 1):
        found = problem(service.get(f"/v1/jobs/{job_id}/result", params={"partial": partial}), 409, "not_completed")
        assert "password" in found["detail"]
        assert found["remedy"] == "Remove the password and hand it in again."
        assert "partial" not in str(found)
        assert ".." not in found["detail"]


@pytest.mark.slow
def test_what_was_read_so_far_is_handed_out_with_its_holes(service: Service, app: Forebay, tmp_path: Path) -> None:
    ground = Ground(app, tmp_path)
    ground.register(max_pages=2)
    job_id = service.submit(pdf(5), params={"processor": "noted"})
    app.ledger.pause("ocr.noted", Action(who="test"))
    ground.work_until(lambda: len(ground.chunks(job_id)) == 3)
    path = f"/v1/jobs/{job_id}/result"
    problem(service.get(path), 409, "not_completed")
    (hole,) = service.get(path, params={"partial": 1}).json()["summary"]["holes"]
    assert (hole["page_start"], hole["page_end"], hole["error_class"]) == (1, 5, "not_yet")

    def answer(chunk: Chunk) -> list[Page]:
        if chunk.page_start == 3:
            raise Permanent("It is torn", error_class="corrupted_content")
        return as_pages(chunk)

    ground.answer = answer
    app.ledger.resume("ocr.noted", Action(who="test"))
    ground.work()
    problem(service.get(path), 409, "not_completed")
    found = service.get(path, params={"partial": 1})
    (hole,) = found.json()["summary"]["holes"]
    assert (hole["page_start"], hole["page_end"], hole["error_class"]) == (3, 3, "corrupted_content")
    assert found.headers["forebay-holes"] == "3-3"
    assert "etag" not in found.headers
    assert "Page 5" in service.get(path, params={"partial": 1, "format": "md"}).text


def test_texts_are_for_the_pipeline_that_takes_them(service: Service, app: Forebay) -> None:
    text = b"# One\n\nThe first article.\n\n# Two\n\nThe second one.\n"
    problem(service.post("/v1/jobs", content=text, headers=PDF), 415, "unsupported_format")
    sent = service.post("/v1/jobs", content=text, params={"pipeline": "segment", "name": "notes.md"})
    assert sent.status_code == 202, sent.text
    form = service.post("/v1/jobs", files={"file": ("notes.md", text)}, data={"pipeline": "segment"})
    assert form.json()["id"] == sent.json()["id"]
    work(app)
    found = service.get(sent.headers["location"]).json()
    assert (found["status"], found["pipeline"]) == ("completed", "segment")
    assert "Two" in service.get(f"{sent.headers['location']}/result").text
    problem(service.post("/v1/jobs", content=text, params={"pipeline": "none"}), 422, "bad_input")
    problem(
        service.post("/v1/jobs", content=text, params={"pipeline": "segment", "processor": "local"}), 422, "bad_input"
    )
    large = b"PK\x03\x04" + b"x" * 2_000_000
    problem(service.post("/v1/jobs", content=large, params={"pipeline": "segment"}), 415, "unsupported_format")


def test_jobs_that_come_while_others_are_stored_are_stored_at_once_each_with_its_own_answer(
    service: Service, app: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, gate, groups = app.store_each, threading.Event(), list[int]()

    def held(new: Sequence[NewJob]) -> list[Submitted | Exception]:
        groups.append(len(new))
        assert gate.wait(10)
        return store(new)

    def keyed(document: bytes) -> httpx2.Response:
        return service.post("/v1/jobs", content=document, headers=PDF | {"idempotency-key": "one"})

    gate.set()
    assert keyed(DOCUMENT).status_code == 202
    gate.clear()
    monkeypatch.setattr(app, "store_each", held)
    with ThreadPoolExecutor(12) as pool:
        first = pool.submit(service.submit, DOCUMENT)
        while not groups:
            time.sleep(0.001)
        others = [pool.submit(service.submit, DOCUMENT + b"%" * number) for number in range(1, 9)]
        again = pool.submit(service.submit, DOCUMENT + b"%")
        time.sleep(0.3)
        gate.set()
        ids = [first.result(10), *(each.result(10) for each in others)]
    assert groups == [1, 9]
    assert len({*ids}) == 9
    assert again.result() == ids[1]
    assert jobs(app) == 10


@pytest.mark.parametrize("address", ["memory://", "sqlite:///{}/forebay.db"])
def test_jobs_that_are_stored_at_once_fail_alone_unless_the_store_fails(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(terms: str, key: str | None = "one") -> NewJob:
        split = NewTask(kind="ocr.split", role=Role.SPLIT)
        return NewJob(pipeline="ocr", tasks=(split,), idempotency_key=key, terms=(terms,))

    with Forebay(address.format(tmp_path), blobs="memory://") as app:
        kept, conflicting, same, other = app.store_each([job("a"), job("b"), job("a"), job("c", key=None)])
        assert [getattr(each, "outcome", None) for each in (kept, same, other)] == ["created", "existing", "created"]
        assert isinstance(conflicting, IdempotencyConflict)
        submit = app.ledger.submit

        def refuse(batch: Sequence[NewTask | NewJob]) -> list[Submitted]:
            if any(new.idempotency_key == "bad" for new in batch):
                raise BadInput("It cannot be stored.")
            return submit(batch)

        monkeypatch.setattr(app.ledger, "submit", refuse)
        fine, bad = app.store_each([job("d", key="fine"), job("e", key="bad")])
        assert isinstance(fine, Submitted)
        assert isinstance(bad, BadInput)

        def silent(_: object) -> list[Submitted]:
            raise MaybeApplied("It has not answered.")

        monkeypatch.setattr(app.ledger, "submit", silent)
        assert [type(each) for each in app.store_each([job("f", key=None)] * 2)] == [MaybeApplied] * 2


def test_a_ledger_whose_units_are_stored_one_by_one_stores_jobs_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would store the jobs of a group one after the other."""
    both = threading.Barrier(2)
    with (
        Forebay("memory://", blobs=f"file://{tmp_path}/blobs") as app,
        serving(app) as service,
        ThreadPoolExecutor(2) as pool,
    ):
        submit = app.ledger.submit

        def met(batch: Sequence[NewTask | NewJob]) -> list[Submitted]:
            both.wait(10)
            return submit(batch)

        monkeypatch.setattr(app.ledger, "submit", met)
        assert len({*pool.map(service.submit, (DOCUMENT, DOCUMENT + b"%"))}) == 2
