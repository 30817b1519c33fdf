from __future__ import annotations

import asyncio
import errno
import http.client
import json
import socket
import ssl
import urllib.error
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from enum import Enum
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import Busy, StoreUnreachable
from forebay.rules.call_outcome import CallOutcome, judge_answer, judge_exception
from forebay.rules.verdict import ErrorClass

NOW = datetime(2026, 1, 27, 12, 0, 0, tzinfo=UTC).timestamp()


def answered(status: int, headers: object = None, body: object = None) -> CallOutcome:
    return judge_answer(status, headers, body, now=NOW)


def raised(error: BaseException) -> CallOutcome:
    return judge_exception(error, now=NOW)


def named(name: str, *bases: type[BaseException], **attributes: Any) -> BaseException:  # noqa: ANN401 - of any library
    """An exception of some library: a type of that name with these attributes."""
    error: BaseException = type(name, bases or (Exception,), {"__module__": "somebodys.client"})()
    for each, value in attributes.items():
        setattr(error, each, value)
    return error


@pytest.mark.parametrize(
    ("status", "kind", "error_class"),
    [
        (200, "ok", None),
        (204, "ok", None),
        (304, "ok", ErrorClass.BAD_RESPONSE),
        (400, "ok", ErrorClass.REFUSED),
        (401, "ok", ErrorClass.AUTH),
        (404, "ok", ErrorClass.REFUSED),
        (408, "failed", ErrorClass.TIMEOUT),
        (429, "throttled", ErrorClass.RATE_LIMITED),
        (500, "failed", ErrorClass.INTERNAL_ERROR),
        (502, "failed", ErrorClass.SERVICE_UNAVAILABLE),
        (503, "failed", ErrorClass.SERVICE_UNAVAILABLE),
        (504, "failed", ErrorClass.TIMEOUT),
        (529, "failed", ErrorClass.INTERNAL_ERROR),
        (HTTPStatus.TOO_MANY_REQUESTS, "throttled", ErrorClass.RATE_LIMITED),
    ],
)
def test_a_status_decides(status: int, kind: str, error_class: ErrorClass | None) -> None:
    found = answered(status)
    assert (found.kind, found.error_class, found.status) == (kind, error_class, status)
    assert found.blames_provider == (kind == "failed")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "12"}, 12),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"Retry-After": format_datetime(datetime.fromtimestamp(NOW + 30, UTC), usegmt=True)}, 30),
        ([("Retry-After", "3")], 3),
        ([(b"Retry-After", b"3")], 3),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, 360),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 40)}, 40),
        ({"RateLimit-Remaining": "0", "RateLimit-Reset": "7"}, 7),
        ({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "7"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "soon"}, None),
        ({}, None),
        (None, None),
        (42, None),
        ("retry-after", None),
        ([1, 2], None),
    ],
)
def test_a_refusal_says_how_long_to_wait_in_any_form(headers: object, seconds: float | None) -> None:
    found = answered(429, headers)
    assert found.kind == "throttled"
    assert found.retry_after_s == (None if seconds is None else pytest.approx(seconds))


def test_headers_of_the_standard_library_are_read() -> None:
    headers = Message()
    headers["Retry-After"] = "4"
    assert answered(429, headers).retry_after_s == 4


def test_an_unavailable_service_that_says_when_to_come_back_throttles() -> None:
    assert answered(503, {"retry-after": "5"}) == CallOutcome("throttled", 5, 503, ErrorClass.RATE_LIMITED)


@pytest.mark.parametrize(
    "form", [dict, json.dumps, lambda body: json.dumps(body).encode()], ids=["dict", "str", "bytes"]
)
def test_a_body_tells_a_used_up_quota_from_a_429(form: Any) -> None:  # noqa: ANN401 - a function
    body = {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}
    assert answered(429, {}, form(body)).kind == "quota"
    assert answered(429, {}, form({"error": {"code": "rate_limit_exceeded"}})).kind == "throttled"


def test_a_quota_of_google_by_its_period() -> None:
    def body(unit: str) -> object:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "metadata": {"quota_unit": unit}}
        retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "13s"}
        return {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [info, retry]}}

    assert answered(429, {}, body("1/d/{project}")).kind == "quota"
    # As streaming methods send it.
    assert answered(429, {}, [body("1/d/{project}")]).kind == "quota"
    assert answered(429, {}, body("1/min/{project}")) == CallOutcome("throttled", 13, 429, ErrorClass.RATE_LIMITED)


@pytest.mark.parametrize("body", ["<html>", b"\xff\xfe", "[" * 100_000, 5, [], [[]], {"error": "x"}, {"error": [1]}])
def test_a_body_that_says_nothing_leaves_it_to_the_status(body: object) -> None:
    assert answered(500, {}, body).kind == "failed"
    assert answered(200, {}, body).kind == "ok"


@pytest.mark.parametrize("status", [200, 204, 299])
def test_an_answer_that_is_a_success_is_one_whatever_its_body_and_headers_say(status: int) -> None:
    assert answered(status, {"Retry-After": "9"}, {"code": "rate_limit_exceeded"}) == CallOutcome("ok", status=status)


@pytest.mark.parametrize(("size", "kind"), [(1_000_000, "quota"), (1_000_001, "throttled")])
def test_a_body_is_read_up_to_a_million_bytes(size: int, kind: str) -> None:
    assert answered(429, {}, b'{"code": "insufficient_quota"}'.ljust(size)).kind == kind


def test_a_throttled_call_of_aws_comes_as_400() -> None:
    assert answered(400, {}, {"__type": "ThrottlingException"}).kind == "throttled"
    assert answered(400, {}, {"__type": "ValidationException"}).error_class is ErrorClass.REFUSED


class Code(Enum):
    """As gRPC's StatusCode."""

    RESOURCE_EXHAUSTED = (8, "resource exhausted")
    UNAVAILABLE = (14, "unavailable")
    DEADLINE_EXCEEDED = (4, "deadline exceeded")
    NOT_FOUND = (5, "not found")


def aws(status: int, code: str) -> BaseException:
    return named(
        "ClientError",
        response={"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {}}},
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (named("StatusError", response=SimpleNamespace(status_code=429, headers={"retry-after": "2"})), "throttled"),
        (named("HTTPError", response=SimpleNamespace(status_code=503, headers={})), "failed"),
        (named("APIStatusError", status_code=404), "ok"),
        (named("ResponseError", status=500), "failed"),
        (named("StripeError", http_status=429), "throttled"),
        (urllib.error.HTTPError("http://localhost", 429, "no", Message(), None), "throttled"),
        (named("OpenAIError", status_code=429, code="insufficient_quota"), "quota"),
        (named("OpenAIError", status_code=429, body={"error": {"type": "insufficient_quota"}}), "quota"),
        (aws(400, "ThrottlingException"), "throttled"),
        (aws(400, "ProvisionedThroughputExceededException"), "throttled"),
        (aws(503, "SlowDown"), "throttled"),
        (aws(400, "ValidationException"), "ok"),
        (aws(500, "InternalError"), "failed"),
        (aws(402, "ServiceQuotaExceededException"), "quota"),
        (named("GoogleAPICallError", code=HTTPStatus.TOO_MANY_REQUESTS), "throttled"),
        (named("GoogleAPICallError", code=503, grpc_status_code=Code.UNAVAILABLE), "failed"),
        (named("DeadlineExceeded", code=504, grpc_status_code=Code.DEADLINE_EXCEEDED), "cut_off"),
        (named("RpcError", code=lambda: Code.RESOURCE_EXHAUSTED), "throttled"),
        (named("RpcError", code=lambda: Code.UNAVAILABLE), "failed"),
        (named("RpcError", code=lambda: Code.NOT_FOUND), "ok"),
        (named("GRPCError", status=Code.RESOURCE_EXHAUSTED), "throttled"),
        (named("ResponseError", Exception), "abandoned"),
        (named("ConnectTimeout", TimeoutError), "unsent"),
        (named("PoolTimeout"), "unsent"),
        (named("ReadTimeout", TimeoutError), "cut_off"),
        (named("ServerDisconnectedError"), "failed"),
        (named("APIConnectionError"), "failed"),
        (ConnectionRefusedError(), "unsent"),
        (ConnectionResetError(), "failed"),
        (ConnectionError(), "failed"),
        (BrokenPipeError(), "failed"),
        (http.client.RemoteDisconnected("closed"), "failed"),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "unsent"),
        (OSError(errno.ENETUNREACH, "unreachable"), "unsent"),
        (ssl.SSLCertVerificationError(1, "expired"), "unsent"),
        (ssl.SSLError(1, "broken"), "failed"),
        (urllib.error.URLError(ConnectionRefusedError()), "unsent"),
        (urllib.error.URLError(TimeoutError()), "unsent"),
        (urllib.error.URLError("no host"), "failed"),
        (TimeoutError(), "cut_off"),
        (asyncio.CancelledError(), "cut_off"),
        (KeyboardInterrupt(), "cut_off"),
        (SystemExit(429), "cut_off"),
        (named("SoftTimeLimitExceeded"), "cut_off"),
        (ValueError("a bug"), "abandoned"),
        (OSError(errno.ENOSPC, "full"), "abandoned"),
        (FileNotFoundError(), "abandoned"),
        (Busy("none", limit="x"), "abandoned"),
        (StoreUnreachable("gone"), "abandoned"),
        (named("MongoError", code=13), "abandoned"),
        (named("Odd", status=True, code=None, response="text"), "abandoned"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
def test_an_exception_is_judged_by_what_it_carries(error: BaseException, expected: str) -> None:
    assert raised(error).kind == expected


@pytest.mark.parametrize(
    ("error", "error_class", "blames"),
    [
        (named("ConnectError"), ErrorClass.NETWORK_ERROR, True),
        (named("PoolTimeout"), ErrorClass.NETWORK_ERROR, False),
        (named("ReadTimeout"), ErrorClass.TIMEOUT, True),
        (named("TimeLimitExceeded"), ErrorClass.TIMEOUT, False),
        (asyncio.CancelledError(), ErrorClass.CANCELED, False),
        (ConnectionResetError(), ErrorClass.NETWORK_ERROR, True),
        (named("StatusError", status_code=500), ErrorClass.INTERNAL_ERROR, True),
        (named("StatusError", status_code=401), ErrorClass.AUTH, False),
        (named("StatusError", status_code=429), ErrorClass.RATE_LIMITED, False),
        (named("ContentTypeError", status=200), ErrorClass.BAD_RESPONSE, False),
        (ValueError(), ErrorClass.BUG, False),
        (StoreUnreachable("gone"), ErrorClass.SERVICE_UNAVAILABLE, False),
        (OSError(errno.ENOSPC, "full"), ErrorClass.SERVICE_UNAVAILABLE, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_an_exception_has_a_class_and_speaks_against_the_provider_or_not(
    error: BaseException, error_class: ErrorClass, *, blames: bool
) -> None:
    found = raised(error)
    assert (found.error_class, found.blames_provider) == (error_class, blames)


@pytest.mark.parametrize(
    "hint",
    [
        {"headers": {"Retry-After": "9"}},
        {"response": SimpleNamespace(status_code=429, headers={"retry-after": "9"})},
        {"retry_after": 9},
        {"retry_after": "9"},
        {"retry_after": timedelta(seconds=9)},
        {"details": [SimpleNamespace(), SimpleNamespace(retry_delay=SimpleNamespace(seconds=9, nanos=0))]},
        {"body": {"error": {"message": "Please try again in 9s."}}},
    ],
)
def test_an_exception_says_how_long_to_wait(hint: dict[str, Any]) -> None:
    found = raised(named("RateLimitError", **{"status_code": 429, **hint}))
    assert (found.kind, found.retry_after_s) == ("throttled", 9)


def test_a_body_that_was_received_is_read_and_no_other() -> None:
    class Response:
        status_code = 429
        headers = None

        @property
        def content(self) -> bytes:
            raise AssertionError("it would be received now")

    response = Response()
    assert raised(named("HTTPError", response=response)).kind == "throttled"
    response._content = b'{"error": {"code": "insufficient_quota"}}'  # type: ignore[attr-defined]
    assert raised(named("HTTPError", response=response)).kind == "quota"


def from_cause(outer: BaseException, cause: BaseException) -> BaseException:
    outer.__cause__ = cause
    return outer


def in_context(outer: BaseException, context: BaseException) -> BaseException:
    outer.__context__ = context
    return outer


def test_a_cause_says_what_the_exception_does_not() -> None:
    refused = from_cause(named("APIConnectionError"), from_cause(named("TransportError"), ConnectionRefusedError()))
    assert raised(refused).kind == "unsent"
    slow = from_cause(named("APITimeoutError"), named("ReadTimeout"))
    assert raised(slow).kind == "cut_off"
    slow_to_connect = from_cause(named("APITimeoutError"), named("ConnectTimeout"))
    assert raised(slow_to_connect).kind == "unsent"
    given_up = from_cause(RuntimeError("given up"), named("StatusError", status_code=429))
    assert raised(given_up).kind == "throttled"


def test_what_a_library_raises_while_it_handles_another_is_followed() -> None:
    assert raised(in_context(named("ConnectionError"), ConnectionRefusedError())).kind == "unsent"


def test_a_bug_in_the_handling_of_an_error_stays_a_bug() -> None:
    found = raised(in_context(AttributeError("x"), ConnectionRefusedError()))
    assert (found.kind, found.error_class) == ("abandoned", ErrorClass.BUG)


def test_a_suppressed_context_says_nothing() -> None:
    error = in_context(named("ApiError"), ConnectionRefusedError())
    error.__suppress_context__ = True
    assert raised(error).kind == "abandoned"


def test_urllib3_that_gave_up_names_the_status_in_its_text() -> None:
    class ResponseError(Exception):
        pass

    gave_up = named("MaxRetryError", reason=ResponseError("too many 429 error responses"))
    assert raised(in_context(named("RetryError"), gave_up)).kind == "throttled"


def test_the_status_of_the_outermost_counts() -> None:
    error = from_cause(named("NotFound", status_code=404), named("StatusError", status_code=500))
    assert raised(error).status == 404


def test_a_group_means_the_gravest_of_its_members() -> None:
    throttled = named("StatusError", status_code=429)
    assert raised(BaseExceptionGroup("", [ConnectionRefusedError(), throttled])).kind == "throttled"
    both = raised(BaseExceptionGroup("", [asyncio.CancelledError(), throttled, ValueError()]))
    assert (both.kind, both.error_class) == ("throttled", ErrorClass.CANCELED)


def test_causes_that_go_in_a_circle_end() -> None:
    first, second = named("First"), named("Second")
    first.__cause__, second.__cause__ = second, first
    assert raised(first).kind == "abandoned"


@pytest.mark.parametrize("status", [100, 301, 304])
def test_an_answer_that_is_neither_success_nor_error_ends_the_call_and_blames_nobody(status: int) -> None:
    assert answered(status) == CallOutcome("ok", None, status, ErrorClass.BAD_RESPONSE)


class Broken(Exception):
    """Whatever one asks it, it fails."""

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 - never returns
        if name in {"__cause__", "__context__", "__suppress_context__", "__class__"}:
            return super().__getattribute__(name)
        raise RuntimeError(name)


def test_an_exception_that_cannot_be_asked_is_judged() -> None:
    assert raised(Broken()).kind == "abandoned"


anything = st.one_of(
    st.none(), st.booleans(), st.integers(-10, 1000), st.floats(), st.text(max_size=5), st.binary(max_size=5),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(
            ["response", "status", "status_code", "code", "headers", "body", "details", "retry_after", "type"]
        ),
        anything,
    )
)
def test_no_attribute_makes_the_judgement_fail(attributes: dict[str, Any]) -> None:
    found = raised(named("Anything", **attributes))
    assert found.retry_after_s is None or 0 < found.retry_after_s < float("inf")


@given(st.integers(100, 599), anything, anything)
def test_no_header_and_no_body_makes_the_judgement_fail(status: int, headers: object, body: object) -> None:
    found = answered(status, headers, body)
    assert found.status == status
    assert found.retry_after_s is None or 0 < found.retry_after_s < float("inf")


def test_a_status_may_be_a_text_of_three_digits() -> None:
    assert raised(named("SdkError", status="429")).kind == "throttled"
    assert raised(named("SdkError", status_code="503")).kind == "failed"
    assert raised(named("SdkError", status="4290")).kind == "abandoned"


def test_a_cause_that_is_an_error_of_a_connection_and_no_more_blames_the_provider() -> None:
    error = ValueError("the SDK failed")
    error.__cause__ = OSError("connection lost")
    assert raised(error).blames_provider
    error.__cause__ = FileNotFoundError(2, "no such file")
    assert not raised(error).blames_provider
    assert not raised(OSError("disk")).blames_provider


def test_a_header_that_cannot_be_printed_hides_no_refusal() -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise ValueError

        __repr__ = __str__

    class Worse(Unprintable):
        def __str__(self) -> str:
            raise RuntimeError

    for value in (Unprintable(), Worse()):
        assert answered(429, {"retry-after": value}).kind == "throttled"
