"""Decides whether a zip may be unpacked, by what its directory says of it."""

from __future__ import annotations

import zipfile
from io import BytesIO
from typing import Final

from forebay.processors.pdf.refused import Refused
from forebay.rules.verdict import ErrorClass

MAX_BYTES: Final = 256 * 1024 * 1024
MAX_FILES: Final = 20_000


def checked(raw: bytes) -> BytesIO:
    """The same bytes to read from; nobody who reads a file of a zip gets more of it than its directory says."""
    try:
        with zipfile.ZipFile(BytesIO(raw)) as opened:
            listed = opened.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise Refused(ErrorClass.CORRUPTED_CONTENT, f"The document's zip cannot be read: {error}.") from None
    if len(listed) > MAX_FILES:
        raise Refused(ErrorClass.DECOMPRESSION_LIMIT, f"The document has {len(listed)} files in it.")
    size = sum(each.file_size for each in listed)
    if size > MAX_BYTES:
        raise Refused(
            ErrorClass.DECOMPRESSION_LIMIT, f"The document unpacks to {size:,} bytes, more than {MAX_BYTES:,}."
        )
    if any(each.flag_bits & 1 for each in listed):
        raise Refused(ErrorClass.ENCRYPTED, "The document opens only with a password.")
    return BytesIO(raw)
