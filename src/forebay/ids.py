"""Makes and checks the ids of tasks, jobs, sessions and actions."""

from __future__ import annotations

import hashlib
import os
import re

from forebay.errors import BadName

LENGTH = 26
_LINE = 60
_LETTERS = b"abcdefghijklmnopqrstuvwxyz234567" * 8
_ID = re.compile(rf"[a-z2-7]{{{LENGTH}}}")
_PREFIX = re.compile(rf"[a-z2-7]{{1,{LENGTH}}}")


def random_id() -> str:
    """130 random bits: no order to guess, and the first few characters already differ."""
    return _text(os.urandom(LENGTH))


def random_ids(count: int) -> list[str]:
    """As many random ids, for the price of a few."""
    letters = os.urandom(LENGTH * count).translate(_LETTERS).decode()
    return [letters[start : start + LENGTH] for start in range(0, len(letters), LENGTH)]


def derived_id(*parts: str) -> str:
    """The same parts give the same id on every machine, so creating twice is harmless."""
    # Each part is preceded by its length: ("a", "bc") and ("ab", "c") must not meet.
    joined = b"".join(len(raw).to_bytes(4) + raw for raw in (part.encode() for part in parts))
    return _text(hashlib.sha256(joined).digest())


def check_id(value: str) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise BadName(
            f"{shown(value)} is not an id.",
            remedy=f"An id has {LENGTH} characters of a-z and 2-7, as printed by submit and list.",
        )
    return value


def check_prefix(value: str) -> str:
    if not isinstance(value, str) or not _PREFIX.fullmatch(value):
        raise BadName(f"{shown(value)} is not the beginning of an id.", remedy="Use a-z and 2-7 only.")
    return value


def shown(value: object) -> str:
    """A foreign value in an error text: quoted, escaped, never longer than a line."""
    try:
        text = ascii(value)
    except Exception:  # noqa: BLE001 - too many digits, too deep, or a repr of its own that fails
        text = f"<{type(value).__name__}>"
    if not text.isprintable():
        text = ascii(text)
    return text if len(text) <= _LINE else f"{text[: _LINE - 3]}..."


def printable(text: str) -> str:
    """Foreign text on one line, with whatever could move a cursor or begin another record escaped."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _text(raw: bytes) -> str:
    """Five bits of each byte: as even as the bytes are, and much faster than encoding all eight."""
    return raw[:LENGTH].translate(_LETTERS).decode()
