"""What doctor looks at, one function each: the programs, the stores, the machine, the environment."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote

import apsw

from forebay.app.forebay import Forebay
from forebay.cli import checkup_stores
from forebay.cli.checkup_stores import Finding, failed
from forebay.cli.opening import settings_of
from forebay.cli.options import Common
from forebay.engine import strays
from forebay.engine.signals import Retry
from forebay.errors import ForebayError, StoreMissing
from forebay.failpoint import VARIABLE as FAILPOINTS
from forebay.model.access import Access
from forebay.observe.redact import mask_address
from forebay.processors.level import Level
from forebay.processors.parser_child import NO_VERBS, Bounds
from forebay.processors.parsers import Parsers
from forebay.settings import Settings
from forebay.settings.older import AWS
from forebay.stores.address import newest_schema, open_ledger, sqlite_file
from forebay.stores.sql.ledger import SqlLedger
from forebay.stores.sqlite.connection import check_version

_LEAST_FREE = 1 << 30
_GIB = 1 << 30
_CLOCK_SLACK_S = 60.0
_FEW_FILES = 4096
_BUILT = datetime(2026, 1, 1, tzinfo=UTC)
EXTRAS = {
    "postgres": "psycopg",
    "redis": "redis",
    "ocr": "pypdfium2",
    "office": "openpyxl",
    "docai": "google.auth",
    "metrics": "prometheus_client",
    "server": "fastapi",
}


def findings(common: Common) -> Iterator[Finding]:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding("ok", "forebay", f"{version('forebay')}, {python}, {platform.platform()}")
    yield _sqlite()
    try:
        settings = settings_of(common)
    except ForebayError as error:
        yield failed("settings", error)
        return
    changed = sum(each.source != "default" for each in settings.sources())
    yield Finding("ok", "settings", f"{changed} set, the rest are defaults: `forebay config show`")
    yield from _variables(settings)
    yield from _ledger(settings)
    yield from checkup_stores.limits(settings)
    yield _blobs(settings)
    yield _disk(settings)
    yield _clock(settings)
    yield from checkup_stores.ledger_clock(settings)
    yield _files()
    yield from _children()
    yield _sandbox(settings)
    yield from _extras()


def _sqlite() -> Finding:
    found = apsw.sqlite_lib_version()
    try:
        check_version(found)
    except ForebayError as error:
        return failed("sqlite", error)
    return Finding("ok", "sqlite", f"SQLite {found}, apsw {version('apsw')}")


def _variables(settings: Settings) -> Iterator[Finding]:
    for name in filter(os.environ.get, settings.unknown_variables()):
        if name == FAILPOINTS:
            yield Finding("warn", "environment", f"{name} is set: workers kill and stop themselves", f"unset {name}")
        elif name in AWS:
            remedy = "Name a store that there is in FOREBAY_LIMITS, and set numbers by FOREBAY_LIMIT_…."
            yield Finding("warn", "environment", f"{name} changes nothing in this version", remedy)
        elif not name.startswith(strays.MARK):
            yield Finding("warn", "environment", f"{name} is not a setting", "Correct its name, or ignore this.")


def _ledger(settings: Settings) -> Iterator[Finding]:
    shown = mask_address(settings.ledger)
    try:
        with open_ledger(settings.ledger, environment=settings.env, access=Access.AS_IS) as ledger:
            open_count = sum(n for (_, status), n in ledger.count().items() if not status.terminal)
            problems = ledger.check()
            environment = ledger.environment() if isinstance(ledger, SqlLedger) else None
    except StoreMissing:
        yield Finding("warn", "ledger", f"there is none at {shown} yet", "Run `forebay store init`.")
        return
    except ForebayError as error:
        yield failed("ledger", error)
        return
    newest = newest_schema(settings.ledger)
    schema = "" if newest is None else f", schema {newest}"
    whose = f"environment {environment}" if environment else "of no environment before its first writer"
    yield Finding("ok", "ledger", f"{shown}{schema}, {open_count} open tasks, {whose}")
    for problem in problems:
        yield Finding("fail", "ledger", problem, "Stop the workers and restore a backup.")


def _blobs(settings: Settings) -> Finding:
    shown = mask_address(settings.blobs)
    try:
        Forebay(settings=settings).blobs  # noqa: B018 - made of its address
    except ForebayError as error:
        return failed("blobs", error)
    folder = _blob_folder(settings)
    if folder is not None:
        nearest = _nearest(folder)
        if not os.access(nearest, os.W_OK | os.X_OK):
            return Finding("fail", "blobs", f"{nearest} cannot be written", "Give this user write access to it.")
        return Finding("ok", "blobs", f"{shown}{'' if folder.exists() else ', made when first needed'}")
    return checkup_stores.remote_blobs(settings)


def _ledger_file(settings: Settings) -> Path | None:
    try:
        return sqlite_file(settings.ledger)
    except ForebayError:
        return None  # said already, where the ledger was looked at


def _blob_folder(settings: Settings) -> Path | None:
    scheme, _, place = settings.blobs.partition("://")
    return Path(unquote(place)) if scheme == "file" else None


def _nearest(path: Path) -> Path:
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def _disk(settings: Settings) -> Finding:
    places = [settings.home, _ledger_file(settings), _blob_folder(settings)]
    free = {_nearest(place): shutil.disk_usage(_nearest(place)).free for place in places if place is not None}
    place = min(free, key=lambda each: free[each])
    text = f"{free[place] / _GIB:.1f} GiB free at {place}"
    if free[place] < _LEAST_FREE:
        return Finding("warn", "disk", text, "Free some space: on a full disk nothing can be stored.")
    return Finding("ok", "disk", text)


def _clock(settings: Settings) -> Finding:
    now = time.time()
    text = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    file = _ledger_file(settings)
    written = file.stat().st_mtime if file is not None and file.exists() else 0.0
    if now < _BUILT.timestamp() or written > now + _CLOCK_SLACK_S:
        return Finding("fail", "clock", f"{text} is in the past", "Set this machine's clock; let NTP keep it.")
    return Finding("ok", "clock", text)


def _files() -> Finding:
    """The limit of open files, which `forebay serve` raises as far as the hard limit lets it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_shown_limit(soft)} open files, a server raises it up to {_shown_limit(hard)}"
    if hard != resource.RLIM_INFINITY and hard < _FEW_FILES:
        remedy = "Raise the hard limit (`LimitNOFILE=` of systemd, `ulimit -Hn`): each connection takes a file."
        return Finding("warn", "files", f"{text}: few connections fit into it", remedy)
    return Finding("ok", "files", text)


def _shown_limit(value: int) -> str:
    import resource

    return "any number of" if value == resource.RLIM_INFINITY else str(value)


def _children() -> Iterator[Finding]:
    if Path("/proc/self/environ").exists():
        yield Finding("ok", "children", "what a handler starts is found in /proc and ended with it")
    else:
        yield Finding(
            "warn", "children", "there is no /proc: only a handler's process group is ended with it",
            "Let handlers start nothing that leaves their process group.",
        )  # fmt: skip
    if _has_prctl():
        yield Finding("ok", "children", "the kernel ends them with their worker (prctl)")
    else:
        yield Finding(
            "warn", "children", "prctl does not work: children notice a killed worker by a pipe only",
            "Nothing, unless handlers block signals for long.",
        )  # fmt: skip


def _has_prctl() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    get_name = 16
    try:
        return bool(ctypes.CDLL(None).prctl(get_name, ctypes.create_string_buffer(16), 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _sandbox(settings: Settings) -> Finding:
    """Of a parser child that is started for it: what holds there holds."""
    bounds = Bounds(memory_mb=settings.parser_memory_mb, cpu_s=settings.parser_cpu_s)
    try:
        level = asyncio.run(_level(bounds))
    except ForebayError as error:
        return failed("sandbox", error)
    except Retry as error:
        return Finding("fail", "sandbox", error.text, "Start `python -m forebay.child` by hand to see what it says.")
    memory = bounds.memory_mb / 1024
    size = f"{memory:.3g} GiB" if memory >= 1 else f"{bounds.memory_mb} MiB"
    text = f"{level}, {size}, {bounds.cpu_s:g} s CPU"
    if level.missing:
        remedy = "Read untrusted documents on Linux 5.13 or newer, where nothing forbids seccomp and Landlock."
        return Finding("warn", "sandbox", f"{text}; missing {', '.join(level.missing)}", remedy)
    return Finding("ok", "sandbox", text)


async def _level(bounds: Bounds) -> Level:
    parsers = Parsers(1, bounds, verbs=NO_VERBS)
    try:
        return await parsers.level()
    finally:
        await parsers.aclose()


def _extras() -> Iterator[Finding]:
    for extra, module in EXTRAS.items():
        try:
            there = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            there = False
        text = "installed" if there else "not installed"
        remedy = "" if there else f"If you need it: pip install 'forebay[{extra}]'"
        yield Finding("ok", f"extra {extra}", text, remedy)
    yield Finding("ok", "extra dynamodb", "not available in this version, and neither are numbers from SSM")
