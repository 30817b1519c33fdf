"""Decides what became of a call, from its answer or from the exception that ended it, for every HTTP client alike."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from forebay.errors import ForebayError
from forebay.model.call_outcome import CallOutcome, Kind
from forebay.rules import exception_facts, retry_after, verdict
from forebay.rules.exception_facts import Answer
from forebay.rules.verdict import ErrorClass

_MAX_BODY: Final = 1_000_000
_SUCCESS: Final = range(200, 300)
_BAD_REQUEST: Final = 400
_CODE_FIELDS: Final = ("code", "type", "status", "__type")
_SLOW_DOWN: Final = (ErrorClass.RATE_LIMITED, ErrorClass.QUOTA_EXHAUSTED)


_BY_CLASS: Final[Mapping[ErrorClass | None, Kind]] = {
    ErrorClass.RATE_LIMITED: "throttled",
    ErrorClass.QUOTA_EXHAUSTED: "quota",
    ErrorClass.TIMEOUT: "failed",
    ErrorClass.SERVICE_UNAVAILABLE: "failed",
    ErrorClass.INTERNAL_ERROR: "failed",
}

# Error codes by name, of OpenAI, Adobe, Google, gRPC and AWS. A code says more than the status beside it.
_BY_CODE: Final[Mapping[str, ErrorClass]] = {
    **dict.fromkeys(
        (
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "INSUFFICIENT_QUOTA",
            "QUOTA_EXCEEDED",
            "ServiceQuotaExceededException",
        ),
        ErrorClass.QUOTA_EXHAUSTED,
    ),
    **dict.fromkeys(
        (
            "rate_limit_exceeded",
            "rate_limit_error",
            "RATE_LIMIT_EXCEEDED",
            "RESOURCE_EXHAUSTED",
            "TOO_MANY_REQUESTS",
            "BandwidthLimitExceeded",
            "EC2ThrottledException",
            "LimitExceededException",
            "PriorRequestNotComplete",
            "ProvisionedThroughputExceeded",
            "ProvisionedThroughputExceededException",
            "RequestLimitExceeded",
            "RequestThrottled",
            "RequestThrottledException",
            "SlowDown",
            "ThrottledException",
            "Throttling",
            "ThrottlingException",
            "TooManyRequests",
            "TooManyRequestsException",
            "TransactionInProgressException",
        ),
        ErrorClass.RATE_LIMITED,
    ),
    **dict.fromkeys(
        ("UNAVAILABLE", "ABORTED", "overloaded_error", "ServiceUnavailable", "ServiceUnavailableException"),
        ErrorClass.SERVICE_UNAVAILABLE,
    ),
    **dict.fromkeys(("INTERNAL", "UNKNOWN", "DATA_LOSS", "InternalError"), ErrorClass.INTERNAL_ERROR),
    **dict.fromkeys(("RequestTimeout", "RequestTimeoutException"), ErrorClass.TIMEOUT),
    **dict.fromkeys(("UNAUTHENTICATED",), ErrorClass.AUTH),
    **dict.fromkeys(
        (
            "ALREADY_EXISTS",
            "FAILED_PRECONDITION",
            "INVALID_ARGUMENT",
            "NOT_FOUND",
            "OUT_OF_RANGE",
            "PERMISSION_DENIED",
            "UNIMPLEMENTED",
        ),
        ErrorClass.REFUSED,
    ),
}
# The client gave up, and not the provider.
_CUT_OFF_CODES: Final[Mapping[str, ErrorClass]] = {
    "DEADLINE_EXCEEDED": ErrorClass.TIMEOUT,
    "CANCELLED": ErrorClass.SERVICE_UNAVAILABLE,
}

_UNREACHED: Final = CallOutcome("unsent", error_class=ErrorClass.NETWORK_ERROR, blames_provider=True)
_NO_ROOM: Final = CallOutcome("unsent", error_class=ErrorClass.NETWORK_ERROR)
_TOO_SLOW: Final = CallOutcome("cut_off", error_class=ErrorClass.TIMEOUT, blames_provider=True)
_STOPPED: Final = CallOutcome("cut_off", error_class=ErrorClass.TIMEOUT)
_CANCELED: Final = CallOutcome("cut_off", error_class=ErrorClass.CANCELED)
_CLOSED: Final = CallOutcome("failed", error_class=ErrorClass.NETWORK_ERROR, blames_provider=True)

# Names of exceptions, whatever library they come from.
_BY_NAME: Final[Mapping[str, CallOutcome]] = {
    **dict.fromkeys(
        (
            "ClientConnectorError",
            "ConnectError",
            "ConnectTimeout",
            "ConnectTimeoutError",
            "ConnectionRefusedError",
            "ConnectionTimeoutError",
            "EndpointConnectionError",
            "NameResolutionError",
            "NewConnectionError",
            "ProxyConnectionError",
            "ProxyError",
            "SSLCertVerificationError",
            "gaierror",
            "herror",
        ),
        _UNREACHED,
    ),
    **dict.fromkeys(("EmptyPoolError", "PoolTimeout"), _NO_ROOM),
    "LocalProtocolError": CallOutcome("abandoned", error_class=ErrorClass.BUG),
    **dict.fromkeys(
        ("ReadTimeout", "ReadTimeoutError", "ServerTimeoutError", "TimeoutError", "WriteTimeout"),
        _TOO_SLOW,
    ),
    # Of Celery, RQ, Dramatiq and Trio: the caller's own time is over, which says nothing about the provider.
    **dict.fromkeys(
        ("JobTimeoutException", "SoftTimeLimitExceeded", "TimeLimitExceeded", "TooSlowError"),
        _STOPPED,
    ),
    **dict.fromkeys(("Cancelled", "CancelledError"), _CANCELED),
    **dict.fromkeys(
        (
            "BrokenPipeError",
            "ChunkedEncodingError",
            "ClientPayloadError",
            "ConnectionAbortedError",
            "ConnectionClosedError",
            "ConnectionResetError",
            "IncompleteRead",
            "ReadError",
            "RemoteProtocolError",
            "ServerDisconnectedError",
            "WriteError",
        ),
        _CLOSED,
    ),
}
# Names that say too little while a cause may say more.
_BY_VAGUE_NAME: Final[Mapping[str, CallOutcome]] = {
    "APITimeoutError": _TOO_SLOW,
    **dict.fromkeys(
        ("APIConnectionError", "ClientConnectionError", "ConnectionError", "ProtocolError", "SSLError", "URLError"),
        _CLOSED,
    ),
}
_UNREACHED_ERRNOS: Final = {errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH}
_ORDER: Final[tuple[Kind, ...]] = ("quota", "throttled", "cut_off", "failed", "abandoned", "ok", "unsent")


__all__ = ["CallOutcome", "code_class", "google_error", "is_used_up", "judge_answer", "judge_exception"]


def judge_answer(status: int, headers: object = None, body: object = None, *, now: float) -> CallOutcome:
    """Judge an answer by its status, its headers and what is known of its body: bytes, text or parsed JSON."""
    return _judge(Answer(status, exception_facts.plain_headers(headers), body, (), None), now)


def judge_exception(error: BaseException, *, now: float) -> CallOutcome:
    """Judge the exception that ended a call, by what it carries and by its causes, outermost first."""
    if isinstance(error, BaseExceptionGroup):
        found = [judge_exception(member, now=now) for member in error.exceptions]
        gravest = min(found, key=lambda each: _ORDER.index(each.kind))
        return replace(
            gravest, error_class=verdict.gravest([verdict.parse(each.error_class or ErrorClass.BUG) for each in found])
        )
    if isinstance(error, ForebayError):
        return CallOutcome("abandoned", error_class=verdict.classify_exception(error))
    if not isinstance(error, Exception):
        # A cancellation, or an interrupt such as Ctrl-C, strikes while the call is under way.
        return CallOutcome("cut_off", error_class=verdict.classify_exception(error))
    links = [*exception_facts.chain(error)]
    for link in links:
        known = _judge_link(link, now)
        if known is not None:
            return known
    return _judge_vague(links) or CallOutcome("abandoned", error_class=verdict.classify_exception(error))


def _judge_vague(links: list[BaseException]) -> CallOutcome | None:
    """Judge by what says too little while anything else says more."""
    for link in links:
        for name in exception_facts.names(link):
            if name in _BY_VAGUE_NAME:
                return _BY_VAGUE_NAME[name]
    # Some clients say no more than this of a connection.
    return _CLOSED if any(type(cause) is OSError and cause.errno is None for cause in links[1:]) else None


def code_class(codes: tuple[str, ...]) -> ErrorClass | None:
    """Return what the first known error code means, or None."""
    return next((_BY_CODE[code] for code in codes if code in _BY_CODE), None)


def google_error(body: object) -> tuple[str, str, Mapping[str, Any]]:
    """Return status, reason and metadata of an error of Google's APIs."""
    error = _error(body)
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith("google.rpc.ErrorInfo"):
            metadata = detail.get("metadata")
            return (
                str(error.get("status", "")),
                str(detail.get("reason", "")),
                metadata if isinstance(metadata, dict) else {},
            )
    return str(error.get("status", "")), "", {}


def is_used_up(metadata: Mapping[str, Any]) -> bool:
    """Return whether Google's quota is 0, or one of a day or a month: waiting a few seconds would not help."""
    unit = str(metadata.get("quota_unit", ""))
    return metadata.get("quota_limit_value") == "0" or any(period in unit for period in ("/d/", "/mo/", "/month/"))


def _judge_link(link: BaseException, now: float) -> CallOutcome | None:
    answer = exception_facts.read_answer(link)
    if answer is not None:
        cut_off = next((_CUT_OFF_CODES[code] for code in answer.codes if code in _CUT_OFF_CODES), None)
        if cut_off is not None:
            timed_out = cut_off is ErrorClass.TIMEOUT
            return CallOutcome("cut_off", status=answer.status, error_class=cut_off, blames_provider=timed_out)
        if answer.status is not None or code_class(answer.codes) is not None:
            found = _judge(answer, now)
            # It was raised for an answer that is not what the API promises.
            return found if found.error_class is not None else replace(found, error_class=ErrorClass.BAD_RESPONSE)
    if isinstance(link, OSError) and link.errno in _UNREACHED_ERRNOS:
        return _UNREACHED
    if "URLError" in exception_facts.names(link) and isinstance(getattr(link, "reason", None), TimeoutError):
        return _UNREACHED  # urllib wraps only what happens before it waits for the answer
    return next((_BY_NAME[name] for name in exception_facts.names(link) if name in _BY_NAME), None)


def _judge(answer: Answer, now: float) -> CallOutcome:
    status, body = answer.status, _parsed(answer.body)
    if status in _SUCCESS:
        return CallOutcome("ok", status=status)
    hint_s = retry_after.find(answer.headers, body, now=now) or retry_after.read(answer.hint, now=now) or None
    error_class = _told_class(answer.codes, body)
    # A status of its own says what else is wrong; AWS sends much of it as 400.
    if status not in {None, _BAD_REQUEST} and error_class not in _SLOW_DOWN:
        error_class = None
    if error_class is None and status is not None:
        error_class = verdict.classify_http(status, has_retry_after=hint_s is not None)
    kind = _BY_CLASS.get(error_class, "ok")
    return CallOutcome(kind, hint_s, status, error_class, blames_provider=kind == "failed")


def _told_class(codes: tuple[str, ...], body: object) -> ErrorClass | None:
    error = _error(body)
    _, reason, metadata = google_error(body)
    error_class = code_class((*codes, reason, *(str(error.get(name) or "") for name in _CODE_FIELDS)))
    is_quota = error_class is ErrorClass.RATE_LIMITED and is_used_up(metadata)
    return ErrorClass.QUOTA_EXHAUSTED if is_quota else error_class


def _parsed(body: object) -> object:
    if not isinstance(body, (bytes, str)) or len(body) > _MAX_BODY:
        return body
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _error(body: object) -> Mapping[str, Any]:
    """Return the part of a body that names the error: OpenAI and Google nest it, others do not."""
    if isinstance(body, list) and body:  # Google's streaming methods wrap the error in a list
        body = body[0]
    if not isinstance(body, Mapping):
        return {}
    error = body.get("error")
    return error if isinstance(error, Mapping) else body
