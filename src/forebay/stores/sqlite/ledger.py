"""Keeps a ledger in one SQLite file: one thread writes, in groups that commit together; reads run beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import apsw

from forebay import ids
from forebay.bridge import Call
from forebay.clock import Clock, SystemClock
from forebay.errors import StoreClosed, StoreUnreachable
from forebay.model.exchange import (
    Acted,
    Action,
    Audit,
    Hold,
    Release,
    Remembered,
    Renewal,
    Reply,
    Session,
    Settle,
    Submitted,
    Usage,
    Want,
)
from forebay.model.job import Event, Job, NewJob
from forebay.model.lane import Lane
from forebay.model.query import Page, Query
from forebay.model.task import Attempt, NewTask, Status, Task
from forebay.rules import actions, pausing
from forebay.rules.unit import Unit
from forebay.stores.base import MAX_RESCUED
from forebay.stores.checks import check_ages, check_batch, check_exchange, check_pause, check_targets
from forebay.stores.sqlite import backup, exchange, forks, reads, rows, writes
from forebay.stores.sqlite.connection import connect, mapped
from forebay.stores.sqlite.files import Files
from forebay.stores.sqlite.queries import sql
from forebay.stores.sqlite.transaction import Transaction, encode
from forebay.stores.sqlite.wake import Wakeups

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
_GROUP_TASKS = 1000
_GROUP_SIZE = 4 * 1024 * 1024


class SqliteLedger:
    """Several of them, in several processes of one machine, may share a file. Nothing is opened before first use."""

    def __init__(self, path: Path | str, *, clock: Clock | None = None, vfs: str | None = None) -> None:
        self._path = Path(path).absolute()
        self._clock = clock or SystemClock()
        self._vfs = vfs
        self._lock = threading.Lock()
        self._closed = False
        self._files: Files | None = None
        self._replaced: list[Files] = []
        self._wake = Wakeups(self._path)
        self._stirred = False  # work may be there: no look before the leap
        forks.watch(self)

    def _opened(self) -> Files:
        files = self._files
        if files is None:
            with self._lock:
                files = self._files
                if files is None:
                    if self._closed:
                        raise StoreClosed("The ledger was closed.", remedy="Open it again.")
                    files = self._files = Files(self._path, self._vfs, self._run)
        return files

    def _using(self, use: Callable[[Files], T]) -> T:
        """Use the open files; those that a fork closed in the meantime are opened anew."""
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

    def _write(self, step: Callable[[Transaction], T]) -> T:
        return self._using(lambda files: files.writer.call(step))

    def _run(self, files: Files, db: apsw.Connection, group: Sequence[Call[Transaction]]) -> None:
        """Run a group of steps in one transaction; a step that fails takes back only its own changes."""
        with mapped(self._path):
            try:
                db.execute("BEGIN IMMEDIATE")
                tx = Transaction(db, self._clock.now())
                answers = [_step(db, tx, call, self._path, alone=len(group) == 1) for call in group]
                db.execute("COMMIT")
                if tx.woken:
                    # Before all else: the callers would take the interpreter from us, and idle workers wait.
                    self._wake.send()
                files.check_in_place()
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        for call, (answer, error) in zip(group, answers, strict=True):
            if error is None:
                call.future.set_result(answer)
            else:
                call.future.set_exception(error)

    def _look(self, read: Callable[..., T], *arguments: object) -> T:
        def use(files: Files) -> T:
            with files.read_lock, mapped(self._path):
                files.check_usable()
                return read(files.reader, *arguments)

        return self._using(use)

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

    def submit(self, batch: Sequence[NewTask | NewJob]) -> list[Submitted]:
        answers: list[Submitted] = []
        for group in _groups(check_batch(batch)):
            answers += self._write(partial(writes.submit, batch=group))
        return answers

    def open_session(self, session: Session) -> None:
        self._write(partial(writes.open_session, session=session))

    def renew(self, session_id: str, holds: Sequence[Hold] = ()) -> Renewal:
        now = self._clock.now()
        asked = [[hold.task_id, hold.token, hold.hold_s] for hold in holds]

        def use(files: Files) -> Renewal:
            with files.renew_lock, mapped(self._path):
                files.check_usable()
                alive = files.renewer.execute(sql("renew"), {"id": session_id, "now": now}).fetchall()
                if not alive:
                    return Renewal(alive=False)
                if asked:
                    files.renewer.execute(sql("hold"), {"holds": encode(asked), "now": now})
                held = reads.mine(files.renewer, session_id)
            canceled = tuple(task.id for task in held if task.cancel_requested_at is not None)
            return Renewal(alive=True, cancel_requested=canceled)

        return self._using(use)

    def close_session(self, session_id: str) -> None:
        self._write(partial(writes.close_session, session_id=session_id))

    def sessions(self) -> list[Session]:
        return self._look(reads.sessions)

    def exchange(
        self,
        session_id: str,
        n: int,
        *,
        settles: Sequence[Settle] = (),
        releases: Sequence[Release] = (),
        wants: Sequence[Want] = (),
    ) -> Reply:
        settles, releases, wants = check_exchange(session_id, n, settles, releases, wants)
        stirred, self._stirred = self._stirred, False
        if not (settles or releases or stirred) and (idle := self._look(self._idle, session_id, n, wants)):
            return idle

        def step(tx: Transaction) -> Reply:
            found = tx.execute("SELECT * FROM sessions WHERE id = ?", session_id)
            session = rows.session(found[0]) if found else None
            return exchange.run(tx, session, n, settles=settles, releases=releases, wants=wants)

        return self._write(step)

    def _idle(self, db: apsw.Connection, session_id: str, n: int, wants: Sequence[Want]) -> Reply | None:
        """The answer when nothing is there to do: it costs no write, so idle workers do not wear the disk."""
        now = self._clock.now()
        statement = "SELECT exchange_n FROM sessions WHERE id = ? AND ended_at IS NULL AND expires_at - ? > lease_s / 2"
        found = db.execute(statement, (session_id, now)).fetchone()
        # A session that is half through its lease is renewed by an exchange, and that is a write.
        if found is None or n <= found[0]:
            return None
        tx = Transaction(db, now)
        left = exchange.waiting(tx, wants, tx.pauses())
        hungry = {want.kind for want in wants if want.count}
        if any(left.lanes[kind] for kind in hungry) or left.next_due_in_s == 0.0:
            return None
        return Reply(now=now, **left._asdict())

    def rescue(self, *, most: int = MAX_RESCUED) -> list[str]:
        # Every worker asks every few seconds: that there is nothing to do must not cost a write.
        if not self._look(reads.needs_rescue, self._clock.now()):
            return []
        return self._write(partial(writes.rescue, most=most))

    def mine(self, session_id: str) -> list[Task]:
        return self._look(reads.mine, session_id)

    def listen(self, wake: Callable[[], None], *, loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], None]:
        def stirs() -> None:
            self._stirred = True
            wake()

        self._opened()
        return self._wake.listen(stirs, loop)

    def cancel(self, ids: Sequence[str], action: Action) -> list[Acted]:
        return self._act("cancel", ids, action, actions.cancel)

    def retry(self, ids: Sequence[str], action: Action, *, force: bool = False) -> list[Acted]:
        return self._act("force" if force else "retry", ids, action, partial(actions.retry, force=force))

    def lose_result(self, task_id: str, result_blob: str | None, action: Action) -> Acted:
        step = partial(_lose_result, result_blob=result_blob)
        return self._act("lose_result", [task_id], action, step)[0]

    def delete(self, ids: Sequence[str], action: Action) -> list[Acted]:
        named = check_targets(ids, action)
        return self._write(lambda tx: writes.act(tx, "delete", named, action, writes.deletion(tx)))

    def _act(self, verb: str, targets: Sequence[str], action: Action, step: writes.Step) -> list[Acted]:
        named = check_targets(targets, action)
        return self._write(lambda tx: writes.act(tx, verb, named, action, step))

    def pause(self, lane: str, action: Action, *, until: float | None = None) -> Acted:
        check_pause(lane, action, until)
        step = partial(pausing.paused, until=until, note=action.note)
        return self._write(lambda tx: writes.act_on_lane(tx, "pause", lane, action, step))

    def resume(self, lane: str, action: Action) -> Acted:
        check_pause(lane, action)
        return self._write(lambda tx: writes.act_on_lane(tx, "resume", lane, action, pausing.resumed))

    def prune(self, older_than_s: Mapping[Status, float], action: Action, *, most: int = 1000) -> int:
        check_ages(older_than_s, most)
        return self._write(partial(writes.prune, older_than_s=older_than_s, action=action, most=most))

    def get(self, task_id: str) -> Task | None:
        return self._look(reads.get, ids.check_id(task_id))

    def get_job(self, job_id: str) -> Job | None:
        return self._look(reads.get_job, ids.check_id(job_id))

    def find(self, prefix: str) -> list[str]:
        return self._look(reads.find, ids.check_prefix(prefix))

    def list_tasks(self, query: Query) -> Page[Task]:
        return self._look(reads.list_tasks, query)

    def list_jobs(self, query: Query) -> Page[Job]:
        return self._look(reads.list_jobs, query)

    def count(self, *, tenant: str | None = None) -> dict[tuple[str, Status], int]:
        return self._look(reads.count, tenant)

    def lanes(self) -> list[Lane]:
        return self._look(reads.lanes, self._clock.now())

    def ahead(self, task_id: str) -> int:
        return self._look(reads.ahead, ids.check_id(task_id), self._clock.now())

    def history(self, task_id: str) -> list[Attempt]:
        return self._look(reads.history, ids.check_id(task_id))

    def events(self, job_id: str, *, after: int = 0, most: int = 500) -> list[Event]:
        return self._look(reads.events, ids.check_id(job_id), after, most)

    def audit(self, *, most: int = 100) -> list[Audit]:
        return self._look(reads.audit, most)

    def used(self, *, tenant: str | None = None) -> list[Usage]:
        return self._look(reads.used, tenant)

    def remember(self, results: Sequence[Remembered]) -> None:
        self._write(partial(writes.remember, results=results))

    def recall(self, tenant: str, keys: Sequence[str]) -> list[Remembered]:
        return self._look(reads.recall, tenant, keys)

    def forget(self, tenant: str, document: str, action: Action) -> int:
        def step(tx: Transaction) -> int:
            writes.recorded(tx, "forget", [document], action)
            count = writes.forget(tx, tenant, document)
            writes.record(tx, "forget", [document], action, [])
            return count

        return self._write(step)

    def blobs_in_use(self, tenant: str, sha256s: Sequence[str]) -> set[str]:
        return self._look(reads.blobs_in_use, tenant, sha256s)

    def check(self) -> list[str]:
        return self._aside(backup.check)

    def backup(self, target: Path) -> None:
        self._aside(partial(backup.write, target=target))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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


def _step(
    db: apsw.Connection, tx: Transaction, call: Call[Transaction], path: Path, *, alone: bool
) -> tuple[Any, Exception | None]:
    if alone:
        answer = call.step(tx)
        tx.finish()
        return answer, None
    db.execute("SAVEPOINT step")
    try:
        with mapped(path):
            answer = call.step(tx)
            tx.finish()
    except Exception as error:
        if not db.in_transaction:
            raise
        db.execute("ROLLBACK TO step")
        tx.forget()
        db.execute("RELEASE step")
        return None, error
    db.execute("RELEASE step")
    return answer, None


def _lose_result(unit: Unit, target: str, now: float, *, result_blob: str | None) -> Acted:
    return actions.lose_result(unit, target, result_blob, now)


def _groups(batch: Sequence[NewTask | NewJob]) -> Iterator[list[NewTask | NewJob]]:
    """Parts of a bulk that are short enough for others to get a turn between them; a job stays whole."""
    group: list[NewTask | NewJob] = []
    count = size = 0
    for new in batch:
        tasks = new.tasks if isinstance(new, NewJob) else (new,)
        group.append(new)
        count += len(tasks)
        size += sum(len(task.payload_json) for task in tasks)
        if count >= _GROUP_TASKS or size >= _GROUP_SIZE:
            yield group
            group, count, size = [], 0, 0
    if group:
        yield group
