from __future__ import annotations

from typing import Any

import pytest

from forebay import Permanent, Retry
from forebay.observe import redact
from forebay.processors import google_errors, openai_errors
from forebay.processors.messages import Refusal, Reply, by_status, signal
from forebay.rules.verdict import ErrorClass


def reply(status: int, body: bytes, **headers: str) -> Reply:
    return Reply(status=status, headers={name.replace("_", "-"): text for name, text in headers.items()}, body=body)


def of_json(status: int, body: object, **headers: str) -> Reply:
    import json  # noqa: PLC0415 - the one place

    return reply(status, json.dumps(body).encode(), **headers)


def google(code: int, status: str, reason: str = "", message: str = "words", **metadata: str) -> Reply:
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    details = [{"@type": kind, "reason": reason, "metadata": metadata}] if reason else []
    return of_json(code, {"error": {"code": code, "message": message, "status": status, "details": details}})


@pytest.mark.parametrize(
    ("answer", "error_class"),
    [
        (google(400, "INVALID_ARGUMENT", "PAGE_LIMIT_EXCEEDED", page_limit="15", pages="30"), "replan"),
        (google(400, "INVALID_ARGUMENT", "PAGE_LIMIT_EXCEEDED_IN_IMAGELESS_MODE"), "replan"),
        (google(400, "INVALID_ARGUMENT", "DOCUMENT_SIZE_LIMIT_EXCEEDED"), "replan"),
        (google(400, "INVALID_ARGUMENT", message="Document pages exceed the limit: 15 got 16"), "replan"),
        (google(400, "INVALID_ARGUMENT", "UNSUPPORTED_MIME_TYPE"), "unsupported_format"),
        (google(400, "INVALID_ARGUMENT", "NO_PAGES"), "invalid_pdf"),
        (google(400, "INVALID_ARGUMENT", "DOCUMENT_INVALID_UTF_8"), "corrupted_content"),
        (google(400, "INVALID_ARGUMENT", "OCR_CONFIG_UNSUPPORTED"), "refused"),
        (google(400, "INVALID_ARGUMENT", message="The PDF needs a password."), "encrypted"),
        (google(400, "INVALID_ARGUMENT"), "refused"),
        (google(400, "FAILED_PRECONDITION", "PROCESSOR_NOT_ENABLED"), "auth"),
        (google(400, "FAILED_PRECONDITION", "PROCESSOR_VERSION_NOT_DEPLOYED"), "auth"),
        (google(404, "NOT_FOUND", "PROCESSOR_NOT_FOUND"), "auth"),
        (google(401, "UNAUTHENTICATED"), "auth"),
        (google(403, "PERMISSION_DENIED"), "auth"),
        (google(403, "PERMISSION_DENIED", "RATE_LIMIT_EXCEEDED"), "rate_limited"),
        (google(429, "RESOURCE_EXHAUSTED"), "rate_limited"),
        (google(429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", quota_limit_value="120"), "rate_limited"),
        (google(429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", quota_limit_value="0"), "quota_exhausted"),
        (google(429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", quota_unit="1/d/{project}"), "quota_exhausted"),
        (google(429, "RESOURCE_EXHAUSTED", message="Received message larger than max (5 vs. 4)"), "replan"),
        (google(409, "ABORTED"), "service_unavailable"),
        (google(499, "CANCELLED"), "service_unavailable"),
        (google(500, "INTERNAL"), "internal_error"),
        (google(503, "UNAVAILABLE"), "service_unavailable"),
        (google(504, "DEADLINE_EXCEEDED"), "timeout"),
        (of_json(400, {"error": "not an object"}), "refused"),
        (of_json(400, ["no", "object"]), "bad_response"),
        (of_json(429, {"error": {"details": ["odd", {"@type": 1}], "status": None}}), "rate_limited"),
        (reply(502, b"<html>"), "service_unavailable"),
        (reply(200, b"<html>"), "bad_response"),
    ],
)
def test_errors_of_google_have_their_class(answer: Reply, error_class: str) -> None:
    refusal = google_errors.judged(answer)
    assert refusal is not None
    assert refusal.error_class == error_class


def openai(status: int, code: str | None, message: str = "words", kind: str = "x", **headers: str) -> Reply:
    return of_json(status, {"error": {"message": message, "type": kind, "param": None, "code": code}}, **headers)


@pytest.mark.parametrize(
    ("answer", "error_class", "delay_s"),
    [
        (openai(429, "rate_limit_exceeded", retry_after="2"), "rate_limited", 2),
        (openai(429, "rate_limit_exceeded", "Please try again in 20ms."), "rate_limited", 0.02),
        (
            openai(
                429,
                "rate_limit_exceeded",
                x_ratelimit_remaining_tokens="0",
                x_ratelimit_reset_tokens="6m0s",
                x_ratelimit_remaining_requests="5",
                x_ratelimit_reset_requests="9h",
            ),
            "rate_limited",
            360,
        ),
        (openai(429, "429", "Requests have exceeded the limit. Please retry after 7 seconds."), "rate_limited", 7),
        (openai(429, "rate_limit_exceeded", "Request too large for gpt-4 in organization o"), "replan", None),
        (openai(429, "insufficient_quota", retry_after="2"), "quota_exhausted", 2),
        (openai(429, None, kind="insufficient_quota"), "quota_exhausted", None),
        (openai(400, "context_length_exceeded"), "replan", None),
        (openai(400, "content_filter"), "refused", None),
        (openai(400, "invalid_value"), "refused", None),
        (openai(401, "invalid_api_key"), "auth", None),
        (openai(404, "model_not_found"), "auth", None),
        (openai(404, "DeploymentNotFound"), "auth", None),
        (openai(409, None), "service_unavailable", None),
        (openai(500, None), "internal_error", None),
        (reply(503, b"<html>"), "service_unavailable", None),
        (reply(404, b"<html>"), "bad_response", None),
    ],
)
def test_errors_of_openai_and_azure_have_their_class(answer: Reply, error_class: str, delay_s: float | None) -> None:
    refusal = openai_errors.judged(answer)
    assert refusal is not None
    raised = signal(refusal, answer)
    assert isinstance(raised, (Retry, Permanent))
    assert (raised.error_class, getattr(raised, "delay_s", None)) == (error_class, delay_s)


@pytest.mark.parametrize("judged", [google_errors.judged, openai_errors.judged])
def test_an_answer_is_no_error(judged: Any) -> None:  # noqa: ANN401 - a judge
    assert judged(of_json(200, {"error": {"code": 429}})) is None


@pytest.mark.parametrize("lost", [ErrorClass.BAD_RESPONSE, ErrorClass.NETWORK_ERROR])
def test_a_reply_that_was_cut_off_is_no_answer(lost: ErrorClass) -> None:
    cut = Reply(status=200, headers={}, body=b"{}", lost=lost)
    refusal = by_status(cut)
    assert refusal is not None
    assert refusal.error_class == lost


def test_what_a_provider_says_is_shown_without_secrets_on_one_line_and_not_at_length() -> None:
    redact.hide("canary-f00d")
    refusal = google_errors.judged(google(400, "X", message="no canary-f00d\n\x1b[31m" + "long " * 500))
    raised = signal(refusal or Refusal("bug", ""))  # type: ignore[arg-type]
    assert isinstance(raised, Permanent)
    assert "canary-f00d" not in raised.text
    assert raised.text.isprintable()
    assert len(raised.text) <= 500
