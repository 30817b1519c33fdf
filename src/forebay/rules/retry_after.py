"""Decides how long a provider's answer asks us to wait; what cannot be understood asks for nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

MAX_S = 366 * 86_400.0

_SECONDS_PER_UNIT = {"retry-after-ms": 0.001, "x-ms-retry-after-ms": 0.001, "retry-after": 1.0}
# No sign: a negative wait, taken for 0, would send the next call at once; as None it leaves the wait to the caller.
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_DURATION = re.compile(rf"({_NUMBER.pattern})s")
_SPAN = re.compile("".join(rf"(?:({_NUMBER.pattern}){unit})?" for unit in ("d", "h", "m(?!s)", "s", "ms")))
_SPAN_UNITS_S = (86_400.0, 3600.0, 60.0, 1.0, 0.001)
_BUDGETS = (("x-ratelimit-", "-requests"), ("x-ratelimit-", "-tokens"), ("x-ratelimit-", ""), ("ratelimit-", ""))
_EPOCH = 1e9  # from here on a number is an instant
_AGAIN = re.compile(r"(?:retry|try again) (?:after|in) ([0-9]{1,6}(?:\.[0-9]{1,6})?) ?(ms|s)", re.IGNORECASE)
_RETRY_INFO = "google.rpc.RetryInfo"

_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"[a-z]{{3}}, (?P<day>[0-9]{{2}}) (?P<month>[a-z]{{3}}) (?P<year>[0-9]{{4}}) {_TIME} (?:GMT|UTC)",
        rf"[a-z]{{6,9}}, (?P<day>[0-9]{{2}})-(?P<month>[a-z]{{3}})-(?P<year>[0-9]{{2}}) {_TIME} (?:GMT|UTC)",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_YEAR_S = 365.2425 * 86_400
_LEAP_SECOND = 60
_SHORT_YEAR = 2


def find(headers: Mapping[str, str], body: object, *, now: float) -> float | None:
    """Return how long an answer asks us to wait, in whichever form; "not at all" is not advice after a refusal."""
    for found in (
        parse(headers, now=now),
        google_retry_info(body),
        rate_limit_reset(headers, now=now),
        from_message(_get(_get(body, "error"), "message")),
    ):
        if found:
            return found
    return None


def read(hint: object, *, now: float) -> float | None:
    """Return the seconds that a hint means: a number, a timedelta, or a header's text. Nonsense means nothing."""
    if isinstance(hint, bytes):
        hint = hint.decode("latin-1")
    if isinstance(hint, str):
        text = hint.strip()
        for wait_s in (_number(text, 1.0), _until(text, now), _span(text)):
            if wait_s is not None:
                return wait_s
        return None
    if isinstance(hint, timedelta):
        hint = hint.total_seconds()
    if isinstance(hint, bool) or not isinstance(hint, (int, float)) or not 0 <= hint <= MAX_S:  # NaN is not
        return None
    return float(hint)


def parse(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds to wait, 0 to MAX_S; a date in the past is 0, and headers in milliseconds, being finer, go first."""
    given = {name.strip().lower(): value.strip() for name, value in headers.items()}
    for name, unit_s in _SECONDS_PER_UNIT.items():
        text = given.get(name, "")
        wait_s = _number(text, unit_s)
        if wait_s is None and name == "retry-after":
            wait_s = _until(text, now)
        if wait_s is not None:
            return wait_s
    return None


def google_retry_info(body: object) -> float | None:
    """Seconds to wait from the RetryInfo in the parsed JSON body of a Google API's error."""
    if isinstance(body, list) and body:  # streaming methods wrap the error in a list
        body = body[0]
    details = _get(_get(body, "error"), "details")
    for detail in details if isinstance(details, list) else ():
        kind, delay = _get(detail, "@type"), _get(detail, "retryDelay")
        if isinstance(kind, str) and kind.endswith(_RETRY_INFO) and isinstance(delay, str):
            found = _DURATION.fullmatch(delay.strip())
            if found:
                return _number(found[1], 1.0)
    return None


def rate_limit_reset(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds until the budgets that are used up are there again.

    OpenAI writes "6m0s" or "20ms" for each budget; others write seconds, or the instant in UTC seconds, for one.
    """
    given = {name.strip().lower(): value.strip() for name, value in headers.items()}
    waits = [
        wait_s
        for prefix, suffix in _BUDGETS
        if _number(given.get(f"{prefix}remaining{suffix}", ""), 1.0) == 0
        and (wait_s := _reset(given.get(f"{prefix}reset{suffix}", ""), now, of_one=bool(suffix))) is not None
    ]
    return max(waits, default=None)


def from_message(text: object) -> float | None:
    """Seconds from prose such as "Please try again in 20s", where there is no header."""
    found = _AGAIN.search(text) if isinstance(text, str) else None
    return None if found is None else float(found[1]) * (0.001 if found[2].lower() == "ms" else 1.0)


def _reset(text: str, now: float, *, of_one: bool) -> float | None:
    wait_s = None if of_one else _number(text, 1.0)
    if wait_s is None:
        return _span(text)
    instant = float(text)
    return wait_s if instant < _EPOCH else min(max(0.0, instant - now), MAX_S)


def _span(text: str) -> float | None:
    found = _SPAN.fullmatch(text)
    if found is None or not text:
        return None
    parts = zip(found.groups(), _SPAN_UNITS_S, strict=True)
    return min(MAX_S, sum(float(each) * unit_s for each, unit_s in parts if each))


def _get(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _number(text: str, unit_s: float) -> float | None:
    # float(), unlike int(), takes any number of digits: too many are infinite, hence MAX_S.
    return min(float(text) * unit_s, MAX_S) if _NUMBER.fullmatch(text) else None


def _until(text: str, now: float) -> float | None:
    for form in _DATES:
        found = form.fullmatch(text)
        if found:
            try:
                return min(max(0.0, _instant(found, now) - now), MAX_S)
            except (ValueError, OverflowError):
                return None
    return None


def _instant(found: re.Match[str], now: float) -> float:
    """RFC 9110, 5.6.7: a leap second is allowed, and a year of two digits is at most 50 years ahead."""
    year, second = int(found["year"]), int(found["second"])
    if len(found["year"]) == _SHORT_YEAR:
        year += 100 * math.floor((1970 + now / _YEAR_S + 50 - year) / 100)
    leap = second == _LEAP_SECOND
    month = _MONTHS.index(found["month"].lower()) + 1
    moment = (int(found["hour"]), int(found["minute"]), second - leap)
    return datetime(year, month, int(found["day"]), *moment, tzinfo=UTC).timestamp() + leap
