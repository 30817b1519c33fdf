"""Owns the connections that one process has on a file of limits."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw

from forebay.errors import StoreBusy, StoreUnreachable
from forebay.stores.sqlite import schema
from forebay.stores.sqlite.connection import connect, make_file, make_folder, mapped
from forebay.stores.sqlite.files import identity
from forebay.stores.sqlite.patience import Patience

PATIENCE_S = 2.0
BESIDE_LEDGER = "-limits.db"  # limits that nobody gave a place, see settings
_BESIDE = ("-wal", "-shm", "-journal")


class Left(Exception):
    """These files were closed."""


class Access:
    """One connection, for one thread at a time; nobody waits for it, or for another process, longer than a bound."""

    def __init__(self, path: Path, vfs: str | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._closed = False
        self.patience = Patience(PATIENCE_S)
        self._db = connect(path, kind=schema.LIMITS, busy_timeout_s=PATIENCE_S, vfs=vfs)
        self._db.set_busy_handler(self.patience)

    @contextlib.contextmanager
    def turn(self) -> Iterator[apsw.Connection]:
        if not self._lock.acquire(timeout=PATIENCE_S):
            raise self.busy()
        try:
            if self._closed:
                raise Left
            self.patience.begin()
            with mapped(self._path, PATIENCE_S):
                yield self._db
        finally:
            self._lock.release()

    def busy(self) -> StoreBusy:
        return StoreBusy(
            f"Others kept {self._path} busy for {PATIENCE_S:.0f} s.",
            remedy="Try again; if it goes on, use fewer processes.",
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._db.close()


class LimitFiles:
    """One connection to exchange, and one to renew beside it.

    A folder that is missing is an error, unless `makes_folder`: then somebody removed it under a running program.
    """

    def __init__(self, path: Path, vfs: str | None, *, makes_folder: bool = False) -> None:
        self._path = path
        with mapped(path, PATIENCE_S), contextlib.ExitStack() as opened:
            _make(path, makes_folder=makes_folder)
            # Before it is opened: if it is replaced in between, that is found out at the first use.
            self._identity = identity(path)
            self.main = Access(path, vfs)
            opened.callback(self.main.close)
            with self.main.turn() as db:
                schema.migrate(db, path, schema.LIMITS)
            self.beat = Access(path, vfs)
            opened.pop_all()

    def in_place(self) -> bool:
        """SQLite goes on writing into a file that was deleted, where nobody else would see it."""
        try:
            return identity(self._path) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        self.beat.close()
        self.main.close()


def _make(path: Path, *, makes_folder: bool) -> None:
    """Create the file if there is none, without what an older one left beside it: others may still use that."""
    if path.exists():
        return
    if makes_folder or path.name.endswith(BESIDE_LEDGER):
        make_folder(path.parent)  # beside a ledger as the ledger's own
    elif not path.parent.is_dir():
        raise StoreUnreachable(
            f"The folder of {path} does not exist.", remedy="Create the folder, or correct the address of the limits."
        )
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        _lock(folder, path)
        if not path.exists():
            for suffix in _BESIDE:
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            make_file(path)
    finally:
        os.close(folder)


def _lock(folder: int, path: Path) -> None:
    patience = Patience(PATIENCE_S)
    patience.begin()
    tries = 0
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not patience(tries):
                raise StoreBusy(
                    f"Another process keeps the folder of {path} locked.", remedy="End it, or choose another folder."
                ) from None
            tries += 1
        else:
            return
