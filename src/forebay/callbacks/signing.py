"""Signs a callback as Standard Webhooks asks: id, timestamp and body, by each secret that is in force."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

PREFIX = "whsec_"
OVERLAP_S = 86_400.0
"""How long the secret before the present one signs as well, so that a receiver can change over."""

_PURPOSE = b"forebay callback secret"


def secret_of(key: bytes, endpoint_id: str, generation: int) -> str:
    """The secret of an endpoint: it follows from the operator's key, so that no ledger holds it."""
    named = b"\0".join((_PURPOSE, endpoint_id.encode(), str(generation).encode()))
    return PREFIX + base64.b64encode(hmac.digest(key, named, hashlib.sha256)).decode()


def in_force(generation: int, rotated_at: float | None, now: float) -> tuple[int, ...]:
    """The generations of an endpoint's secret that sign now, the newest first."""
    rotating = generation > 1 and rotated_at is not None and now < rotated_at + OVERLAP_S
    return (generation, generation - 1) if rotating else (generation,)


def headers(secrets: Sequence[str], message_id: str, body: bytes, *, now: float) -> dict[str, str]:
    """Of one attempt: the id is the event's own, the timestamp this attempt's."""
    timestamp = str(int(now))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(secret, signed) for secret in secrets),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
