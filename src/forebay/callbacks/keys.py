"""Keeps the key that the secrets of callbacks follow from: as the settings give it, or in a file of its own."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from forebay.errors import BadInput
from forebay.observe.redact import hide_given

_FILE = "callback.key"
_LEAST = 16


def key_of(given: str | None, home: Path, *, shared: bool) -> bytes:
    """`shared`: other machines use the same ledger, and would not have this machine's file."""
    if given is not None:
        return given.encode()
    if shared:
        raise BadInput(
            "Callbacks of a ledger that machines share need a key that they share.",
            remedy="Set FOREBAY_CALLBACK_KEY to the same long random text for all of them.",
        )
    file = home / _FILE
    try:
        text = file.read_text("ascii").strip()
    except FileNotFoundError:
        text = _made(file)
    except (OSError, UnicodeError):
        raise BadInput(f"{file} cannot be read.", remedy="It is to be readable by you alone.") from None
    if len(text) < _LEAST:
        raise BadInput(f"{file} holds no key.", remedy="Delete it for a new one; receivers then need new secrets.")
    hide_given(text)
    return text.encode()


def _made(file: Path) -> str:
    """Of several processes that make it at once, one wins and all use what it wrote."""
    draft = file.with_name(f".{_FILE}.{secrets.token_hex(8)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as out:  # noqa: PTH123 - with its mode from the start
            out.write(secrets.token_hex(32))
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, file)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return file.read_text("ascii").strip()
    except OSError as error:
        raise BadInput(
            f"The key of callbacks cannot be kept in {file}: {error.strerror}.",
            remedy="Make the folder writable, or set FOREBAY_CALLBACK_KEY.",
        ) from None
