"""What a step asks of its database: named statements in batches, each answered with its rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, TypeVar

Row = tuple[Any, ...]
T = TypeVar("T")


class Statement(NamedTuple):
    """A file of the database's own folder of queries, and what its header asks for; lists are rows or values."""

    name: str
    arguments: Mapping[str, object]


class Batch(NamedTuple):
    """Statements of which none needs the answer of another, run in this order; after the `last` there are no more."""

    statements: list[Statement]
    last: bool = False


Steps = Generator[Batch, list[list[Any]], T]


class Again(Exception):
    """Somebody was quicker: the step is to be run again, from its beginning and after what it did so far."""


def ask(name: str, **arguments: object) -> Statement:
    return Statement(name, arguments)


_encode = json.JSONEncoder(separators=(",", ":")).encode


def encode(value: object) -> str:
    return _encode(value)


class Queries:
    """The statements of one database; lines of a list that ask for what is not given are left out."""

    def __init__(self, package: str) -> None:
        self._folder = resources.files(package)
        self.text: Callable[[str], str] = cache(self._text)
        self.listing: Callable[[str, frozenset[str]], str] = cache(self._listing)

    def _text(self, name: str) -> str:
        return (self._folder / f"{name}.sql").read_text("utf-8")

    def _listing(self, name: str, given: frozenset[str]) -> str:
        lines = self.text(name).splitlines()
        return "\n".join(line for line in lines if (line.lstrip()[:4] != "AND ") or _named(line) <= given)

    def names(self) -> list[str]:
        return sorted(file.name.removesuffix(".sql") for file in self._folder.iterdir() if file.name.endswith(".sql"))


PLACE = re.compile(r"(?<![:\w]):([a-z_]+)")


def _named(line: str) -> set[str]:
    return set(PLACE.findall(line))
