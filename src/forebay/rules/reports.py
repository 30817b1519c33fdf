"""Decides whom a refusal or failures cool down that a tenant reports: that tenant, everybody once it is confirmed."""

from __future__ import annotations

from forebay.model.limit_record import Record, Terms
from forebay.rules.cooldown import step

MOST = 30_000
"""Milliseconds that a report of a tenant counts at most, for that tenant or for everybody."""

_MEMORY = 60_000


def report(record: Record, terms: Terms, tenant: str, wait: int, now: int) -> int | None:
    """Note that the provider refused a tenant's call. Return how long everybody waits, None while nobody else says so.

    `wait` is 0 or less where the provider did not say how long. A report counts for a minute.
    """
    _forget(record, now)
    return _cool(record, terms, tenant, wait if wait > 0 else step(terms, 1), now)


def failed(record: Record, terms: Terms, tenant: str, now: int) -> int | None:
    """Note that a tenant's call failed. Return how long everybody waits, None while nobody else says so.

    As many in a row as open the breaker cool the tenant down, longer with each further one. Another tenant confirms
    them if it cools down as well, and so does the last call of all others if it failed.
    """
    _forget(record, now)
    own = record["reports"].setdefault(tenant, {"reported_at": now, "waits_until": now})
    if own["waits_until"] <= own["reported_at"]:
        # It has not cooled down: what was said first must not be forgotten while the row goes on.
        own["reported_at"] = own["waits_until"] = now
    own["failure_count"] = own.get("failure_count", 0) + 1
    beyond = own["failure_count"] - terms["breaker_after"]
    if terms["breaker_after"] > 0 and beyond >= 0:
        return _cool(record, terms, tenant, step(terms, beyond + 1), now, also=record["cooldown"]["failure_count"] > 0)
    record["version"] += 1
    return None


def in_a_row(record: Record, tenant: str) -> int:
    """How many calls of this tenant have failed since one did not."""
    told = record.get("reports", {}).get(tenant)
    return 0 if told is None else told.get("failure_count", 0)


def worked(record: Record, tenant: str) -> None:
    """Note that a tenant's call did not fail."""
    record["reports"][tenant].pop("failure_count", None)
    record["version"] += 1


def left(record: Record, tenant: str, now: int) -> int:
    """Milliseconds that calls of this tenant wait yet."""
    told = record.get("reports", {}).get(tenant)
    return 0 if told is None else max(0, told["waits_until"] - now)


def _forget(record: Record, now: int) -> None:
    """Drop what was said a minute ago, and make room for more."""
    reports = record.get("reports", {})
    record["reports"] = {name: each for name, each in reports.items() if each["reported_at"] > now - _MEMORY}


def _cool(record: Record, terms: Terms, tenant: str, wait: int, now: int, *, also: bool = False) -> int | None:
    """Let a tenant wait. `also`: somebody without a tenant says the same."""
    reports = record["reports"]
    confirmed = also or any(
        name != tenant and each["waits_until"] > each["reported_at"] for name, each in reports.items()
    )
    pause = max(1, min(wait, MOST, terms["max_cooldown_ms"]))
    own = reports.setdefault(tenant, {"reported_at": now, "waits_until": now})
    own["reported_at"] = now
    own["waits_until"] = max(own["waits_until"], now + pause)
    record["version"] += 1
    return pause if confirmed else None
