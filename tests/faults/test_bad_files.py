"""Files that a ledger cannot use: the error says what to do, and all is well again when the cause is gone."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from forebay.errors import (
    BadInput,
    ForebayError,
    SchemaTooNew,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreUnreachable,
)
from forebay.model.task import NewTask
from forebay.stores.sqlite import schema
from forebay.stores.sqlite.ledger import SqliteLedger
from tests.faults import children


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger(path)
    yield ledger
    ledger.close()


def submitted(ledger: SqliteLedger) -> str:
    return ledger.submit([NewTask(kind="work")])[0].id


def refused(ledger: SqliteLedger, kind: type[ForebayError]) -> str:
    """Every kind of call is refused alike, and says what to do."""
    calls: list[Callable[[], object]] = [
        lambda: submitted(ledger),
        lambda: ledger.renew("a" * 26),
        lambda: ledger.get("a" * 26),
        ledger.check,
    ]
    messages = set()
    for call in calls:
        with pytest.raises(kind) as caught:
            call()
        assert caught.value.remedy
        messages.add(str(caught.value))
    (message,) = messages
    return message


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path: Path, ledger: SqliteLedger) -> None:
    path.write_bytes(b"Dear diary, " * 1000)
    assert "not a sound SQLite database" in refused(ledger, StoreCorrupt)
    assert path.read_bytes() == b"Dear diary, " * 1000
    path.unlink()
    submitted(ledger)


def test_the_database_of_another_program_is_refused_and_left_as_it_is(path: Path, ledger: SqliteLedger) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE songs (title); INSERT INTO songs VALUES ('Forebay')")
    other.close()
    before = path.read_bytes()
    assert "another program" in refused(ledger, StoreCorrupt)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_and_names_both_numbers(path: Path, ledger: SqliteLedger) -> None:
    task_id = submitted(ledger)
    ledger.close()
    newest = max(schema.migrations())
    _pragma(path, f"user_version = {newest + 1}")
    message = refused(SqliteLedger(path), SchemaTooNew)
    assert f"schema {newest + 1}" in message
    assert f"knows {newest}" in message
    _pragma(path, f"user_version = {newest}")
    with SqliteLedger(path) as again:
        assert again.get(task_id) is not None


def test_a_folder_is_refused(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path)
    assert "is a folder" in refused(ledger, BadInput)


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    refused(SqliteLedger(tmp_path / "file" / "ledger.db"), StoreUnreachable)


def test_a_cut_file_is_refused(path: Path, ledger: SqliteLedger) -> None:
    submitted(ledger)
    ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreCorrupt), SqliteLedger(path) as cut:
        submitted(cut)
    path.write_bytes(whole)
    with SqliteLedger(path) as restored:
        submitted(restored)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can get to, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o755, 0o444), (0o555, 0o444), (0o555, 0o666), (0o555, None)])
def test_a_read_only_file_or_folder_is_named(folder_mode: int, file_mode: int | None, open_folder: Path) -> None:
    folder = open_folder / "folder"
    folder.mkdir()
    path = folder / "ledger.db"
    if file_mode is not None:
        ledger = SqliteLedger(path)
        submitted(ledger)
        ledger.close()
        path.chmod(file_mode)
    folder.chmod(folder_mode)
    try:
        submit = "tell(attempt(lambda: SqliteLedger(path).submit([NewTask(kind='work')])))"
        assert children.run(submit, path, as_nobody=True) in {"StoreReadOnly", "StoreUnreachable"}
    finally:
        folder.chmod(0o777)
        if file_mode is not None:
            path.chmod(0o666)
    assert children.run(submit, path, as_nobody=True) == "ok"


def test_a_full_disk_refuses_each_call_and_takes_them_again_when_there_is_room(
    path: Path, ledger: SqliteLedger
) -> None:
    kept = submitted(ledger)
    large = NewTask(kind="work", payload="x" * 200_000)
    db = ledger._opened()._db
    db.pragma("max_page_count", int(db.pragma("page_count")) + 2)
    with pytest.raises(StoreFull) as caught:
        ledger.submit([large])
    assert "Free some space" in caught.value.remedy
    assert together(path, [lambda: ledger.submit([large])] * 3) == [StoreFull] * 3
    db.pragma("max_page_count", 1_000_000)
    assert ledger.submit([large])[0].outcome == "created"
    assert ledger.check() == []
    assert ledger.get(kept) is not None


def test_in_a_group_only_the_call_that_needs_the_room_fails(path: Path, ledger: SqliteLedger) -> None:
    submitted(ledger)
    db = ledger._opened()._db
    db.pragma("max_page_count", int(db.pragma("page_count")) + 10)
    calls: list[Callable[[], object]] = [
        lambda: submitted(ledger),
        lambda: ledger.submit([NewTask(kind="work", payload="x" * 200_000)]),
        lambda: submitted(ledger),
    ]
    assert together(path, calls) == [None, StoreFull, None]
    assert sum(ledger.count().values()) == 3


def test_a_process_that_may_not_write_larger_files_gets_an_error_and_loses_nothing(path: Path) -> None:
    script = """
import resource
ledger = SqliteLedger(path)
kept = [ledger.submit([NewTask(kind="work")])[0].id]
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
errors = set()
for _ in range(200):
    task = NewTask(kind="work", payload="x" * 3000)
    error = attempt(lambda: ledger.submit([task]))
    if error == "ok":
        kept.append(task.id)
    errors.add(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
after = attempt(lambda: ledger.submit([NewTask(kind="work")]))
tell([sorted(errors), after, kept, all(ledger.get(id_) for id_ in kept), ledger.check()])
"""
    errors, after, kept, there, wrong = children.run(script, path)
    assert set(errors) <= {"ok", "StoreFull", "MaybeApplied"}
    assert len(errors) > 1
    assert (after, there, wrong) == ("ok", True, [])
    ledger = SqliteLedger(path)
    assert all(ledger.get(task_id) for task_id in kept)
    ledger.close()


def test_a_file_that_another_process_keeps_locked_is_reported_as_busy(path: Path, ledger: SqliteLedger) -> None:
    kept = submitted(ledger)
    hold = """
import apsw
db = apsw.Connection(str(path))
db.execute("BEGIN IMMEDIATE")
tell("locked")
sys.stdin.read()
"""
    files = ledger._opened()
    for db in (files._db, files.renewer):
        db.set_busy_timeout(100)
    child = children.start(hold, path)
    try:
        assert children.told(child) == "locked"
        with pytest.raises(StoreBusy) as caught:
            submitted(ledger)
        assert "try again" in caught.value.remedy
        with pytest.raises(StoreBusy):
            ledger.renew("a" * 26)
        assert ledger.get(kept) is not None, "reads go on beside a writer"
    finally:
        children.end(child)
    submitted(ledger)


def test_a_file_that_was_deleted_takes_nothing_more_until_it_is_back(
    path: Path, ledger: SqliteLedger, tmp_path: Path
) -> None:
    kept = submitted(ledger)
    away = tmp_path / "away"
    path.rename(away)
    for _ in range(2):
        assert "moved or deleted" in refused(ledger, StoreUnreachable)
    assert not path.exists()
    away.rename(path)
    later = submitted(ledger)
    assert ledger.get(kept) is not None
    assert ledger.get(later) is not None


def test_a_file_that_was_replaced_is_told_once_and_then_the_new_one_is_used(
    path: Path, ledger: SqliteLedger, tmp_path: Path
) -> None:
    kept = submitted(ledger)
    ledger.backup(tmp_path / "copy")
    gone = submitted(ledger)
    for file in tmp_path.glob("ledger.db*"):
        file.unlink() if file.is_file() else shutil.rmtree(file)
    (tmp_path / "copy").rename(path)
    with pytest.raises(StoreUnreachable, match="was replaced"):
        ledger.get(kept)
    assert ledger.get(kept) is not None
    assert ledger.get(gone) is None
    assert ledger.check() == []


def _pragma(path: Path, text: str) -> None:
    db = apsw.Connection(str(path))
    db.execute(f"PRAGMA {text}")
    db.close()


def together(path: Path, calls: list[Callable[[], object]]) -> list[type[Exception] | None]:
    """Make the calls arrive while the file is locked, so that they form one group; answers with what each raised."""
    errors: list[type[Exception] | None] = [None] * len(calls)

    def make(number: int) -> None:
        try:
            calls[number]()
        except Exception as error:  # noqa: BLE001 - whichever it is, the test looks at it
            errors[number] = type(error)

    # The first is taken alone and waits for the lock; those behind it wait for the first.
    first = threading.Event()
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    threads = [threading.Thread(target=make, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
        first.wait(0.05)
    other.execute("COMMIT")
    other.close()
    for thread in threads:
        thread.join()
    return errors


def test_the_files_of_a_ledger_are_their_owners_alone(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "new" / "ledger.db")
    ledger.submit([NewTask(kind="work", payload="secret")])
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "new").iterdir()}
    ledger.close()
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_backup_is_its_owners_alone(tmp_path: Path) -> None:
    with SqliteLedger(tmp_path / "ledger.db") as ledger:
        ledger.submit([NewTask(kind="work", payload="secret")])
        ledger.backup(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
