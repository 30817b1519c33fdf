"""Takes a document in: how large it may be, what it is, what it is known by, and a name that can do no harm."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from forebay.blobs import Blobs
from forebay.errors import BadDocument
from forebay.model.names import LABEL_LENGTH
from forebay.pipelines import sniffing
from forebay.rules.verdict import ErrorClass

_PIECE = 1 << 20
_HARMFUL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@dataclass(frozen=True, slots=True)
class Document:
    """Bytes that may be worked on; `label` is for people."""

    sha256: str
    size: int
    media_type: str
    label: str


def looked_at(
    file: IO[bytes], name: str, *, max_bytes: int, sniffed: Callable[[IO[bytes]], str] = sniffing.of_pages
) -> Document:
    """What a file is, without keeping it; BadDocument if it cannot be one."""
    media_type = sniffed(file)
    file.seek(0)
    sha256 = hashlib.sha256()
    size = 0
    while piece := file.read(_PIECE):
        sha256.update(piece)
        size += len(piece)
        if size > max_bytes:
            raise BadDocument(
                f"It has more than {max_bytes:,} bytes.",
                remedy="Split it, or raise document_max_bytes.",
                error_class=ErrorClass.REFUSED,
            )
    return Document(sha256.hexdigest(), size, media_type, label(name))


def keep(file: IO[bytes], document: Document, blobs: Blobs, tenant: str) -> None:
    """Store the bytes durably; what changed since it was looked at is refused."""
    file.seek(0)
    ref = blobs.put(tenant, file)
    if ref.sha256 != document.sha256:
        raise BadDocument(
            "It changed while it was read.", remedy="Hand it in when it is written.", error_class=ErrorClass.REFUSED
        )


def label(name: str) -> str:
    """The last part of a name, without what a terminal, a log or a browser might take for something else."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    clean = "".join(each for each in unicodedata.normalize("NFC", last) if unicodedata.category(each) not in _HARMFUL)
    # What is not a printable character for Python is none for whoever shows it.
    short = "".join(each for each in clean if each.isprintable()).strip()[:LABEL_LENGTH].strip()
    return short if short.strip(". ") else "document"
