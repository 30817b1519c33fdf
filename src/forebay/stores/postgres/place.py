"""Reads the address of a PostgreSQL server, and writes it without what nobody else should see."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from forebay.errors import BadInput

_SCHEMES = ("postgresql", "postgres")
_REMEDY = "Use postgresql://user@host:5432/database; write @ : / ? # of a password as %40 %3A %2F %3F %23."
_DEFAULT_PORT = "5432"


def options(address: str) -> dict[str, str | int]:
    """What libpq gets. A text that is not an address is refused and not quoted, since it may hold a password."""
    try:
        parts = urlsplit(address)
        whole = parts.scheme in _SCHEMES and parts.netloc.count("@") <= 1 and "@" not in parts.path + parts.fragment
        found = conninfo_to_dict(address) if whole else {}
    except (ValueError, TypeError, AttributeError, psycopg.Error):
        whole, found = False, {}
    if not whole or "@" in str(found.get("host", "")):
        raise BadInput("That is not an address of a PostgreSQL server.", remedy=_REMEDY)
    return {name: value for name, value in found.items() if value is not None}


def shown(found: dict[str, str | int]) -> str:
    """Without user, password and options."""
    hosts = str(found.get("host") or found.get("hostaddr") or "localhost").split(",")
    ports = str(found.get("port") or _DEFAULT_PORT).split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    names = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in zip(hosts, ports, strict=False))
    return f"postgresql://{','.join(names)}/{found.get('dbname', '')}"
