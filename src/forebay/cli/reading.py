"""Reads what a user typed or named: JSON, files, instants."""

from __future__ import annotations

import re
import sys
import time
from datetime import datetime
from pathlib import Path

from forebay.errors import BadInput, BadPayload, NotFound
from forebay.ids import shown
from forebay.model.names import check_duration
from forebay.model.payload import Json, parse

STDIN = "-"
_SPAN = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ms|min|m|s|h|d)?", re.ASCII)
_SIZES_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_MOST = 256 * 1024 * 1024  # what the blob store takes in place of a payload


def payload(given: str) -> Json:
    """JSON itself, `@file`, or `-` for stdin."""
    if given == STDIN:
        text = text_of(STDIN)
        if not text.strip():
            raise BadInput("There is nothing on standard input.", remedy="Pipe the payload in, or name a file: @FILE.")
        return parse(text, max_bytes=_MOST)
    if given.startswith("@"):
        return parse(text_of(given[1:]), max_bytes=_MOST)
    return parse(given, max_bytes=_MOST)


def payloads(place: str) -> dict[int, Json]:
    """Return the payload of each line by its number; a bad line is named, and then none of them counts."""
    found: dict[int, Json] = {}
    for number, each in enumerate(text_of(place).split("\n"), 1):
        if each.strip():
            try:
                found[number] = parse(each, max_bytes=_MOST)
            except BadInput as error:
                remedy = f"Nothing was submitted. {error.remedy}"
                raise type(error)(f"Line {number}: {error.what}", remedy=remedy) from None
    if not found:
        raise BadPayload("There is no line to submit.", remedy="Write one JSON payload a line.")
    return found


def text_of(place: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if place == STDIN else Path(place).read_bytes()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        what = f"{'stdin' if place == STDIN else shown(place)} is not UTF-8."
        raise BadPayload(what, remedy="Convert it to UTF-8.") from None
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"There is no file {shown(place)}.", remedy="Name a file, or - for stdin.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{shown(place)} cannot be read: {reason}.", remedy="Name a file, or - for stdin.") from None


def instant(option: str, text: str) -> datetime | float:
    """An ISO instant with its time zone, or `+SECONDS` from now."""
    if text.startswith("+"):
        try:
            return time.time() + check_duration(option, float(text[1:]))
        except ValueError:
            pass
    else:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            if found.tzinfo is not None:
                return found
    raise BadInput(
        f"{option} {shown(text)} is not an instant with a time zone.",
        remedy="Write 2030-01-27T12:05:00Z, or +60 for 60 seconds from now.",
    )


def duration(option: str, text: str) -> float:
    """Seconds, or with units: 90, 90s, 30m, 2h, 1d, 1h30m."""
    given = text.strip().lower()
    parts = _SPAN.findall(given)
    whole = "".join(f"{count}{unit}" for count, unit in parts) == given
    # A bare number is seconds, and nothing stands beside it: 1h30 could be minutes as well.
    if not parts or not whole or (len(parts) > 1 and not all(unit for _, unit in parts)):
        raise BadInput(f"{option} {shown(text)} is not a duration.", remedy="Write 90, 90s, 30m, 2h or 1d.")
    return check_duration(option, sum(float(count) * _SIZES_S[unit or "s"] for count, unit in parts))
