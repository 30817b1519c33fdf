"""Turns named statements into what PostgreSQL takes: numbered parameters, and an array for each column of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, cast

from forebay.stores.postgres.queries import QUERIES

# The instant that is known of the transaction, else its beginning; and that of the statement itself. The second is
# later than all that the statement can see. Whoever has a clock of their own is asked for neither.
_INSTANTS = {
    "now": "coalesce({}::float8, extract(epoch FROM now())::float8)",
    "clock": "coalesce({}::float8, extract(epoch FROM clock_timestamp())::float8)",
}
_PLACE = re.compile(r"(?<![:\w]):([a-z_]+)(?:\.(\d+))?(?:::(text|bigint|integer|float8|boolean)\[\])?")
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)
Bind = Callable[[Mapping[str, Any]], bytes | None]


class Bound(NamedTuple):
    """A statement as the server prepares it, and how each of its parameters is made."""

    name: bytes
    text: bytes
    binds: tuple[Bind, ...]

    def values(self, arguments: Mapping[str, Any]) -> list[bytes | None]:
        return [bind(arguments) for bind in self.binds]


@cache
def bound(name: str, given: frozenset[str] | None = None) -> Bound:
    """`given`: the arguments of a list that are not None."""
    text = _COMMENT.sub("", QUERIES.text(name) if given is None else QUERIES.listing(name, given))
    numbers: dict[tuple[str, str, str], int] = {}
    binds: list[Bind] = []

    def numbered(found: re.Match[str]) -> str:
        argument, column, kind = found.groups(default="")
        key = (argument, column, kind)
        if key not in numbers:
            numbers[key] = len(numbers) + 1
            binds.append(_bind(*key))
        place = f"${numbers[key]}"
        if argument in _INSTANTS:
            return _INSTANTS[argument].format(place)
        return f"{place}::{kind}[]" if kind else place

    text = _PLACE.sub(numbered, text)
    label = name if given is None else f"{name} {' '.join(sorted(given))}"
    return Bound(f"forebay {label}".encode(), text.encode(), tuple(binds))


def _bind(argument: str, column: str, kind: str) -> Bind:
    if not kind:
        return lambda arguments: _scalar(arguments[argument])
    array: Callable[[list[Any]], bytes] = _texts if kind == "text" else _numbers
    if not column:
        return lambda arguments: array(arguments[argument])
    at = int(column)
    return lambda arguments: array([row[at] for row in arguments[argument]])


def _scalar(value: object) -> bytes | None:
    return None if value is None else _storable(str(value)).encode("utf-8", "replace")


def _storable(text: str) -> str:
    """What is stored has no NUL, and no half of a pair: a name that does is not found, and need not be."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _numbers(values: list[Any]) -> bytes:
    # What Python writes of numbers and truth is what PostgreSQL reads.
    return ("{" + str(values)[1:-1].replace("None", "NULL") + "}").encode()


def _texts(values: list[str | None]) -> bytes:
    # Most columns have one value throughout: no error, one kind, one tenant.
    if len(set(values)) == 1:
        body = ",".join([_text(values[0])] * len(values))
    elif None in values or "\\" in (joined := '","'.join(cast("list[str]", values))):
        body = ",".join(map(_text, values))
    elif joined.count('"') == 2 * (len(values) - 1):
        body = f'"{joined}"'
    else:
        body = ",".join(map(_text, values))
    return _storable("{" + body + "}").encode("utf-8", "replace")


def _text(value: str | None) -> str:
    if value is None:
        return "NULL"
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'
