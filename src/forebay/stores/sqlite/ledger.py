"""Keeps a ledger in one SQLite file: one thread writes, in groups that commit together; reads run beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from forebay.bridge import Call
from forebay.clock import Clock, SystemClock
from forebay.errors import StoreClosed, StoreUnreachable
from forebay.model.access import Access
from forebay.model.exchange import Submitted
from forebay.model.job import NewJob
from forebay.stores.job_log import log_events
from forebay.stores.sql.ledger import SqlLedger, whole
from forebay.stores.sql.statement import Steps
from forebay.stores.sql.transaction import Transaction
from forebay.stores.sqlite import backup, forks, schema
from forebay.stores.sqlite.connection import connect, mapped
from forebay.stores.sqlite.driver import drive
from forebay.stores.sqlite.files import Files, Writing
from forebay.stores.sqlite.wake import Wakeups
from forebay.stores.together import Together

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class SqliteLedger(SqlLedger):
    """Several of them, in several processes of one machine, may share a file. Nothing is opened before first use."""

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Clock | None = None,
        vfs: str | None = None,
        environment: str | None = None,
        access: Access = Access.USE,
    ) -> None:
        super().__init__(environment)
        self._path = Path(path).absolute()
        self._access = access
        self._clock = clock or SystemClock()
        self._vfs = vfs
        self._lock = threading.Lock()
        self._closed = False
        self._files: Files | None = None
        self._replaced: list[Files] = []
        self._wake = Wakeups(self._path)
        self._together = Together(self._submit, self.group_tasks)
        forks.watch(self)

    def _opened(self) -> Files:
        files = self._files
        if files is None:
            with self._lock:
                files = self._files
                if files is None:
                    if self._closed:
                        raise StoreClosed("The ledger was closed.", remedy="Open it again.")
                    files = self._files = Files(self._path, self._vfs, self._run, self._access)
        return files

    def _using(self, use: Callable[[Files], T]) -> T:
        """Use the open files; those that a fork closed in the meantime are opened again."""
        while True:
            files = self._opened()
            try:
                return use(files)
            except StoreClosed:
                if not files.forked:
                    raise
            except StoreUnreachable:
                if files.replaced:
                    self._give_up(files)
                raise

    @property
    def place(self) -> str:
        return str(self._path)

    @property
    def newest_schema(self) -> int:
        return max(schema.migrations())

    def _commit(self, step: Callable[..., Steps[T]], *arguments: object, **named: object) -> T:
        return self._using(
            lambda files: files.writer.call(lambda on: drive(on.db, whole(on.tx, step, *arguments, **named), on.tx.now))
        )

    def _submit_job(self, new: NewJob) -> Submitted:
        return self._together.submit(new)

    def _run(self, files: Files, db: apsw.Connection, group: Sequence[Call[Writing]]) -> None:
        """Run a group of steps in one transaction; a step that fails takes back only its own changes."""
        with mapped(self._path):
            try:
                db.execute("BEGIN IMMEDIATE")
                on = Writing(db, Transaction(alone=True, now=self._clock.now()))
                answers = [_step(on, call, self._path, alone=len(group) == 1) for call in group]
                db.execute("COMMIT")
                if on.tx.woken:
                    # Before all else: the callers would take the interpreter from us, and idle workers wait.
                    self._wake.send()
                files.check_in_place()
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        log_events(on.tx.noted)
        for call, (answer, error) in zip(group, answers, strict=True):
            if error is None:
                call.future.set_result(answer)
            else:
                call.future.set_exception(error)

    def _query(self, read: Callable[..., Steps[T]], *arguments: object) -> T:
        def use(files: Files) -> T:
            with files.read_lock, mapped(self._path):
                files.check_usable()
                return self._drive(files.reader, read, *arguments)

        return self._using(use)

    def _beside(self, step: Callable[..., Steps[T]], *arguments: object) -> T:
        def use(files: Files) -> T:
            with files.renew_lock, mapped(self._path):
                files.check_usable()
                return self._drive(files.renewer, step, *arguments)

        return self._using(use)

    def _drive(self, db: apsw.Connection, step: Callable[..., Steps[T]], *arguments: object) -> T:
        tx = Transaction(alone=True, now=self._clock.now())
        return drive(db, step(tx, *arguments), tx.now)

    def _aside(self, work: Callable[[apsw.Connection], T]) -> T:
        """Long reads, on a connection of their own: nobody waits for them but a close or a fork."""

        def use(files: Files) -> T:
            with files.aside_lock, mapped(self._path):
                files.check_usable()
                db = connect(self._path, vfs=self._vfs)
                try:
                    return work(db)
                finally:
                    db.close()

        return self._using(use)

    def listen(self, wake: Callable[[], None], *, loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], None]:
        def stirs() -> None:
            self._stirred = True
            wake()

        self._opened()
        return self._wake.listen(stirs, loop)

    def check(self) -> list[str]:
        return self._aside(backup.check)

    def backup(self, target: Path) -> None:
        self._aside(partial(backup.write, target=target))

    def close(self) -> None:
        self._wake.close()
        # Under the lock to the end, so that no fork comes between.
        with self._lock:
            self._closed = True
            for files in self._let_go():
                files.close()

    def _let_go(self) -> list[Files]:
        files = [*self._replaced, *([self._files] if self._files else [])]
        self._files, self._replaced = None, []
        return files

    def _give_up(self, files: Files) -> None:
        """Open what is at the path now at the next call; what was there before is closed with the ledger."""
        with self._lock:
            if self._files is files:
                self._files = None
                self._replaced.append(files)

    def before_fork(self) -> None:
        """Close the files and let nobody open them until the fork is over."""
        self._lock.acquire()
        for files in self._let_go():
            files.forked = True
            files.close()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._wake.leave_to_parent()
            self._wake = Wakeups(self._path)
        self._lock.release()


def _step(on: Writing, call: Call[Writing], path: Path, *, alone: bool) -> tuple[Any, Exception | None]:
    if alone:
        return call.step(on), None
    on.db.execute("SAVEPOINT step")
    try:
        with mapped(path):
            answer = call.step(on)
    except Exception as error:
        if not on.db.in_transaction:
            raise
        on.db.execute("ROLLBACK TO step")
        on.tx.forget()
        on.db.execute("RELEASE step")
        return None, error
    on.db.execute("RELEASE step")
    return answer, None
