from __future__ import annotations

import pytest

from forebay.model.exchange import Remembered
from forebay.stores.address import open_ledger
from forebay.testing.workers import blob, lone
from tests.cli.ground import Ground


def test_init_creates_what_is_missing_and_leaves_the_rest(here: Ground) -> None:
    out = here.ok("store", "init").out
    assert "schema" in out
    assert here.ledger.exists()
    assert (here.home / "blobs").is_dir()
    (identifier,) = here.submit(lone())
    here.ok("store", "init")
    here.ok("get", identifier)


@pytest.mark.parametrize("place", ["", "/below"])
def test_init_where_no_folder_can_be_says_what_to_do(place: str, here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_HOME", f"/dev/null{place}")
    answer = here.run("store", "init")
    assert (answer.code, "Set FOREBAY_HOME" in answer.err, "bug" in answer.err) == (5, True, False)


def test_migrate_says_the_schema(here: Ground) -> None:
    here.ok("store", "init")
    assert "schema " in here.ok("store", "migrate").out


def test_check_of_a_sound_ledger(here: Ground) -> None:
    here.submit(lone())
    assert "is sound" in here.ok("store", "check").out
    assert here.ok("store", "check", "-o", "json").json == []


def test_check_exits_1_and_prints_what_is_wrong(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    here.submit(lone())
    monkeypatch.setattr("forebay.stores.sqlite.ledger.SqliteLedger.check", lambda _: ["page 3 is torn"])
    answer = here.run("store", "check")
    assert (answer.code, answer.out) == (1, "page 3 is torn\n")
    assert "restore a backup" in answer.err


def test_a_file_of_another_program_exits_5(here: Ground) -> None:
    here.home.mkdir()
    here.ledger.write_bytes(b"no database, but long enough to be taken for one" * 100)
    assert here.run("store", "check").code == 5


def test_gc_deletes_only_what_nothing_points_at(here: Ground) -> None:
    with here.app() as app:
        used = app.blobs.put("default", b"used")
        app.blobs.put("ann", b"stray")
    here.submit(lone(payload_blob=used.sha256))
    assert here.ok("store", "gc").out.startswith("0 blobs deleted")
    assert here.ok("store", "gc", "--older-than", "0", "-o", "json").json == {
        "blob_count": 1,
        "byte_count": 5,
        "draft_count": 0,
    }


def test_gc_needs_the_ledger_that_the_blobs_belong_to(here: Ground) -> None:
    with here.app() as app:
        ref = app.blobs.put("default", b"used")
    assert here.run("store", "gc", "--older-than", "0", "--ledger", "memory://").code == 2
    assert here.run("store", "gc", "--older-than", "0").code == 5
    with here.app() as app:
        assert app.blobs.exists(ref)


def test_backup_writes_a_copy_that_can_be_opened(here: Ground) -> None:
    (identifier,) = here.submit(lone())
    here.ok("store", "backup", "copy.db")
    with open_ledger(f"sqlite:///{here.home.parent}/copy.db") as copy:
        assert copy.get(identifier) is not None
    assert here.run("store", "backup", "copy.db").code == 2


def test_prune_takes_ages_from_flags_or_settings(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = here.submit(lone(1), lone(2))
    assert here.run("store", "prune").code == 2
    here.ok("cancel", ids[0])
    assert here.ok("store", "prune", "--canceled", "0").out == "1 deleted\n"
    here.ok("cancel", ids[1])
    monkeypatch.setenv("FOREBAY_RETENTION_CANCELED_S", "0")
    assert here.ok("store", "prune", "-o", "json").json == {"count": 1, "forgotten_count": 0}


def test_prune_forgets_results_that_were_remembered_for_reuse(here: Ground) -> None:
    here.submit(lone())
    with here.app() as app:
        app.ledger.remember([Remembered(tenant="default", key=blob(1), document=blob(2), result_blob=blob(3))])
        assert here.ok("store", "prune", "--remembered", "3600").out == "0 deleted, 0 results forgotten\n"
        assert here.ok("store", "prune", "--remembered", "0").out == "0 deleted, 1 results forgotten\n"
        assert app.ledger.recall("default", [blob(1)]) == []
