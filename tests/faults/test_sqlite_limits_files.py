"""Files that limits cannot be kept in: the error says what to do, and all is well again when the cause is gone."""

from __future__ import annotations

import tempfile
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
from forebay.model.limit_record import Record
from forebay.stores.sqlite import limit_files
from forebay.stores.sqlite.ledger import SqliteLedger
from forebay.stores.sqlite.limits import SqliteLimits
from forebay.testing.limits.case import stored
from forebay.testing.limits.process import LIMIT
from tests.faults import children, limit_children
from tests.faults.limit_children import define, process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteLimits]:
    with SqliteLimits(path) as store:
        yield store


def refused(store: SqliteLimits, kind: type[ForebayError]) -> str:
    """Every kind of call is refused alike, and says what to do."""
    calls: list[Callable[[], object]] = [
        lambda: process(store, "me").wants(),
        lambda: process(store, "me").beats(),
        lambda: store.read(LIMIT),
        lambda: define(store, 1),
        lambda: store.listen("me", lambda limit, grants, now: None),
        store.names,
    ]
    messages = set()
    for call in calls:
        with pytest.raises(kind) as caught:
            call()
        assert caught.value.remedy
        messages.add(str(caught.value))
    (message,) = messages
    return message


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path: Path, store: SqliteLimits) -> None:
    path.write_bytes(b"Dear diary, " * 1000)
    assert "not a sound SQLite database" in refused(store, StoreCorrupt)
    assert path.read_bytes() == b"Dear diary, " * 1000
    path.unlink()
    define(store, 1)


def test_the_database_of_another_program_is_refused_and_left_as_it_is(path: Path, store: SqliteLimits) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE songs (title); INSERT INTO songs VALUES ('Forebay')")
    other.close()
    before = path.read_bytes()
    assert "another program" in refused(store, StoreCorrupt)
    assert path.read_bytes() == before


def test_ledger_and_limits_refuse_the_file_of_each_other(tmp_path: Path) -> None:
    with SqliteLedger(tmp_path / "ledger.db") as ledger, SqliteLimits(tmp_path / "limits.db") as limits:
        assert ledger.count() == {}
        assert limits.names() == []
    with SqliteLimits(tmp_path / "ledger.db") as limits:
        assert "Forebay's ledger" in refused(limits, StoreCorrupt)
    with SqliteLedger(tmp_path / "limits.db") as ledger, pytest.raises(StoreCorrupt, match="Forebay's limits"):
        ledger.count()


def test_a_newer_schema_is_refused_and_names_both_numbers(path: Path, store: SqliteLimits) -> None:
    define(store, 1)
    store.close()
    _execute(path, "PRAGMA user_version = 3")
    with SqliteLimits(path) as newer:
        message = refused(newer, SchemaTooNew)
    assert "schema 3" in message
    assert "knows 2" in message


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in refused(SqliteLimits(tmp_path), BadInput)


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    refused(SqliteLimits(tmp_path / "file" / "limits.db"), StoreUnreachable)


def test_a_cut_file_is_refused(path: Path) -> None:
    with SqliteLimits(path) as store:
        define(store, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with SqliteLimits(path) as store, pytest.raises(StoreCorrupt):
        store.read(LIMIT)
    path.write_bytes(whole)
    with SqliteLimits(path) as store:
        assert stored(store)["eras"]


def test_a_record_that_cannot_be_read_is_refused_and_others_are_not(path: Path, store: SqliteLimits) -> None:
    define(store, 1)
    define(store, 1, name="other")
    _execute(path, "UPDATE limits SET head = '{' WHERE name = 'api'")
    with pytest.raises(StoreCorrupt, match="limit 'api'"):
        process(store, "me").wants()
    assert stored(store, "other")["eras"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can get to, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.slow
@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o755, 0o444), (0o555, 0o444), (0o555, 0o666), (0o555, None)])
def test_a_read_only_file_or_folder_is_named(folder_mode: int, file_mode: int | None, open_folder: Path) -> None:
    folder = open_folder / "folder"
    folder.mkdir()
    path = folder / "limits.db"
    if file_mode is not None:
        with SqliteLimits(path) as store:
            define(store, 1)
        path.chmod(file_mode)
    folder.chmod(folder_mode)
    script = """
import tempfile
with tempfile.TemporaryDirectory() as warm, SqliteLimits(Path(warm) / "limits.db") as first:
    # Whatever is imported or read on first use must be, while this process may still read it.
    define(first, 1)
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
tell(attempt(lambda: define(store, 2)))
"""
    try:
        assert limit_children.run(script, path) in {"StoreReadOnly", "StoreUnreachable"}
    finally:
        folder.chmod(0o777)
        if file_mode is not None:
            path.chmod(0o666)
    assert limit_children.run(script, path) == "ok"


def test_a_full_disk_refuses_a_change_and_takes_it_when_there_is_room(store: SqliteLimits) -> None:
    define(store, 1)
    db = store._opened().main._db
    db.pragma("max_page_count", int(db.pragma("page_count")))
    large = "x" * 20_000
    with pytest.raises(StoreFull) as caught:
        store.change(LIMIT, lambda record, raw: record and {**record, "pause_note": large})
    assert "Free some space" in caught.value.remedy
    assert process(store, "me").wants() == [1]
    db.pragma("max_page_count", 1_000_000)
    store.change(LIMIT, lambda record, raw: record and {**record, "pause_note": large})
    assert stored(store)["pause_note"] == large


def test_a_file_that_another_process_keeps_locked_is_reported_as_busy(
    path: Path, store: SqliteLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(store, 1)
    monkeypatch.setattr(limit_files, "PATIENCE_S", 0.1)
    files = store._opened()
    for access in (files.main, files.beat):
        access.patience._seconds = 0.1
    hold = """
import apsw
db = apsw.Connection(str(path))
db.execute("BEGIN IMMEDIATE")
tell("locked")
sys.stdin.read()
"""
    child = children.start(hold, path)
    try:
        assert children.told(child) == "locked"
        for call in (process(store, "me").wants, process(store, "me").beats):
            with pytest.raises(StoreBusy) as caught:
                call()
            assert "try again" in caught.value.remedy
        assert store.names() == [LIMIT], "reads go on beside a writer"
    finally:
        children.end(child)
    assert process(store, "me").wants() == [1]


def test_a_thread_does_not_wait_for_another_for_ever(store: SqliteLimits, monkeypatch: pytest.MonkeyPatch) -> None:
    define(store, 1)
    monkeypatch.setattr(limit_files, "PATIENCE_S", 0.01)
    with store._opened().main.turn(), pytest.raises(StoreBusy):
        process(store, "me").wants()


def test_a_change_that_others_overtake_is_made_under_a_lock_in_the_end(path: Path, store: SqliteLimits) -> None:
    """The other one then waits, as long as it may, and is told so."""
    define(store, 1)
    refused: list[StoreBusy] = []

    def overtaken(record: Record | None, raw: int) -> Record | None:
        try:
            other.change(LIMIT, lambda inner, raw: inner)
        except StoreBusy as error:
            refused.append(error)
        return record

    with SqliteLimits(path) as other:
        other._opened().main._db.set_busy_timeout(20)
        assert store.change(LIMIT, overtaken) is not None
    assert len(refused) == 1


def test_a_file_that_was_removed_is_made_anew_and_is_a_store_that_forgot(path: Path, store: SqliteLimits) -> None:
    define(store, 1)
    me = process(store, "me")
    me.wants()
    version = me.version
    path.unlink()
    assert me.exchanges()["status"] == "unknown"
    define(store, 1, version=version)
    assert stored(store)["version"] > version
    assert stored(store)["held_back_until"] > 0


@pytest.mark.slow
def test_processes_that_use_a_removed_file_all_go_over_to_the_new_one(path: Path, store: SqliteLimits) -> None:
    script = """
me = process(store, "other")
for line in sys.stdin:
    tell([me.exchanges()["status"], store.names()])
"""
    define(store, 1)
    child = limit_children.start(script, path)

    def answered() -> object:
        assert child.stdin is not None
        child.stdin.write("ask\n")
        child.stdin.flush()
        return children.told(child)

    try:
        for _ in range(5):
            assert answered() == ["ok", [LIMIT]]
            path.unlink()  # and not what is beside it
            assert store.names() == []
            define(store, 1)
            for _ in range(3):
                process(store, "me").wants()
                assert answered() == ["ok", [LIMIT]]
            path.unlink()
            assert answered() == ["unknown", []]
            define(store, 1)
    finally:
        children.end(child)
    assert store._opened().main._db.pragma("integrity_check") == "ok"


def test_the_files_are_their_owners_alone(tmp_path: Path) -> None:
    with SqliteLimits(tmp_path / "new" / "a-limits.db") as store:
        define(store, 1)
        modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "new").iterdir()}
    assert modes == {"a-limits.db": 0o600, "a-limits.db-wal": 0o600, "a-limits.db-shm": 0o600}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def _execute(path: Path, text: str) -> None:
    db = apsw.Connection(str(path))
    db.execute(text)
    db.close()
