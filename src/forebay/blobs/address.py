"""Turns the address of a blob store into one, without touching it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from forebay.blobs.folder import Folder
from forebay.blobs.objects import Objects, cloud, memory
from forebay.blobs.store import Blobs
from forebay.errors import BadName

_CLOUDS = {"s3", "gs", "az"}
_SCHEMES = {"file", "memory"} | _CLOUDS
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,220}[A-Za-z0-9]")
_PREFIX = re.compile(r"(/[A-Za-z0-9_.=-]+)*/?")


def open_blobs(address: str) -> Blobs:
    """The blob store at an address; credentials and endpoint come from the environment (AWS_*, GOOGLE_*, AZURE_*)."""
    if not isinstance(address, str):
        raise _refused("", f"must be text, not {type(address).__name__}")
    # urlsplit drops line breaks and outer blanks, obstore would not.
    if not address.isprintable() or address != address.strip():
        raise _refused("", "has blanks around it, or characters that cannot be printed")
    parts = _split(address)
    if parts is None:
        raise _refused("", "is not an address")
    if _has_more(parts):
        raise _refused(parts.scheme, "has more than a scheme and a place")
    if parts.scheme == "file":
        return Blobs(Folder(_folder(parts)))
    if address == "memory://":
        return Blobs(Objects(address, memory))
    if parts.scheme in _CLOUDS:
        place = _bucket(parts)
        return Blobs(Objects(place, lambda: cloud(place)))
    raise _refused(parts.scheme, "names no place that can hold blobs")


def _split(address: str) -> SplitResult | None:
    # Told by None: the text of a ValueError quotes parts of the address, also as the context of another error.
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _has_more(parts: SplitResult) -> bool:
    return bool(parts.query or parts.fragment or "@" in parts.netloc or parts.port is not None)


def _folder(parts: SplitResult) -> Path:
    path = unquote(parts.path)
    if parts.netloc:
        raise _refused(parts.scheme, "names a host, or is a relative path")
    if not path.startswith("/") or "\0" in path or ".." in path.split("/") or not path.strip("/"):
        raise _refused(parts.scheme, "is not the absolute path of a folder")
    return Path(path)


def _bucket(parts: SplitResult) -> str:
    if not _BUCKET.fullmatch(parts.netloc):
        raise _refused(parts.scheme, "has no proper bucket name")
    if not _PREFIX.fullmatch(parts.path) or {".", ".."} & set(parts.path.split("/")):
        raise _refused(parts.scheme, "has a prefix with characters other than letters, digits and _.=-/")
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def _refused(scheme: str, why: str) -> BadName:
    # Somebody may have written keys anywhere into it, even where a scheme belongs: only a scheme of ours is shown.
    known = f" ({scheme}:)" if scheme in _SCHEMES else ""
    return BadName(
        f"The blob store address{known} {why}.",
        remedy="Use file:///absolute/folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
        " (memory:// in tests), with keys in the environment only.",
    )
