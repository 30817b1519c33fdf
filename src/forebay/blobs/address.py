"""Turns the address of a blob store into one, without touching it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from forebay.blobs.folder import Folder
from forebay.blobs.objects import Objects, cloud, memory
from forebay.blobs.store import Blobs
from forebay.errors import BadName
from forebay.ids import shown

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,220}[A-Za-z0-9]")
_PREFIX = re.compile(r"(/[A-Za-z0-9_.=-]+)*/?")


def open_blobs(address: str) -> Blobs:
    """The blob store at an address; credentials and endpoint come from the environment (AWS_*, GOOGLE_*, AZURE_*)."""
    # urlsplit drops line breaks and outer blanks, obstore would not.
    if not isinstance(address, str) or not address.isprintable() or address != address.strip():
        raise _refused(address, "is no plain text")
    try:
        parts = urlsplit(address)
        more = parts.query or parts.fragment or parts.username or parts.port
    except ValueError:
        raise _refused(address, "is no address") from None
    if more:
        raise _refused(address, "has more than a scheme and a place")
    if parts.scheme == "file":
        return Blobs(Folder(_folder(address, parts)))
    if address == "memory://":
        return Blobs(Objects(address, memory))
    if parts.scheme in {"s3", "gs", "az"}:
        _check_bucket(address, parts)
        return Blobs(Objects(address, lambda: cloud(address)))
    raise _refused(address, "has a scheme that cannot hold blobs")


def _folder(address: str, parts: SplitResult) -> Path:
    path = unquote(parts.path)
    if parts.netloc:
        raise _refused(address, "names a host, or is a relative path")
    if not path.startswith("/") or "\0" in path or ".." in path.split("/") or not path.strip("/"):
        raise _refused(address, "is not the absolute path of a folder")
    return Path(path)


def _check_bucket(address: str, parts: SplitResult) -> None:
    if not _BUCKET.fullmatch(parts.netloc):
        raise _refused(address, "has no proper bucket name")
    if not _PREFIX.fullmatch(parts.path) or {".", ".."} & set(parts.path.split("/")):
        raise _refused(address, "has a prefix with characters other than letters, digits and _.=-/")


def _refused(address: object, why: str) -> BadName:
    # Somebody may have written keys into it.
    text = re.sub(r"//[^/]*@", "//...@", address) if isinstance(address, str) else address
    return BadName(
        f"The blob store address {shown(text)} {why}.",
        remedy="Use file:///absolute/folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
        " (memory:// in tests).",
    )
