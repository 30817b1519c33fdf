"""Opens a SQLite file the way its kind needs it, and turns SQLite's errors into ours."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import apsw

from forebay.errors import (
    BadInput,
    ForebayError,
    MaybeApplied,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from forebay.stores.sqlite import schema

BUSY_TIMEOUT_S = 5.0
_BUSY_PAUSE_S = 0.005
_CACHE_KIB = 4096  # for each of three connections; what is not in it is in the system's own cache
_LEAST_VERSION = (3, 51, 3)


def connect(
    path: Path, *, kind: schema.Kind = schema.LEDGER, busy_timeout_s: float = BUSY_TIMEOUT_S, vfs: str | None = None
) -> apsw.Connection:
    """A connection in WAL mode; creates the file and its folder if need be."""
    check_version(apsw.sqlite_lib_version())
    with mapped(path, busy_timeout_s):
        if path.is_dir():
            raise BadInput(f"{path} is a folder.", remedy="Name a file in it, such as forebay.db.")
        make_folder(path.parent)
        make_file(path)
        db = apsw.Connection(str(path), vfs=vfs)
        db.set_busy_timeout(round(busy_timeout_s * 1000))
        # Else SQLite plans a statement again for every call, to look at its arguments: four times the cost.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        try:
            _prepare(db, path, kind, busy_timeout_s)
        except BaseException:
            db.close()
            raise
    return db


def _prepare(db: apsw.Connection, path: Path, kind: schema.Kind, busy_timeout_s: float) -> None:
    if db.readonly("main"):
        raise StoreReadOnly(
            f"{path} cannot be written.", remedy="Give this user write access to the file and to its folder."
        )
    if db.pragma("journal_mode") != "wal":
        # Refuses the file of another program before anything in it is changed.
        schema.version(db, path, kind)
        _keep_log(db, until=time.monotonic() + busy_timeout_s)
    db.execute(f"PRAGMA synchronous = {kind.synchronous}")
    db.execute("PRAGMA temp_store = MEMORY")
    db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    db.execute("PRAGMA journal_size_limit = 67108864")


def _keep_log(db: apsw.Connection, *, until: float) -> None:
    """Turn on the write-ahead log; SQLite itself does not wait for another process that is about the same."""
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(_BUSY_PAUSE_S)
        else:
            return


def make_file(path: Path) -> None:
    """What is in it is nobody else's business; SQLite gives its other files the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def make_folder(folder: Path) -> None:
    """Create what is missing, and sync it: SQLite does that for the file's own entry, not for the folders above."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
        sync(one.parent)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_version(version: str) -> None:
    """Older ones can corrupt a WAL file that several processes write."""
    if tuple(map(int, version.split("."))) < _LEAST_VERSION:
        least = ".".join(map(str, _LEAST_VERSION))
        raise StoreError(
            f"apsw carries SQLite {version}, which can corrupt a database that several processes write.",
            remedy=f"Install an apsw with SQLite {least} or newer: pip install -U apsw",
        )


class mapped:  # noqa: N801 - used like a function
    """Turn what SQLite and the system report into errors that say what to do."""

    __slots__ = ("_busy_timeout_s", "_path")

    def __init__(self, path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and (told := _told(error, self._path, self._busy_timeout_s)) is not None:
            raise told from error


def _told(error: BaseException, path: Path, busy_timeout_s: float) -> ForebayError | None:  # noqa: PLR0911 - one for each
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return StoreBusy(
                f"{path} stayed locked by another process for {busy_timeout_s:.0f} s.",
                remedy="Find who holds a transaction open (a copy tool, a database browser) and end it;"
                " then try again.",
            )
        case apsw.FullError():
            return StoreFull(
                f"The disk of {path} is full.", remedy="Nothing was changed. Free some space and try again."
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | PermissionError():
            return StoreReadOnly(
                f"{path} cannot be written: {error}.", remedy="Give this user write access to the file and its folder."
            )
        case apsw.NotADBError() | apsw.CorruptError():
            return StoreCorrupt(
                f"{path} is not a sound SQLite database: {error}.",
                remedy="Nothing was changed. Choose another path, or restore a backup.",
            )
        case apsw.CantOpenError() | OSError():
            return StoreUnreachable(
                f"{path} cannot be opened: {error}.", remedy="Check that its folder exists and may be written."
            )
        case apsw.IOError() | apsw.InterruptError():
            return MaybeApplied(
                f"The disk of {path} failed: {error}.", remedy="Repeat the call; if it goes on, check the disk."
            )
        case apsw.Error():
            return StoreError(f"SQLite refused a step on {path}: {error}.", remedy="Please report this.")
        case _:
            return None
