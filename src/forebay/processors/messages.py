"""What goes to a provider and what comes back, and what a provider's refusal means for the task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from forebay.engine.signals import Permanent, Retry, Signal
from forebay.ids import printable
from forebay.observe.redact import mask_text
from forebay.rules import retry_after, verdict
from forebay.rules.verdict import ErrorClass

_MOST_TEXT = 500
_NO_JSON = object()
# Of these a reply may say how long to wait.
_HINTED = {ErrorClass.RATE_LIMITED, ErrorClass.QUOTA_EXHAUSTED, ErrorClass.SERVICE_UNAVAILABLE}


@dataclass(frozen=True, slots=True)
class Stream:
    """A body too large to hold: `pieces` is called for each sending and gives `size` bytes in all."""

    size: int
    pieces: Callable[[], Iterator[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`headers` has no credentials: those are put in by whoever knows where they may go."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Stream = b""

    @classmethod
    def of_json(cls, method: str, url: str, value: object, **headers: str) -> Request:
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        return cls(method=method, url=url, headers={"content-type": "application/json"} | headers, body=body)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """`headers` has lower-case names; `lost` is the class of what happened to a body that did not come whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    lost: ErrorClass | None = None
    received_at: float = 0.0

    @cached_property
    def _parsed(self) -> object:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return _NO_JSON

    @property
    def is_json(self) -> bool:
        return self._parsed is not _NO_JSON

    @property
    def json(self) -> object:
        """What the body says; None also if the body is not JSON."""
        return self._parsed if self.is_json else None

    @cached_property
    def hint_s(self) -> float | None:
        """How long it asks us to wait, in whichever of the known forms; "not at all" is not advice after a refusal."""
        return retry_after.find(self.headers, self.json, now=self.received_at)


class Refusal(NamedTuple):
    """Why a reply is not an answer. Without `delay_s`, the reply's own hint counts, then the limit's cool-down."""

    error_class: ErrorClass
    text: str
    delay_s: float | None = None


Judge = Callable[[Reply], Refusal | None]
"""A provider's own reading of a reply; None is an answer."""


def by_status(reply: Reply) -> Refusal | None:
    """What the status alone says, for those replies of which a provider says nothing more."""
    found = verdict.classify_http(reply.status, has_retry_after=reply.hint_s is not None)
    if found is None:
        return None if reply.lost is None else Refusal(reply.lost, "The provider's answer was cut off.")
    return Refusal(found, f"The provider answered {reply.status}{_said(reply)}")


def json_by_status(reply: Reply) -> Refusal | None:
    """The same for an API that speaks JSON: pages of a proxy or a gateway are not its words."""
    found = by_status(reply)
    if found is None:
        return None if reply.is_json else Refusal(ErrorClass.BAD_RESPONSE, f"The answer is not JSON{_said(reply)}")
    if found.error_class == ErrorClass.REFUSED and not isinstance(reply.json, dict):
        return Refusal(ErrorClass.BAD_RESPONSE, found.text)
    return found


def signal(refusal: Refusal, reply: Reply | None = None) -> Signal:
    """What to raise; no secret is in it, whoever wrote the text."""
    text = printable(mask_text(refusal.text))
    text = text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."
    if not verdict.of(refusal.error_class).retryable:
        return Permanent(text, error_class=refusal.error_class)
    delay_s = refusal.delay_s
    if delay_s is None and reply is not None and refusal.error_class in _HINTED:
        delay_s = reply.hint_s
    return Retry(text, error_class=refusal.error_class, delay_s=delay_s)


def _said(reply: Reply) -> str:
    """How the body begins, where that is text."""
    begins = " ".join(reply.body[:200].decode("utf-8", "replace").split())
    return f": {begins[:100]}" if begins else " and nothing else."
