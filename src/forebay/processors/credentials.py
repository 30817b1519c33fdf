"""Who we are to a provider: the headers that say so, renewed once when they are refused, and never shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from forebay.engine.signals import Retry
from forebay.errors import BadInput
from forebay.ids import printable
from forebay.observe.redact import hide_given
from forebay.processors.origins import origin
from forebay.rules.verdict import ErrorClass

_MOST = 16_384


class Credentials(Protocol):
    """`origin` is the only place they are sent to."""

    origin: str

    async def headers(self) -> Mapping[str, str]:
        """What a request carries now; Retry of class auth, or another, where there is nothing to carry."""

    async def renewed(self, refused: Mapping[str, str]) -> bool:
        """After these were refused: whether there are others by now. Many may ask at once."""


class Key:
    """A key or token that does not change, unless it is in a file, which is read again when it is refused."""

    def __init__(
        self, url: str, header: str, *, value: str | None = None, file: Path | None = None, form: str = "{}"
    ) -> None:
        if (value is None) == (file is None):
            raise BadInput("A key is given as it is or in a file.", remedy="Give exactly one of them.")
        self.origin = origin(url)
        self._header = header
        self._form = form
        self._file = file
        self._value = None if value is None else _checked(value, "The key")

    def check(self) -> None:
        """Before anything is sent: BadInput where there is no key."""
        if self._file is not None:
            self._value = _checked(read_text(self._file).strip(), f"What is in {printable(str(self._file))}")

    async def headers(self) -> Mapping[str, str]:
        if self._value is None:
            await self._read_again()
        return {self._header: self._form.format(self._value)}

    async def renewed(self, refused: Mapping[str, str]) -> bool:
        if self._file is not None:
            await self._read_again()
        return await self.headers() != refused

    async def _read_again(self) -> None:
        try:
            await asyncio.to_thread(self.check)
        except BadInput as error:
            raise Retry(str(error), error_class=ErrorClass.AUTH) from None


def read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError as error:
        raise BadInput(
            f"The credentials in {printable(str(path))} cannot be read: {error.strerror}.",
            remedy="Check the path, and who may read it.",
        ) from None


def _checked(value: str, what: str) -> str:
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise BadInput(f"{what} is not a key.", remedy="Give the key alone, on one line.")
    hide_given(value)
    return value
