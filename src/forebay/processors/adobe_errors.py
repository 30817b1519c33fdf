"""What Adobe's refusals mean: by their codes, which come in two forms, then by their status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from forebay.processors.messages import Refusal, Reply, by_status, json_by_status
from forebay.rules.verdict import ErrorClass

_BY_CODE: Final = {
    "TOO_MANY_REQUESTS": ErrorClass.RATE_LIMITED,
    "INSUFFICIENT_QUOTA": ErrorClass.QUOTA_EXHAUSTED,
    "QUOTA_EXCEEDED": ErrorClass.QUOTA_EXHAUSTED,
    "UNAUTHORIZED": ErrorClass.AUTH,
    "INVALID_TOKEN": ErrorClass.AUTH,
    # Not the document's fault: to cut it smaller would only ask for the same again and again.
    "BAD_REQUEST": ErrorClass.BAD_RESPONSE,
    "NOT_FOUND": ErrorClass.BAD_RESPONSE,
    "TIMEOUT": ErrorClass.TIMEOUT,
    "INTERNAL_ERROR": ErrorClass.INTERNAL_ERROR,
}
# What is within a code, where there are many of a kind.
_BY_PART: Final = {
    "LIMIT": ErrorClass.REPLAN,
    "LARGE": ErrorClass.REPLAN,
    "PASSWORD": ErrorClass.ENCRYPTED,
    "PROTECTED": ErrorClass.ENCRYPTED,
    "BAD_PDF": ErrorClass.REFUSED,
    "DISQUALIFIED": ErrorClass.REFUSED,
}
_TOO_MANY: Final = 429
_GONE: Final = (404, 410)
_KEYS: Final = (400, 401, 403)
_LINK_OVER: Final = (403, 404, 410)


def judged(reply: Reply) -> Refusal | None:
    """Of the gateway, and of operations."""
    found = json_by_status(reply)
    if found is None:
        return None
    code, text = _said(reply.json)
    if not code:
        return found
    meant = _class_of(code) or found.error_class
    if reply.status == _TOO_MANY and meant != ErrorClass.QUOTA_EXHAUSTED:
        meant = ErrorClass.RATE_LIMITED
    return Refusal(meant, _text(reply, code, text), found.delay_s)


def judged_submit(reply: Reply) -> Refusal | None:
    """A job that has begun is paid for: where it is, is all that has to have come."""
    return None if reply.status // 100 == 2 and reply.headers.get("location") else _no_answer(reply)  # noqa: PLR2004 - of HTTP


def _no_answer(reply: Reply) -> Refusal:
    return judged(reply) or Refusal(ErrorClass.BAD_RESPONSE, f"Adobe answered {reply.status} and no location.")


def judged_token(reply: Reply) -> Refusal | None:
    if reply.status in _KEYS and isinstance(reply.json, dict):
        return Refusal(ErrorClass.AUTH, f"Adobe gives no token: {reply.json.get('error', reply.status)}")
    return judged(reply)


def judged_storage(reply: Reply) -> Refusal | None:
    """Signed links need no credentials, so that a refusal is not one of ours; one that is over is not a refusal."""
    if reply.status in _LINK_OVER:
        return None
    found = by_status(reply)
    if found is not None and found.error_class in {ErrorClass.AUTH, ErrorClass.REFUSED}:
        return found._replace(error_class=ErrorClass.BAD_RESPONSE)
    return found


def is_gone(reply: Reply) -> bool:
    """Adobe itself says so: a page of some proxy is not enough to pay again."""
    return reply.status in _GONE and bool(_said(reply.json)[0])


def failure(reply: Reply) -> tuple[str, Refusal] | None:
    """Of a job that has ended so: the code, and what it means."""
    body = reply.json
    if not isinstance(body, dict) or body.get("status") != "failed":
        return None
    code, text = _said(body)
    error: Any = body.get("error")
    status = error.get("status") if isinstance(error, dict) else None
    meant = _class_of(code)
    if meant is None:
        broken = not isinstance(status, int) or status // 100 == 5  # noqa: PLR2004 - of HTTP
        meant = ErrorClass.INTERNAL_ERROR if broken else ErrorClass.REFUSED
    return code or "failed", Refusal(meant, _text(reply, code or "failed", text))


def _class_of(code: str) -> ErrorClass | None:
    return _BY_CODE.get(code) or next((each for part, each in _BY_PART.items() if part in code), None)


def _said(body: object) -> tuple[str, str]:
    """Operations say {"error": {"code", "message"}}, the gateway before them {"error_code", "message"}."""
    if not isinstance(body, Mapping):
        return "", ""
    error = body.get("error")
    said = error if isinstance(error, Mapping) else body
    return str(said.get("code") or said.get("error_code") or ""), str(said.get("message", ""))


def _text(reply: Reply, code: str, text: str) -> str:
    request = reply.headers.get("x-request-id")
    return f"{code}: {text}{f' (request {request})' if request else ''}"
