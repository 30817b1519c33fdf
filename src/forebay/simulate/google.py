"""Errors as Google's APIs word them."""

from __future__ import annotations

import math
from typing import Any, Final

from forebay.simulate.clock import Clock
from forebay.simulate.fault import Fault
from forebay.simulate.hints import retry_headers
from forebay.simulate.messages import Denial, Reply, json_reply

_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_TEXT: Final = {
    401: "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential.",
    500: "Internal error encountered.",
    503: "The service is currently unavailable.",
    504: "Deadline exceeded.",
}
_RPC: Final = "type.googleapis.com/google.rpc."


def error(code: int, message: str = "", *details: dict[str, Any], **headers: str) -> Reply:
    content: dict[str, Any] = {"code": code, "message": message or _TEXT.get(code, ""), "status": _STATUS[code]}
    if details:
        content["details"] = list(details)
    return json_reply(code, {"error": content}, **headers)


def info(reason: str, domain: str, **metadata: str) -> dict[str, Any]:
    return {"@type": f"{_RPC}ErrorInfo", "reason": reason, "domain": domain, "metadata": metadata}


def violation(field: str, description: str) -> dict[str, Any]:
    return {"@type": f"{_RPC}BadRequest", "fieldViolations": [{"field": field, "description": description}]}


def exhausted(service: str, consumer: str, denial: Denial | None, fault: Fault, clock: Clock) -> Reply:
    """429 RESOURCE_EXHAUSTED; without a form it says nothing about when to come again, as most of Google's do not."""
    month = denial is not None and denial.month
    metric = f"{service}/online_{'page' if denial and denial.unit == 'pages' else 'process'}_requests"
    period = "month" if month else "minute"
    unit = "1/mo/{project}" if month else "1/min/{project}"
    limit = "0" if month else str(denial.limit if denial else 120)
    details = [
        info(
            "RATE_LIMIT_EXCEEDED",
            "googleapis.com",
            service=service,
            consumer=consumer,
            quota_metric=metric,
            quota_limit=f"OnlineRequestsPer{period.capitalize()}PerProject",
            quota_limit_value=limit,
            quota_unit=unit,
        )
    ]
    if fault.form == "info":
        details.append({"@type": f"{_RPC}RetryInfo", "retryDelay": f"{math.ceil(fault.after * 1000) / 1000:g}s"})
    message = f"Quota exceeded for quota metric '{metric}' and limit '{metric} per {period}' of service '{service}'"
    reply = error(429, f"{message} for consumer '{consumer}'.", *details)
    reply.headers |= retry_headers(fault, clock)
    return reply
