"""Turns payloads and results into JSON text that every store can hold, and back."""

from __future__ import annotations

import hashlib
import json.encoder
import math
from collections import Counter
from typing import TypeAlias

from forebay.errors import BadPayload, TooLarge
from forebay.ids import shown

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32
# Whatever holds itself is nested too deep, which is checked before.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
# Made once: the encoder itself makes one for each value, at twice the price of the value.
_MAKE = getattr(json.encoder, "c_make_encoder", None)  # as CPython has it
_OPTIONS = (None, ":", ",", False, False, False)  # indent, separators, sort_keys, skipkeys, allow_nan
_PIECES = _MAKE and _MAKE(None, _ENCODER.default, json.encoder.encode_basestring, *_OPTIONS)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_BLANK = " \t\n\r"
_raw_decode = json.JSONDecoder().raw_decode
_MAX_INT_BITS = 1024  # Python refuses to print integers much longer than this; so do other readers


class JsonText(str):
    """What `encode` made, and so need not be checked again."""

    __slots__ = ()


NULL = JsonText("null")
TRUE = JsonText("true")
FALSE = JsonText("false")


def encode(value: object, *, what: str = "payload", max_bytes: int = MAX_BYTES) -> JsonText:
    """JSON text that reads back as an equal value; what JSON would silently change is refused."""
    if value is None:
        return NULL
    if value is True or value is False:
        return TRUE if value else FALSE
    if not _flat(value):
        _check(value, what, max_bytes)
    text = JsonText("".join(_PIECES(value, 0)) if _PIECES else _ENCODER.encode(value))
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise BadPayload(
            f"The {what} holds half of a surrogate pair, which is not a character.",
            remedy="Decode the text it came from correctly, or replace what cannot be decoded.",
        ) from None
    if size > max_bytes:
        raise TooLarge(
            f"The {what} has {size} bytes of JSON; {max_bytes} are allowed.",
            remedy="Keep the bytes in the blob store and pass their reference.",
        )
    return text


def check_json(text: object, *, what: str = "result", max_bytes: int = MAX_BYTES) -> str:
    """JSON text that somebody else made: held to the same as what `encode` makes."""
    if isinstance(text, JsonText):
        return text
    if not isinstance(text, str):
        raise BadPayload(f"The {what} must be JSON text, not {type(text).__name__}.", remedy="Encode it first.")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadPayload(f"The {what} is not JSON: {shown(str(error))}.", remedy="Encode it with json.dumps.") from None
    encode(value, what=what, max_bytes=max_bytes)
    return text


def parse(text: str, *, what: str = "payload", max_bytes: int = MAX_BYTES) -> Json:
    """JSON text from outside as a value; two entries under one key are refused, since one would be lost."""
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unlike)
    except RecursionError:
        raise BadPayload(f"The {what} is nested deeper than {MAX_DEPTH} levels.", remedy="Make it flatter.") from None
    except ValueError as error:
        raise BadPayload(f"The {what} is not JSON: {shown(str(error))}.", remedy="Correct the JSON.") from None
    encode(value, what=what, max_bytes=max_bytes)
    return value


def _unlike(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {shown(twice)} is there twice")
    return made


def _refuse_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def decode(text: str) -> Json:
    """What `encode` made, which has no blanks around it, or any other JSON."""
    value: Json
    if text[:1] in _BLANK:
        value = json.loads(text)
        return value
    value, end = _raw_decode(text)
    return value if end == len(text) else json.loads(text)


def fingerprint(text: str, *more: str) -> str:
    """Equal for equal values, whatever the order of their keys, and for the same texts beside them."""
    canonical = _CANONICAL.encode([decode(text), *more])
    return hashlib.sha256(canonical.encode()).hexdigest()


def clean_text(text: str, *, most: int = 4000) -> str:
    """Foreign text made fit to be stored: no NUL, no half characters, bounded."""
    if not isinstance(text, str):
        raise BadPayload(f"A text must be a string, not {type(text).__name__}.", remedy="Convert it with str().")
    kept = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return kept if len(kept) <= most else f"{kept[: most - 2]} …"


_FLAT_MOST = 100
_FLAT_INT = 2**63


def _flat(value: object) -> bool:
    """A few texts and numbers under names, as most payloads are: nothing that could be refused but for its size."""
    if type(value) is not dict or len(value) > _FLAT_MOST:
        return False
    for name, item in value.items():
        if type(name) is not str or "\0" in name:
            return False
        if type(item) is str:
            if "\0" in item:
                return False
        elif type(item) is int:
            if not -_FLAT_INT < item < _FLAT_INT:
                return False
        elif item is not None and type(item) is not bool:
            return False
    return True


def _check(value: object, what: str, max_bytes: int) -> None:
    # An explicit stack: a hostile payload must not reach Python's recursion limit.
    stack: list[tuple[object, int]] = [(value, 1)]
    room = max_bytes
    while stack:
        item, depth = stack.pop()
        room -= 1
        if room < 0:  # each value takes a byte or more: lists that share lists may unfold to billions of them
            raise TooLarge(
                f"The {what} has too many values for {max_bytes} bytes of JSON.",
                remedy="Keep the bytes in the blob store and pass their reference.",
            )
        if type(item) is str and "\0" not in item:
            continue  # as most are
        if isinstance(item, (dict, list, tuple)):
            if depth > MAX_DEPTH:
                raise BadPayload(f"The {what} is nested deeper than {MAX_DEPTH} levels.", remedy="Flatten it.")
            if isinstance(item, dict):
                for key in item:
                    _check_text(key, what, "a key")
                stack.extend((child, depth + 1) for child in item.values())
            else:
                stack.extend((child, depth + 1) for child in item)
        elif isinstance(item, str):
            _check_text(item, what, "text")
        else:
            _check_scalar(item, what)


def _check_text(item: object, what: str, part: str) -> None:
    if not isinstance(item, str):
        raise BadPayload(f"The {what} has {shown(item)} as {part}.", remedy="JSON keys are strings.")
    if "\0" in item:
        raise BadPayload(f"The {what} holds a NUL character in {part}.", remedy="Remove it.")


def _check_scalar(item: object, what: str) -> None:
    if item is None or isinstance(item, bool):
        return
    if isinstance(item, int):
        if item.bit_length() > _MAX_INT_BITS:
            raise BadPayload(f"The {what} holds an integer of {item.bit_length()} bits.", remedy="Send it as text.")
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise BadPayload(f"The {what} holds {item}, which JSON does not have.", remedy="Use null or text.")
    else:
        raise BadPayload(
            f"The {what} holds a {type(item).__name__}, which is not JSON.",
            remedy="Use None, bool, int, float, str, list and dict; put bytes into the blob store.",
        )
