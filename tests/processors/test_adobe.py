"""Adobe's processor against answers that are written out: what they mean, and where its requests may go."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from forebay import Chunk, Limit, Permanent, Reschedule, Retry
from forebay.errors import BadInput
from forebay.observe.redact import mask_text
from forebay.processors.adobe import Adobe
from forebay.processors.adobe_errors import failure, is_gone, judged, judged_storage, judged_submit
from forebay.processors.adobe_token import Client
from forebay.processors.base import UnderWay
from tests.processors.provider import Answer, Caller, Provider, Seen, against, http
from tests.processors.test_provider_errors import of_json, reply

LIMIT = Limit("adobe", in_flight=2)
HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
TOKEN = http(200, {"access_token": "canary-token", "expires_in": 86399})


def operation(status: int, code: str, message: str = "words") -> Any:  # noqa: ANN401 - a reply
    return of_json(status, {"error": {"code": code, "message": message, "status": status}})


@pytest.mark.parametrize(
    ("answer", "error_class"),
    [
        (operation(429, "TOO_MANY_REQUESTS"), "rate_limited"),
        (of_json(429, {"error_code": "429050", "message": "Too many requests"}), "rate_limited"),
        (of_json(429, {"error_code": "429001", "message": "…"}), "rate_limited"),
        (operation(429, "RATE_LIMIT_EXCEEDED"), "rate_limited"),
        (reply(429, HTML), "rate_limited"),
        (operation(429, "INSUFFICIENT_QUOTA"), "quota_exhausted"),
        (operation(403, "QUOTA_EXCEEDED"), "quota_exhausted"),
        (operation(400, "BAD_PDF", "content too complex"), "refused"),
        (operation(400, "BAD_PDF_LARGE_FILE"), "replan"),
        (operation(400, "FILE_SIZE_LIMIT_EXCEEDED"), "replan"),
        (operation(400, "PAGE_LIMIT_EXCEEDED"), "replan"),
        (operation(400, "BAD_PDF_PASSWORD_PROTECTED"), "encrypted"),
        (operation(400, "BAD_REQUEST"), "bad_response"),
        (operation(413, ""), "replan"),
        (of_json(401, {"error_code": "401013", "message": "Oauth token is not valid"}), "auth"),
        (of_json(403, {"error_code": "403000", "message": "Api Key is required"}), "auth"),
        (operation(500, "INTERNAL_ERROR"), "internal_error"),
        (reply(502, HTML), "service_unavailable"),
        (reply(503, HTML), "service_unavailable"),
        (reply(504, HTML), "timeout"),
        (reply(400, HTML), "bad_response"),
        (reply(200, b"garbage"), "bad_response"),
    ],
)
def test_each_answer_has_its_class(answer: Any, error_class: str) -> None:  # noqa: ANN401 - a reply
    found = judged(answer)
    assert found is not None
    assert found.error_class == error_class


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        ({"status": 400, "code": "BAD_PDF", "message": "too complex"}, "refused"),
        ({"status": 400, "code": "DISQUALIFIED_PAGE_LIMIT", "message": "…"}, "replan"),
        ({"status": 500, "code": "INTERNAL_ERROR", "message": "…"}, "internal_error"),
        ({"status": 429, "code": "INSUFFICIENT_QUOTA", "message": "…"}, "quota_exhausted"),
        ({"status": 400, "code": "SOMETHING_NEW", "message": "…"}, "refused"),
        ({"status": 503, "code": "SOMETHING_NEW", "message": "…"}, "internal_error"),
        (None, "internal_error"),
    ],
)
def test_a_job_that_failed_has_the_class_of_its_error(error: object, error_class: str) -> None:
    found = failure(of_json(200, {"status": "failed", "error": error}))
    assert found is not None
    assert found[1].error_class == error_class
    assert failure(of_json(200, {"status": "done"})) is None


def test_a_job_is_gone_only_if_adobe_says_so() -> None:
    assert is_gone(operation(404, "NOT_FOUND"))
    assert not is_gone(reply(404, HTML))
    assert not is_gone(operation(500, "NOT_FOUND"))


def test_a_submit_is_an_answer_as_soon_as_there_is_a_location() -> None:
    assert judged_submit(reply(201, b"", location="https://x")) is None
    cut = reply(201, b"{", location="https://x")
    assert judged_submit(cut) is None
    without = judged_submit(reply(201, b"{}"))
    assert without is not None
    assert without.error_class == "bad_response"


def test_the_storage_never_speaks_of_our_credentials() -> None:
    assert judged_storage(reply(403, b"<Error/>")) is None  # a link that is over
    refused = judged_storage(reply(401, b"<Error/>"))
    assert refused is not None
    assert refused.error_class == "bad_response"
    slow = judged_storage(reply(503, b"<Error><Code>SlowDown</Code></Error>"))
    assert slow is not None
    assert slow.error_class == "service_unavailable"


def processed(
    answers: list[bytes | Answer], *, job: dict[str, Any] | None = None, client: Client | None = None
) -> tuple[Provider, UnderWay, BaseException | bytes]:
    """What came of one attempt, and what it had sent."""
    provider = Provider([*answers])
    under_way = UnderWay()

    async def scenario(caller: Caller, url: str) -> BaseException | bytes:
        adobe = Adobe(client or Client(("client", "canary-secret")), transport=lambda: caller.transport, url=url)
        if job is not None:
            await under_way.begin({"at": 0.0, **job, "location": str(job["location"]).replace("URL", url)})
        with TemporaryFile() as file:
            file.write(b"%PDF-1.7 pages")
            file.flush()
            chunk = Chunk(
                document="d", page_start=1, page_end=2, file=file, options=adobe.checked({}), under_way=under_way
            )
            try:
                return await adobe.process(caller.context(), chunk)
            except (Retry, Permanent, Reschedule) as error:
                return error

    return provider, under_way, against(provider, scenario, limit=LIMIT)


def here(status: int, body: dict[str, Any], **headers: str) -> Answer:
    """An answer whose links lead to the provider itself."""

    def answer(seen: Seen) -> bytes:
        base = f"http://{seen.headers['host']}"
        text = json.dumps(body).replace("URL", base)
        named = {name: value.replace("URL", base) for name, value in headers.items()}
        return http(status, json.loads(text), **named)

    return answer


ASSET = here(200, {"assetID": "urn:1", "uploadUri": "URL/upload"})
BEGUN = here(201, {}, location="URL/operation/autotag/7/status")


def test_a_chunk_is_uploaded_and_its_job_is_kept_and_slept_on() -> None:
    provider, under_way, ended = processed([TOKEN, ASSET, http(200), BEGUN])
    assert isinstance(ended, Reschedule)
    assert ended.delay_s == 1.0
    assert under_way.job is not None
    assert str(under_way.job["location"]).endswith("/operation/autotag/7/status")
    token, asset, upload, begun = provider.seen
    assert token.body == b"client_id=client&client_secret=canary-secret"
    assert asset.headers["authorization"] == "Bearer canary-token"
    assert asset.headers["x-api-key"] == "client"
    assert (upload.method, upload.body) == ("PUT", b"%PDF-1.7 pages")
    assert upload.headers["content-type"] == "application/pdf"
    assert not {"authorization", "x-api-key"} & upload.headers.keys()
    assert begun.json == {"assetID": "urn:1", "shiftHeadings": False}
    assert "canary-token" not in mask_text("canary-token")
    assert "canary-secret" not in mask_text("canary-secret")


@pytest.mark.parametrize(
    "link", ["http://storage.example/x", "https://evil.example/x", "file:///etc/passwd", "http://bucket.amazonaws.com/"]
)
def test_a_link_to_elsewhere_is_not_followed(link: str) -> None:
    provider, _, ended = processed([TOKEN, http(200, {"assetID": "urn:1", "uploadUri": link})])
    assert isinstance(ended, Retry)
    assert ended.error_class == "bad_response"
    assert len(provider.seen) == 2


def test_a_job_at_an_address_that_is_not_adobes_gets_no_credentials() -> None:
    elsewhere = http(201, {}, location="https://evil.example/operation/7")
    _, under_way, ended = processed([TOKEN, ASSET, http(200), elsewhere])
    assert isinstance(ended, Retry)
    assert under_way.job is None
    provider, under_way, ended = processed([TOKEN], job={"location": "https://evil.example/operation/7"})
    assert isinstance(ended, Reschedule)
    assert under_way.job is None
    assert provider.seen == []


@pytest.mark.parametrize(("header", "at_least"), [({}, 30.0), ({"retry_after": "45"}, 45.0)])
def test_polls_of_a_long_job_come_as_seldom_as_is_said_or_as_it_takes(header: dict[str, str], at_least: float) -> None:
    answers: list[bytes | Answer] = [TOKEN, http(200, {"status": "in progress"}, **header)]
    _, under_way, ended = processed(answers, job={"location": "URL/status"})
    assert isinstance(ended, Reschedule)
    assert ended.delay_s == at_least
    assert under_way.job is not None


def test_a_job_that_failed_is_over_and_one_that_could_not_be_asked_is_not() -> None:
    failed = http(200, {"status": "failed", "error": {"status": 400, "code": "BAD_PDF", "message": "too complex"}})
    _, under_way, ended = processed([TOKEN, failed], job={"location": "URL/status"})
    assert isinstance(ended, Permanent)
    assert ended.error_class == "refused"
    assert under_way.job is None
    _, under_way, ended = processed([TOKEN, http(502, HTML)], job={"location": "URL/status"})
    assert isinstance(ended, Retry)
    assert under_way.job is not None


def test_a_link_that_is_over_is_asked_for_again() -> None:
    done = here(200, {"status": "done", "tagged-pdf": {"assetID": "urn:2", "downloadUri": "URL/old"}})
    fresh = here(200, {"downloadUri": "URL/new"})
    answers: list[bytes | Answer] = [TOKEN, done, http(403, b"<Error/>"), fresh, http(200, b"%PDF-tagged")]
    provider, _, ended = processed(answers, job={"location": "URL/status"})
    assert ended == b"%PDF-tagged"
    assert [seen.target for seen in provider.seen] == ["/token", "/status", "/old", "/assets/urn%3A2", "/new"]
    assert ["authorization" in seen.headers for seen in provider.seen] == [False, True, False, True, False]


@pytest.mark.parametrize("content", [b"garbage", b"%PDF-short"])
def test_a_download_that_is_not_what_was_promised_is_a_bad_response(content: bytes) -> None:
    told = {"downloadUri": "URL/new", "metadata": {"size": 99}}
    done = here(200, {"status": "done", "tagged-pdf": told})
    _, under_way, ended = processed([TOKEN, done, http(200, content)], job={"location": "URL/status"})
    assert isinstance(ended, Retry)
    assert ended.error_class == "bad_response"
    assert under_way.job is not None


def test_a_job_that_adobe_no_longer_has_costs_a_retry_and_starts_over() -> None:
    gone = http(404, {"error": {"code": "NOT_FOUND", "message": "Job not found."}})
    _, under_way, ended = processed([TOKEN, gone], job={"location": "URL/status"})
    assert isinstance(ended, Retry)
    assert under_way.job is None
    _, under_way, ended = processed([TOKEN, http(404, HTML)], job={"location": "URL/status"})
    assert isinstance(ended, Retry)
    assert under_way.job is not None


def test_a_client_that_is_refused_is_a_matter_of_credentials() -> None:
    _, _, ended = processed([http(400, {"error": "invalid_client"})])
    assert isinstance(ended, Retry)
    assert ended.error_class == "auth"


def test_a_token_is_kept_until_shortly_before_its_end() -> None:
    soon = http(200, {"access_token": "canary-short", "expires_in": 0})
    provider, _, _ = processed([soon, ASSET, http(200), soon, BEGUN])
    assert [seen.target for seen in provider.seen].count("/token") == 2
    provider, _, _ = processed([TOKEN, ASSET, http(200), BEGUN])
    assert [seen.target for seen in provider.seen].count("/token") == 1


@pytest.mark.parametrize(
    "content",
    [{"client_credentials": {"client_id": "a", "client_secret": "b"}}, {"client_id": "a", "client_secret": "b"}],
)
def test_a_client_is_read_from_the_file_that_adobe_hands_out(tmp_path: Path, content: object) -> None:
    file = tmp_path / "pdfservices-api-credentials.json"
    file.write_text(json.dumps(content))
    assert Client(file=file).read() == ("a", "b")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"client_id": "a"}', '{"client_id": 1, "client_secret": "b"}'])
def test_a_file_without_a_client_is_bad_input(tmp_path: Path, content: str) -> None:
    file = tmp_path / "client.json"
    file.write_text(content)
    with pytest.raises(BadInput, match="is not a client of Adobe"):
        Client(file=file).read()


@pytest.mark.parametrize("options", [{"dpi": 300}, {"shift_headings": "yes"}])
def test_options_it_does_not_have_are_refused(options: dict[str, object]) -> None:
    adobe = Adobe(Client(("a", "b")), transport=lambda: pytest.fail("nothing is sent"))
    assert adobe.checked({}) == {"shift_headings": False}
    with pytest.raises(BadInput):
        adobe.checked(options)
