"""What doctor looks at outside this machine: the limit store, the blob store and their clocks. It creates nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from forebay.app.forebay import Forebay
from forebay.blobs.ref import BlobRef
from forebay.errors import ForebayError
from forebay.model.task import DEFAULT_TENANT
from forebay.observe.redact import mask_address
from forebay.settings import Settings
from forebay.stores.address import sqlite_file
from forebay.stores.limit_address import REDIS_SCHEMES

_CONNECT_S = 3
_ANSWER_S = 5
_LARGEST_OFFSET_S = 1.0
_NOBODYS_BLOB = BlobRef(DEFAULT_TENANT, "0" * 64)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `verdict` is ok, warn or fail."""

    verdict: str
    name: str
    text: str
    remedy: str = ""


def failed(name: str, error: ForebayError) -> Finding:
    return Finding("fail", name, error.what, error.remedy)


@dataclass(frozen=True, slots=True)
class _Server:
    """What a server says of itself, and how far its clock is ahead of ours."""

    version: str
    took_s: float
    offset_s: float
    warning: Finding | None = None

    def text(self, address: str) -> str:
        return f"{mask_address(address)}, {self.version}, answers in {1000 * self.took_s:.1f} ms"


def limits(settings: Settings) -> Iterator[Finding]:
    """The limit store, and its clock if it is a server's."""
    address = settings.limits
    if address.startswith("memory:"):
        yield Finding("ok", "limits", "in memory: each process has limits of its own")
        return
    try:
        Forebay(settings=settings).limits.check_address()
        file = sqlite_file(address)
    except ForebayError as error:
        yield failed("limits", error)
        return
    if file is not None:
        yield Finding("ok", "limits", f"{mask_address(address)}{'' if file.exists() else ', made when first needed'}")
        return
    yield from _server("limits", address)


def ledger_clock(settings: Settings) -> Iterator[Finding]:
    """The clock of the ledger's server; that it cannot be reached was said where the ledger was looked at."""
    if _scheme(settings.ledger) in {"postgres", "postgresql"} and settings.ledger != settings.limits:
        yield from (each for each in _server("ledger", settings.ledger) if each.name == "clock")


def _scheme(address: str) -> str:
    return address.partition("://")[0]


def _server(name: str, address: str) -> Iterator[Finding]:
    asks: Callable[[str], _Server] = _redis if _scheme(address) in REDIS_SCHEMES else _postgres
    try:
        server = asks(address)
    except ForebayError as error:
        yield failed(name, error)
        return
    except Exception as error:  # noqa: BLE001 - whatever the client's library raises
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        shown = mask_address(address)
        yield Finding("fail", name, f"{shown} does not answer: {text}", "Start it, or correct the address.")
        return
    yield Finding("ok", name, server.text(address))
    if server.warning is not None:
        yield server.warning
    yield _clock(name, server)


def _clock(name: str, server: _Server) -> Finding:
    side = "ahead of" if server.offset_s > 0 else "behind"
    text = f"that of the {name} server is {abs(server.offset_s):.3f} s {side} this machine's"
    if abs(server.offset_s) - server.took_s > _LARGEST_OFFSET_S:
        return Finding("warn", "clock", text, "Let NTP keep both clocks: what is shown of time is off by as much.")
    return Finding("ok", "clock", text)


def _redis(address: str) -> _Server:
    from forebay.stores.redis.inspection import KEEPS_ALL, inspect

    seen = inspect(address)
    warning = None
    if seen.eviction != KEEPS_ALL:
        text = f"it may drop limits when its memory is full (maxmemory-policy {seen.eviction})"
        warning = Finding("warn", "limits", text, "Set maxmemory-policy to noeviction.")
    return _Server(seen.version, seen.took_s, seen.offset_s, warning)


def _postgres(address: str) -> _Server:
    import psycopg

    options = {"connect_timeout": _CONNECT_S, "options": f"-cstatement_timeout={_ANSWER_S}s"}
    if "options=" in address:
        del options["options"]
    with psycopg.connect(address, autocommit=True, **options) as db:  # type: ignore[arg-type]  # libpq's
        db.execute("SELECT 1")
        began = time.time()
        row = db.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        ended = time.time()
        version = db.info.server_version // 10_000
    assert row is not None  # noqa: S101 - one value is one row
    return _Server(f"PostgreSQL {version}", ended - began, float(row[0]) - (began + ended) / 2)


def remote_blobs(settings: Settings) -> Finding:
    """Ask the blob store for a blob that nobody has: it is reached and may be read, and nothing is written."""
    shown = mask_address(settings.blobs)
    began = time.monotonic()
    try:
        Forebay(settings=settings).blobs.exists(_NOBODYS_BLOB)
    except ForebayError as error:
        return failed("blobs", error)
    took_ms = 1000 * (time.monotonic() - began)
    return Finding("ok", "blobs", f"{shown}, answers in {took_ms:.1f} ms; `forebay store init` tries to write")
