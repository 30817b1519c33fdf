"""Keeps limits in one SQLite file: read, decide, replace what was read, and again if another process was faster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Self, TypeVar

from forebay.errors import StoreClosed
from forebay.model.limit_record import Answer, Ask, Grant, Record
from forebay.model.names import check_name
from forebay.model.task import DEFAULT_ENVIRONMENT
from forebay.rules import admission
from forebay.stores.limit_base import Step, Wake
from forebay.stores.sqlite import forks, limit_rows
from forebay.stores.sqlite.boot_clock import Moment, moment
from forebay.stores.sqlite.limit_files import Access, Left, LimitFiles
from forebay.stores.sqlite.limit_rows import Key
from forebay.stores.sqlite.limit_wake import GrantCalls

T = TypeVar("T")
_PATIENT_AFTER = 20
_ALONE_AFTER = 3


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
        check_name("session", ask["sid"])

        def step(record: Record | None, raw: int) -> tuple[Record | None, tuple[Answer, list[tuple[str, list[Grant]]]]]:
            if record is None:
                return None, (admission.unknown(raw), [])
            answer = admission.decide(record, ask, raw)
            given = [(sid, record["seats"][sid]["out"]) for sid in answer["wakes"]]
            return (None if answer["status"] == "unknown" else record), (answer, given)

        answer, given = self._revise(choose, limit, step)
        if given:
            self._calls.send(limit, answer["now"], given)
        return answer

    def read(self, limit: str) -> tuple[Record | None, int]:
        return self._revise(lambda files: files.main, limit, lambda record, raw: (None, (record, raw)))

    def read_many(self, limits: Sequence[str]) -> list[tuple[Record | None, int]]:
        return [self.read(limit) for limit in limits]

    def change(self, limit: str, step: Step) -> Record | None:
        def twice(record: Record | None, raw: int) -> tuple[Record | None, Record | None]:
            changed = step(record, raw)
            return changed, changed

        return self._revise(lambda files: files.main, limit, twice, alone=True)

    def names(self) -> list[str]:
        def use(files: LimitFiles) -> list[str]:
            with files.main.turn() as db:
                return limit_rows.names(db, self._environment)

        return self._using(use)

    def _revise(
        self,
        choose: Callable[[LimitFiles], Access],
        limit: str,
        step: Callable[[Record | None, int], tuple[Record | None, T]],
        *,
        alone: bool = False,
    ) -> T:
        """Replace a record by what the step makes of it, if anything, and pass on what it answers.

        `alone`: if others were faster a few times, in a transaction that keeps them from writing.
        """
        key = Key(self._environment, limit)

        def use(files: LimitFiles) -> T:
            access = choose(files)
            with access.turn() as db:
                losses = 0
                while True:
                    with limit_rows.writing(db) if alone and losses >= _ALONE_AFTER else nullcontext():
                        row = limit_rows.read(db, key)
                        now = self._clock()
                        raw = row.raw_at(now) if row else now.ticks
                        changed, answer = step(row.record if row else None, raw)
                        version = row.version if row else 0
                        if changed is None or limit_rows.write(db, key, changed, raw, now, version=version):
                            return answer
                    losses += 1
                    if losses > _PATIENT_AFTER and not access.patience(0):
                        raise access.busy()

        return self._using(use)

    def _using(self, use: Callable[[LimitFiles], T]) -> T:
        while True:
            files = self._opened()
            try:
                return use(files)
            except Left:
                continue  # by a fork, or because the file is another one now

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
