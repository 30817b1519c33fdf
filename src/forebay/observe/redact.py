"""Decides what must not be shown: keys that smell of secrets, what stands before the @ of a URL, hidden values."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, unquote

STARS = "***"
_DEPTH = 8
_LEAST = 8
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_INSIDE = re.compile(r"passw|passphrase|secret|credential|signature")
_WHOLE = {"auth", "authorization", "bearer", "cookie", "pwd", "sig"}
_ENDINGS = ("key", "token")
_WORD = re.compile(r"\S+")
_PAIR = re.compile(r"(^|[?&;#\s])([^=?&;#\s]+)=([^&;#\s]+)")

_hidden: tuple[str, ...] = ()
_lock = threading.Lock()


def hide(secret: str) -> None:
    """From now on, no log line shows this text, nor its quoted forms."""
    global _hidden  # noqa: PLW0603 - a tuple swapped whole, so that readers need no lock
    if not secret:
        return
    forms = {secret, quote(secret, safe="", errors="replace"), repr(secret)[1:-1], json.dumps(secret)[1:-1]}
    with _lock:
        # The longest first: a secret may be part of another.
        _hidden = tuple(sorted({*_hidden, *forms}, key=lambda each: (-len(each), each)))


def hide_given(secret: str) -> None:
    """The same for what a user gave us as a secret, unless it is so short that ordinary words have it in them."""
    if len(secret) >= _LEAST:
        hide(secret)


@lru_cache(maxsize=1024)
def smells(key: str) -> bool:
    """Whether the value under such a key is probably a secret; numbers of tokens are not."""
    parts = [part.lower() for part in _PARTS.findall(key)]
    return bool(_INSIDE.search(key.lower())) or any(part in _WHOLE or part.endswith(_ENDINGS) for part in parts)


def mask(value: object, key: str = "", *, depth: int = _DEPTH) -> object:
    """The value in plain types that JSON knows, with every secret in it replaced."""
    # A lease token is a task's claim count, and no secret.
    if smells(key) and not (key == "token" and isinstance(value, int)):
        return STARS
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth and isinstance(value, Mapping):
        return {mask_text(_text(inner)): mask(each, _text(inner), depth=depth - 1) for inner, each in value.items()}
    if depth and isinstance(value, (list, tuple, set, frozenset)):
        return [mask(each, depth=depth - 1) for each in value]
    return mask_text(_text(value))


def mask_hidden(text: str) -> str:
    """Without the hidden values, and else as it is."""
    for secret in _hidden:
        text = text.replace(secret, STARS)
    return text


def mask_text(text: str) -> str:
    text = mask_hidden(text)
    if "://" in text:
        text = _WORD.sub(lambda found: _mask_userinfo(found[0]), text)
    return _mask_pairs(text)


def mask_address(address: str) -> str:
    """One address as a whole, even if blanks got into its password."""
    return _mask_pairs(_mask_userinfo(address))


def _mask_userinfo(text: str) -> str:
    scheme, mark, rest = text.partition("://")
    # The last @ counts: a password with an unquoted / or @ must not slip through.
    return f"{scheme}{mark}{STARS}@{rest.rpartition('@')[2]}" if "@" in rest else text


def _mask_pairs(text: str) -> str:
    return _PAIR.sub(_mask_pair, text) if "=" in text else text


def _mask_pair(found: re.Match[str]) -> str:
    before, key, value = found.groups()
    return f"{before}{key}={STARS if smells(unquote(key)) else value}"


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a foreign object's own text may fail
        return f"<{type(value).__name__}>"
