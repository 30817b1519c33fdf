"""What the errors of OpenAI's API mean, and those of Azure and of servers that speak like them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forebay.processors.messages import Refusal, Reply, json_by_status
from forebay.rules.call_outcome import code_class
from forebay.rules.verdict import ErrorClass

_FILTERED = ("content_filter", "content_policy_violation")
_BY_CODE = {
    "context_length_exceeded": ErrorClass.REPLAN,
    "string_above_max_length": ErrorClass.REPLAN,
    **dict.fromkeys(_FILTERED, ErrorClass.REFUSED),
    # Whatever is sent will be refused alike, until somebody has corrected the settings.
    "model_not_found": ErrorClass.AUTH,
    "DeploymentNotFound": ErrorClass.AUTH,
    "invalid_api_key": ErrorClass.AUTH,
}
_CONFLICT = 409
_TOO_LARGE = "request too large"


def judged(reply: Reply) -> Refusal | None:
    found = json_by_status(reply)
    error = _error(reply.json)
    if found is None or error is None:
        return found
    message = str(error.get("message") or "")
    codes = _codes(error)
    meant = next((_BY_CODE[code] for code in codes if code in _BY_CODE), None)
    if meant is None and code_class(codes) is ErrorClass.QUOTA_EXHAUSTED:
        meant = ErrorClass.QUOTA_EXHAUSTED
    if meant is None and reply.status == _CONFLICT:
        meant = ErrorClass.SERVICE_UNAVAILABLE
    meant = meant or found.error_class
    if meant == ErrorClass.RATE_LIMITED and message.lower().startswith(_TOO_LARGE):
        meant = ErrorClass.REPLAN  # it would not fit into an empty minute either
    return Refusal(meant, f"{reply.status} {codes[0] or codes[1]}: {message}")


def is_filtered(reply: Reply) -> bool:
    """Whether a refusal is one of the question's content, and neither of its form nor of who asked."""
    error = _error(reply.json)
    return error is not None and any(code in _FILTERED for code in _codes(error))


def _codes(error: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(error.get(name) or "") for name in ("code", "type"))


def _error(body: object) -> Mapping[str, Any] | None:
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else None
