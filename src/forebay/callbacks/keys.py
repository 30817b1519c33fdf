"""Keeps the key that the secrets of callbacks follow from where the settings give none: in a file beside the ledger."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from forebay.errors import BadInput, StoreUnreachable
from forebay.observe.redact import hide_given

_ENDING = "-callback.key"
_LEAST = 16


def unshared() -> BadInput:
    return BadInput(
        "Callbacks of a ledger that machines share need a key that they share.",
        remedy="Set FOREBAY_CALLBACK_KEY to the same long random text for all of them.",
    )


def key_beside(ledger: Path) -> bytes:
    """Made when it is first needed; all processes that use the file of the ledger find this one, too."""
    file = ledger.with_name(ledger.name + _ENDING)
    try:
        text = file.read_text("ascii").strip()
    except FileNotFoundError:
        text = _made(file)
    except (OSError, UnicodeError):
        raise StoreUnreachable(f"{file} cannot be read.", remedy="It is to be readable by you alone.") from None
    if len(text) < _LEAST:
        raise StoreUnreachable(
            f"{file} holds no key.", remedy="Delete it for a new one; receivers then need new secrets."
        )
    hide_given(text)
    return text.encode()


def _made(file: Path) -> str:
    """Of several processes that make it at once, one wins and all use what it wrote."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
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
        raise StoreUnreachable(
            f"The key of callbacks cannot be kept in {file}: {error.strerror}.",
            remedy="Make the folder writable, or set FOREBAY_CALLBACK_KEY.",
        ) from None
