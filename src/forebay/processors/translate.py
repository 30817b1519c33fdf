"""Asks Google Translate which language a text is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from forebay.engine.context import Context
from forebay.engine.signals import Retry
from forebay.processors import google_errors
from forebay.processors.credentials import Credentials
from forebay.processors.messages import Refusal, Reply, Request
from forebay.processors.transport import Transport
from forebay.rules.verdict import ErrorClass

URL: Final = "https://translation.googleapis.com"
LIMIT: Final = "translate"
_PATH: Final = "/language/translate/v2/detect"
_MAX_REPLY: Final = 256 * 1024
# This API says 403 as well for what others say 429.
_BY_REASON: Final = {
    "dailyLimitExceeded": ErrorClass.QUOTA_EXHAUSTED,
    "quotaExceeded": ErrorClass.QUOTA_EXHAUSTED,
    "rateLimitExceeded": ErrorClass.RATE_LIMITED,
    "userRateLimitExceeded": ErrorClass.RATE_LIMITED,
}


class Translate:
    """Each question takes one call of the limit, and its `characters` where the limit counts those."""

    def __init__(
        self, url: str, *, transport: Callable[[], Transport], credentials: Credentials, timeout_s: float
    ) -> None:
        self._url = url.rstrip("/") + _PATH
        self._transport = transport
        self._credentials = credentials
        self._timeout_s = timeout_s

    async def detect(self, ctx: Context, text: str) -> str | None:
        """What it says, which may be `und`; None for nothing."""
        reply = await self._transport().call(
            ctx,
            Request.of_json("POST", self._url, {"q": [text]}),
            limit=LIMIT,
            units={"calls": 1, "characters": len(text)},
            meter=LIMIT,
            judge=judged,
            credentials=self._credentials,
            timeout_s=self._timeout_s,
            max_reply=_MAX_REPLY,
        )
        ctx.used(LIMIT, "characters", len(text))
        return _language(reply.json)


def judged(reply: Reply) -> Refusal | None:
    found = google_errors.judged(reply)
    meant = None if found is None else _BY_REASON.get(_reason(reply.json))
    return found if found is None or meant is None else Refusal(meant, found.text)


def _reason(body: object) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    listed = error.get("errors") if isinstance(error, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return str(first.get("reason", "")) if isinstance(first, Mapping) else ""


def _language(body: Any) -> str | None:  # noqa: ANN401 - whatever came
    try:
        found = body["data"]["detections"][0]
        language = found[0]["language"] if found else None
    except (KeyError, IndexError, TypeError):
        raise Retry("Google Translate's answer has no language.", error_class=ErrorClass.BAD_RESPONSE) from None
    return language if isinstance(language, str) else None
