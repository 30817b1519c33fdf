"""Decides whom a refusal cools down that a tenant reports: that tenant at once, everybody once it is confirmed."""

from __future__ import annotations

from forebay.model.limit_record import Record, Terms
from forebay.rules.cooldown import step

MOST = 30_000
"""Milliseconds that a report of a tenant counts at most, for that tenant or for everybody."""

_MEMORY = 60_000


def report(record: Record, terms: Terms, tenant: str, wait: int, now: int) -> int | None:
    """Note what a tenant says of the provider. Return how long everybody waits, None while nobody else says the same.

    `wait` is -1 where the provider did not say how long. A report counts for a minute.
    """
    known = {name: each for name, each in record.get("reports", {}).items() if each["at"] > now - _MEMORY}
    confirmed = any(name != tenant for name in known)
    pause = min(wait if wait >= 0 else step(terms, 1), MOST, terms["longest"])
    until = max(known[tenant]["until"] if tenant in known else 0, now + pause)
    record["reports"] = known | {tenant: {"at": now, "until": until}}
    record["v"] += 1
    return pause if confirmed else None


def left(record: Record, tenant: str, now: int) -> int:
    """Milliseconds that calls of this tenant wait yet."""
    told = record.get("reports", {}).get(tenant)
    return 0 if told is None else max(0, told["until"] - now)
