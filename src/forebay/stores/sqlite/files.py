"""Owns the connections and the writing thread that one process has on a ledger's file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import apsw

from forebay.bridge import Call, StoreThread
from forebay.errors import StoreClosed, StoreUnreachable
from forebay.model.access import Access
from forebay.stores.access import no_ledger
from forebay.stores.sql.transaction import Transaction
from forebay.stores.sqlite import schema
from forebay.stores.sqlite.connection import BUSY_TIMEOUT_S, connect, mapped


class Writing(NamedTuple):
    """What a step writes through: the connection, and the transaction that is open on it."""

    db: apsw.Connection
    tx: Transaction


class Files:
    """One connection to write, one to read, and one to renew beside a busy writer.

    `forked`: closed because the process forks, and to be opened again. `replaced`: another file is at the path now.
    """

    def __init__(
        self,
        path: Path,
        vfs: str | None,
        run: Callable[[Files, apsw.Connection, Sequence[Call[Writing]]], None],
        access: Access = Access.USE,
    ) -> None:
        if not access.creates and not path.exists():
            raise no_ledger(str(path))
        self.forked = False
        self.replaced = False
        self._closed = False
        self._path = path
        self._name = str(path)  # a Path is turned into it again for each look
        self._all: list[apsw.Connection] = []
        try:
            self._db = self._connect(vfs)
            with mapped(path):
                schema.prepare(self._db, path, access)
                self._identity = identity(path)
            self.reader = self._connect(vfs)
            self.renewer = self._connect(vfs)
        except BaseException:
            self._disconnect()
            raise
        self.read_lock = threading.Lock()
        self.renew_lock = threading.Lock()
        self.aside_lock = threading.Lock()
        self.writer: StoreThread[Writing] = StoreThread("forebay-ledger", lambda group: run(self, self._db, group))

    def _connect(self, vfs: str | None) -> apsw.Connection:
        db = connect(self._path, vfs=vfs)
        self._all.append(db)
        return db

    def _disconnect(self) -> None:
        for db in reversed(self._all):
            db.close()

    def check_usable(self) -> None:
        if self._closed:
            raise StoreClosed("The ledger was closed.", remedy="Open it again.")
        self.check_in_place()

    def check_in_place(self) -> None:
        """SQLite goes on writing into a file that was deleted, and what it acknowledges then is lost."""
        try:
            same = identity(self._name) == self._identity
        except FileNotFoundError:
            raise StoreUnreachable(
                f"{self._path} was moved or deleted while it was in use.",
                remedy="Put it back with its -wal file, or restart the program with an empty ledger.",
            ) from None
        if not same:
            self.replaced = True
            raise StoreUnreachable(
                f"{self._path} was replaced by another file while it was in use.",
                remedy="Repeat the call: it goes to the file that is there now.",
            )

    def close(self) -> None:
        # Longer than a step can wait for another process, so that none is cut off.
        self.writer.close(2 * BUSY_TIMEOUT_S)
        with self.aside_lock, self.read_lock, self.renew_lock:
            self._closed = True
            self._disconnect()


def identity(path: Path | str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - on the hot path, and twice as fast
    return found.st_dev, found.st_ino
