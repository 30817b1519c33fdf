"""What the official clients raise is judged by what happened: refused, hung, reset, throttled, unavailable."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import grpc
import openai
import pytest
from google.api_core import exceptions as google_exceptions
from google.api_core import grpc_helpers

from forebay.model.call_outcome import CallOutcome
from forebay.rules.call_outcome import judge_exception
from tests.clients.provider import Provider, provider

_TIMEOUT_S = 0.3


@pytest.fixture(scope="module")
def api() -> Iterator[Provider]:
    with provider() as made:
        yield made


def judged(error: BaseException) -> CallOutcome:
    return judge_exception(error, now=time.time())


@pytest.mark.parametrize(
    ("path", "kind", "error_class"),
    [
        ("refuse", "unsent", "network_error"),
        ("hang", "cut_off", "timeout"),
        ("reset", "failed", "network_error"),
        ("close", "failed", "network_error"),
        ("status/500", "failed", "internal_error"),
        ("status/503", "failed", "service_unavailable"),
        ("status/429", "throttled", "rate_limited"),
        ("status/404", "ok", "refused"),
        ("status/401", "ok", "auth"),
    ],
)
def test_errors_of_openai(api: Provider, path: str, kind: str, error_class: str) -> None:
    client = openai.OpenAI(base_url=api.url(path), api_key="key", max_retries=0, timeout=_TIMEOUT_S)
    said: Any = [{"role": "user", "content": "hello"}]
    with pytest.raises(openai.OpenAIError) as raised, client:
        client.chat.completions.create(model="m", messages=said)
    found = judged(raised.value)
    assert (found.kind, found.error_class) == (kind, error_class)
    assert found.retry_after_s == (30 if path == "status/429" else None)


def call_by_grpc(target: str, timeout_s: float) -> None:
    with grpc.insecure_channel(target) as channel:
        call = channel.unary_unary("/test.Api/Call", request_serializer=bytes, response_deserializer=bytes)
        grpc_helpers.wrap_errors(call)(b"", timeout=timeout_s)


def test_errors_of_grpc_as_google_raises_them(api: Provider) -> None:
    refusing = api.refusing.removeprefix("http://").rstrip("/")
    with pytest.raises(google_exceptions.ServiceUnavailable) as refused:
        call_by_grpc(refusing, 5)
    assert (judged(refused.value).kind, judged(refused.value).error_class) == ("failed", "service_unavailable")
    with pytest.raises(google_exceptions.GoogleAPICallError) as hung:
        call_by_grpc(f"127.0.0.1:{api.port}", _TIMEOUT_S)
    assert judged(hung.value).blames_provider


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (google_exceptions.TooManyRequests("quota"), "throttled"),
        (google_exceptions.ResourceExhausted("quota"), "throttled"),
        (google_exceptions.InternalServerError("broken"), "failed"),
        (google_exceptions.DeadlineExceeded("slow"), "cut_off"),
        (google_exceptions.NotFound("nothing"), "ok"),
        (google_exceptions.RetryError("gave up", google_exceptions.ServiceUnavailable("down")), "failed"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_errors_of_google_api_core(error: Exception, kind: str) -> None:
    assert judged(error).kind == kind
