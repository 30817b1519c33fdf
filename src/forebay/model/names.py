"""Checks the names and numbers that users choose."""

from __future__ import annotations

import re
from functools import lru_cache

from forebay.errors import BadInput, BadName
from forebay.ids import shown

_NAME = re.compile(r"[a-z0-9_.-]{1,64}")
LABEL_LENGTH = 200
CALLBACK = "callback"
MAX_DURATION_S = 100 * 366 * 86_400.0
_MAX_COUNT = 1_000_000_000
_MAX_AMOUNT = 1e12  # so that sums of many stay exact
_LAST_INSTANT = 253_402_300_799.0  # the end of the year 9999: later ones have no date


@lru_cache(maxsize=4096)
def _check_name(what: str, value: str) -> str:
    # Names become object keys and file names: "." and ".." would climb.
    if not _NAME.fullmatch(value) or value in {".", ".."}:
        raise BadName(
            f"{what} {shown(value)} is not a name.",
            remedy="Use 1 to 64 characters of a-z, 0-9, '_', '.' and '-'.",
        )
    return value


def check_name(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadName(f"{what} must be text, not {type(value).__name__}.", remedy="Give a name as a string.")
    return _check_name(what, value)


def check_label(what: str, value: object) -> str:
    """Free text of one line that is stored and shown, such as an idempotency key."""
    if not isinstance(value, str) or not 1 <= len(value) <= LABEL_LENGTH or not value.isprintable():
        raise BadName(
            f"{what} {shown(value)} cannot be used.",
            remedy=f"Use 1 to {LABEL_LENGTH} printable characters.",
        )
    return value


def check_duration(what: str, value: object) -> float:
    return _check_number(what, value, MAX_DURATION_S, "seconds, 0 or more")


def check_instant(what: str, value: object) -> float:
    return _check_number(what, value, _LAST_INSTANT, "seconds since 1970, UTC")


def check_amount(what: str, value: object) -> float:
    return _check_number(what, value, _MAX_AMOUNT, "how much it was, 0 or more")


def check_share(what: str, value: object) -> float:
    return _check_number(what, value, 1, "a share from 0 to 1")


def _check_number(what: str, value: object, most: float, meaning: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadInput(f"{what} must be a number, not {shown(value)}.", remedy=f"Give {meaning}.")
    # Compared before it becomes a float: an integer of 400 digits has none.
    if not 0 <= value <= most:
        raise BadInput(
            f"{what} is {shown(value)}, outside 0 to {most:.0f}.", remedy=f"Give {meaning}, within that range."
        )
    return float(value)


def check_count(what: str, value: object, *, least: int = 0, most: int = _MAX_COUNT) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadInput(f"{what} is {shown(value)}.", remedy=f"Give a whole number from {least} to {most}.")
    return value


def lane_of(kind: str, limit: str | None = None) -> str:
    """Tasks in one lane wait for the same thing: their kind and, if it has one, its limit."""
    return kind if limit is None else f"{kind}@{limit}"


def kind_of(lane: str) -> str:
    return lane.partition("@")[0]


def limit_of(lane: str) -> str | None:
    """Of a callback's lane none: there it is a host that stands behind the @."""
    kind, _, limit = lane.partition("@")
    return None if kind == CALLBACK else limit or None


def check_lane(value: object) -> str:
    if not isinstance(value, str):
        raise BadName(f"A lane must be text, not {type(value).__name__}.", remedy="Give a lane as a string.")
    try:
        for part in value.split("@", 1):
            check_name("lane", part)
    except BadName:
        raise BadName(
            f"{shown(value)} is not a lane.", remedy="Use a kind, such as ocr, or a kind and its limit: ocr@adobe."
        ) from None
    return value
