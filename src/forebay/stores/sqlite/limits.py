"""Keeps limits in one SQLite file: read some rows, decide, write if nobody was faster, and else all of it again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import apsw

from forebay.errors import StoreClosed, StoreCorrupt
from forebay.model.limit_record import Answer, Ask, Grant, Record
from forebay.model.names import check_name
from forebay.model.task import DEFAULT_ENVIRONMENT
from forebay.rules import admission
from forebay.stores.limit_base import Step, Wake
from forebay.stores.sql import limit_step
from forebay.stores.sql.limit_rows import Header, Rows, Unreadable
from forebay.stores.sqlite import forks, limit_rows
from forebay.stores.sqlite.boot_clock import Moment, moment
from forebay.stores.sqlite.limit_files import Access, Left, LimitFiles
from forebay.stores.sqlite.limit_rows import Key, LimitReader
from forebay.stores.sqlite.limit_wake import GrantCalls

T = TypeVar("T")
_PATIENT_AFTER = 20
_ALONE_AFTER = 3


class _Whole(NamedTuple):
    """All that the file has of a limit, read at a moment when the clock of the rules said `raw`."""

    header: Header | None
    record: Record | None
    rows: Rows | None
    raw: int
    now: Moment


class SqliteLimits:
    """Several of them, in several processes of one machine, may share a file, which is never the ledger's.

    A file that is deleted while in use is made anew, empty: the rules find out that it forgot.
    """

    instant = False

    def __init__(
        self,
        path: Path | str,
        *,
        environment: str = DEFAULT_ENVIRONMENT,
        clock: Callable[[], Moment] = moment,
        vfs: str | None = None,
    ) -> None:
        self._path = Path(path).absolute()
        self._environment = environment
        self._clock = clock
        self._vfs = vfs
        self._lock = threading.Lock()
        self._closed = False
        self._files: LimitFiles | None = None
        self._was_open = False
        self._calls = GrantCalls(self._path)
        forks.watch(self)

    def exchange(self, limit: str, ask: Ask) -> Answer:
        return self._exchange(lambda files: files.main, limit, ask)

    def renew(self, limit: str, ask: Ask) -> Answer:
        return self._exchange(lambda files: files.beat, limit, ask)

    def give_back(self, limit: str, ask: Ask) -> Answer:
        return self.exchange(limit, ask)

    def send_back(self, limit: str, ask: Ask) -> bool:  # noqa: ARG002 - of the contract
        return False  # a commit may have to wait for others

    def _exchange(self, choose: Callable[[LimitFiles], Access], limit: str, ask: Ask) -> Answer:
        check_name("session", ask["session_id"])
        key = Key(self._environment, limit)

        def use(access: Access, db: apsw.Connection) -> tuple[Answer, list[tuple[str, list[Grant]]]]:
            losses = 0
            while True:
                with limit_rows.reading(db):
                    found = limit_rows.find(db, key)
                    now = self._clock()
                    if found is None:
                        return admission.unknown(now.ticks), []
                    raw = found.raw_at(now)
                    decided = limit_step.exchange(found.header, LimitReader(db, found.header, raw), ask, raw)
                if decided is None:
                    return admission.unknown(raw), []
                if limit_rows.write(db, found.header, decided.changes, raw, now):
                    return decided.answer, decided.told
                losses += 1
                if losses > _PATIENT_AFTER and not access.patience(0):
                    raise access.busy()

        answer, given = self._using(choose, limit, use)
        if given:
            self._calls.send(limit, answer["now"], given)
        return answer

    def find(self, limit: str, session: str) -> tuple[Record | None, int]:
        key = Key(self._environment, limit)

        def use(_access: Access, db: apsw.Connection) -> tuple[Record | None, int]:
            with limit_rows.reading(db):
                found = limit_rows.find(db, key)
                now = self._clock()
                if found is None:
                    return None, now.ticks
                raw = found.raw_at(now)
                rows = LimitReader(db, found.header, raw).one(session)
                return limit_step.find(found.header, rows, session), raw

        return self._using(lambda files: files.main, limit, use)

    def read(self, limit: str) -> tuple[Record | None, int]:
        key = Key(self._environment, limit)

        def use(_access: Access, db: apsw.Connection) -> tuple[Record | None, int]:
            with limit_rows.reading(db):
                found = limit_rows.find(db, key)
                now = self._clock()
                if found is None:
                    return None, now.ticks
                raw = found.raw_at(now)
                return limit_step.read_record(found.header, LimitReader(db, found.header, raw)), raw

        return self._using(lambda files: files.main, limit, use)

    def read_many(self, limits: Sequence[str]) -> list[tuple[Record | None, int]]:
        return [self.read(limit) for limit in limits]

    def change(self, limit: str, step: Step) -> Record | None:
        """If others were faster a few times, the step is taken in a transaction that keeps them from writing."""
        key = Key(self._environment, limit)

        def use(access: Access, db: apsw.Connection) -> Record | None:
            access.patience.hurry()
            for _ in range(_ALONE_AFTER):
                with limit_rows.reading(db):
                    whole = self._whole(db, key)
                changed = step(whole.record, whole.raw)
                if changed is None:
                    return None
                with limit_rows.writing(db):
                    if _replace(db, key, whole, changed):
                        return changed
            with limit_rows.writing(db):
                whole = self._whole(db, key)
                changed = step(whole.record, whole.raw)
                if changed is not None:
                    _replace(db, key, whole, changed)
                return changed

        return self._using(lambda files: files.main, limit, use)

    def _whole(self, db: apsw.Connection, key: Key) -> _Whole:
        found = limit_rows.find(db, key)
        now = self._clock()
        if found is None:
            return _Whole(None, None, None, now.ticks, now)
        raw = found.raw_at(now)
        record, rows = limit_step.read_whole(found.header, LimitReader(db, found.header, raw), raw)
        return _Whole(found.header, record, rows, raw, now)

    def names(self) -> list[str]:
        return self._using(lambda files: files.main, "", lambda _access, db: limit_rows.names(db, self._environment))

    def check(self, limit: str) -> list[str]:
        """Say where the rows of a limit do not fit its header, or each other."""
        key = Key(self._environment, limit)

        def use(_access: Access, db: apsw.Connection) -> list[str]:
            with limit_rows.reading(db):
                found = limit_rows.find(db, key)
                return [] if found is None else limit_step.check(found.header, LimitReader(db, found.header, 0))

        return self._using(lambda files: files.main, limit, use)

    def _using(
        self, choose: Callable[[LimitFiles], Access], limit: str, use: Callable[[Access, apsw.Connection], T]
    ) -> T:
        while True:
            files = self._opened()
            try:
                access = choose(files)
                with access.turn() as db:
                    return use(access, db)
            except Left:
                continue  # by a fork, or because the file is another one now
            except Unreadable as error:
                raise StoreCorrupt(
                    f"The rows of limit {limit!r} cannot be read: {error}.",
                    remedy="Stop what uses the file and remove it: limits are then learned anew.",
                ) from error

    def _opened(self) -> LimitFiles:
        files = self._files
        if files is None or not files.in_place():
            with self._lock:
                files = self._files
                if files is None:
                    files = self._open()
                elif not files.in_place():
                    self._let_go()
                    files = self._open()
        return files

    def _open(self) -> LimitFiles:
        if self._closed:
            raise StoreClosed("The limits were closed.", remedy="Open them again.")
        files = self._files = LimitFiles(self._path, self._vfs, makes_folder=self._was_open)
        self._was_open = True
        self._calls.rebind()
        return files

    def listen(self, sid: str, wake: Wake) -> Callable[[], None]:
        check_name("session", sid)
        self._opened()
        return self._calls.listen(sid, wake)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._calls.close()
        with self._lock:
            self._closed = True
            self._let_go()

    def _let_go(self) -> None:
        files, self._files = self._files, None
        if files is not None:
            files.close()

    def before_fork(self) -> None:
        """Close the files and let nobody open them until the fork is over."""
        self._lock.acquire()
        self._let_go()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._calls.leave_to_parent()
            self._calls = GrantCalls(self._path)
        self._lock.release()


def _replace(db: apsw.Connection, key: Key, whole: _Whole, changed: Record) -> bool:
    """Whether nobody has written the limit since it was read; if somebody has, nothing is written."""
    if whole.header is None or whole.rows is None:
        return limit_rows.add(db, key, limit_step.first_rows(changed), whole.raw, whole.now)
    changes = limit_step.replace(whole.header, whole.rows, changed)
    return limit_rows.put(db, whole.header, changes, whole.raw, whole.now)
