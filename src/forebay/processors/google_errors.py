"""What the errors of Google's APIs mean: by their reasons first, by their status else, by their prose last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forebay.processors.messages import Refusal, Reply, json_by_status
from forebay.rules.call_outcome import google_error, is_used_up
from forebay.rules.verdict import ErrorClass

_BY_REASON = {
    "PAGE_LIMIT_EXCEEDED": ErrorClass.REPLAN,
    "PAGE_LIMIT_EXCEEDED_IN_IMAGELESS_MODE": ErrorClass.REPLAN,
    "DOCUMENT_SIZE_LIMIT_EXCEEDED": ErrorClass.REPLAN,
    "UNSUPPORTED_MIME_TYPE": ErrorClass.UNSUPPORTED_FORMAT,
    "NO_PAGES": ErrorClass.INVALID_PDF,
    "INVALID_PDF": ErrorClass.INVALID_PDF,
    "DOCUMENT_INVALID_UTF_8": ErrorClass.CORRUPTED_CONTENT,
    "RATE_LIMIT_EXCEEDED": ErrorClass.RATE_LIMITED,
    # Whatever is sent will be refused alike, until somebody has set up the processor: a reason to stop, not to fail.
    "PROCESSOR_NOT_FOUND": ErrorClass.AUTH,
    "PROCESSOR_NOT_ENABLED": ErrorClass.AUTH,
    "PROCESSOR_VERSION_NOT_DEPLOYED": ErrorClass.AUTH,
}
_BY_STATUS = {
    "RESOURCE_EXHAUSTED": ErrorClass.RATE_LIMITED,
    "UNAVAILABLE": ErrorClass.SERVICE_UNAVAILABLE,
    "ABORTED": ErrorClass.SERVICE_UNAVAILABLE,
    "CANCELLED": ErrorClass.SERVICE_UNAVAILABLE,
    "DEADLINE_EXCEEDED": ErrorClass.TIMEOUT,
    "UNAUTHENTICATED": ErrorClass.AUTH,
    "PERMISSION_DENIED": ErrorClass.AUTH,
}
_BY_PROSE = {
    "larger than max": ErrorClass.REPLAN,  # RESOURCE_EXHAUSTED of a buffer, not of a quota
    "exceed the limit": ErrorClass.REPLAN,
    "exceeds the limit": ErrorClass.REPLAN,
    "password": ErrorClass.ENCRYPTED,
}
_PROSE_OF = {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}


def judged(reply: Reply) -> Refusal | None:
    found = json_by_status(reply)
    error = _error(reply.json)
    if found is None or error is None:
        return found
    status, reason, metadata = google_error(reply.json)
    message = str(error.get("message", ""))
    text = f"{status or reply.status}{f' ({reason})' if reason else ''}: {message}"
    return Refusal(_class_of(reason, status, message, metadata) or found.error_class, text)


def _class_of(reason: str, status: str, message: str, metadata: Mapping[str, Any]) -> ErrorClass | None:
    meant = _BY_REASON.get(reason)
    if meant is None and status in _PROSE_OF:
        meant = next((each for words, each in _BY_PROSE.items() if words in message.lower()), None)
    meant = meant or _BY_STATUS.get(status)
    if meant == ErrorClass.RATE_LIMITED and is_used_up(metadata):
        return ErrorClass.QUOTA_EXHAUSTED
    return meant


def _error(body: object) -> Mapping[str, Any] | None:
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else None
