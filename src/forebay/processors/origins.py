"""Decides where a request may go: credentials to their own origin only, a provider's links to allowed hosts only."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from forebay.engine.signals import Permanent, Retry
from forebay.errors import BadInput
from forebay.ids import printable
from forebay.rules.verdict import ErrorClass

_PORTS = {"https": 443, "http": 80}


def origin(url: str) -> str:
    """Scheme, host and port, in one form; BadInput for what has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        parts, port = urlsplit(""), None
    if port is None or not parts.hostname or "@" in parts.netloc or not url.isascii() or not url.isprintable():
        raise BadInput(
            f"{printable(url)[:100]!r} is not an address of a provider.", remedy="Give https://host, or http://…"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def check_own(url: str, home: str) -> None:
    """Credentials are for `home` and go nowhere else."""
    if _origin(url) != home:
        raise Permanent(
            f"Credentials for {home} were to be sent to {_shown(url)}.", error_class=ErrorClass.BAD_RESPONSE
        )


def followed(url: object, *, hosts: Iterable[str], home: str) -> str:
    """A link from a reply, if it leads to one of the hosts, over TLS; or to `home`, as that was configured.

    A host that begins with a dot stands for all below it.
    """
    found = _origin(url) if isinstance(url, str) else None
    if isinstance(url, str) and found is not None:
        parts = urlsplit(url)
        host = parts.hostname or ""
        allowed = any(host == each or (each.startswith(".") and host.endswith(each)) for each in hosts)
        if found == home or (allowed and found == f"https://{host}:443"):
            return url
    raise Retry(f"The provider's link leads to {_shown(url)}.", error_class=ErrorClass.BAD_RESPONSE)


def _origin(url: str) -> str | None:
    try:
        return origin(url)
    except BadInput:
        return None


def _shown(url: object) -> str:
    """Without its query, which may hold a signature."""
    found = _origin(url) if isinstance(url, str) else None
    return found or "no address at all"
