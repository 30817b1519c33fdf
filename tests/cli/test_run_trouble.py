"""`forebay run` when a disk is full or may not be written: a typed error, and nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from forebay.model.query import Query
from tests.cli.documents import WITH, Desk

BOUNDED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))
from forebay.cli import main
sys.exit(main())
"""


def bounded(desk: Desk, most: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With files that can grow so far and no farther, as on a disk that is full."""
    return subprocess.run(
        [sys.executable, "-c", BOUNDED.format(most=most), "run", *arguments, *WITH],
        cwd=desk.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )


def test_a_home_that_cannot_be_one_is_a_store_that_cannot_be_reached(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.here.home.write_text("a file where a folder should be")
    answer = desk.run("scan.pdf")
    assert (answer.code, answer.out, answer.err.count("\n")) == (5, "", 1), answer
    assert desk.there() == {"scan.pdf"}


@pytest.mark.slow
def test_a_store_without_room_for_the_document_ends_it_and_the_same_command_goes_on(desk: Desk) -> None:
    path = desk.put("scan.pdf")
    with path.open("ab") as file:
        file.write(b"\n%" + b"x" * 3_000_000)
    desk.here.ok("store", "init")
    run = bounded(desk, 2_000_000, "scan.pdf")
    assert (run.returncode, run.stderr.count("\n")) == (5, 1), run.stderr
    assert "No room left" in run.stderr
    assert desk.calls == []
    desk.ok("scan.pdf")
    assert desk.calls == ["1-2", "3-3"]


@pytest.mark.slow
def test_an_output_that_finds_no_room_is_written_by_the_same_command_without_a_call(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.tell("words", 6_000)
    desk.ok("scan.pdf", "--out", "first")
    run = bounded(desk, 400_000, "scan.pdf", "-f", "json", "-o", "json")
    assert run.returncode == 1, run.stderr
    (record,) = json.loads(run.stdout)
    assert (record["status"], record["error_class"]) == ("unwritten", "output_failed")
    assert record["error_text"].startswith("An output cannot be written: File too large: ")
    assert desk.there() == {"scan.pdf", "first/scan.md", "first/scan.json"}
    desk.ok("scan.pdf", "-f", "json")
    assert (desk.folder / "scan.json").stat().st_size > 400_000
    assert desk.calls == ["1-2", "3-3"]


@pytest.mark.slow
def test_a_searchable_pdf_that_finds_no_room_is_written_by_the_same_command_without_a_call(desk: Desk) -> None:
    path = desk.put("scan.pdf")
    with path.open("ab") as file:
        file.write(b"\n%" + b"x" * 3_000_000)
    desk.tell("words", 6_000)
    desk.ok("scan.pdf", "--out", "first")
    run = bounded(desk, 60_000, "scan.pdf", "-f", "pdf", "-o", "json")
    assert run.returncode == 1, run.stderr
    (record,) = json.loads(run.stdout)
    assert (record["status"], record["error_class"]) == ("unwritten", "output_failed")
    assert desk.there() == {"scan.pdf", "first/scan.md", "first/scan.json"}
    desk.ok("scan.pdf", "-f", "pdf")
    assert (desk.folder / "scan.ocr.pdf").read_bytes().startswith(b"%PDF-")
    assert desk.calls == ["1-2", "3-3"]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["ledger", "blobs"])
def test_a_store_that_was_taken_away_is_told_and_nothing_is_paid_again(desk: Desk, place: str) -> None:
    desk.put("scan.pdf")
    desk.ok("scan.pdf")
    home = desk.here.home
    target = home / ("forebay.db" if place == "ledger" else "blobs")
    kept = target.rename(home / "kept")
    if place == "ledger":
        target.write_text("no database at all, but long enough to be looked at " * 100)
    answer = desk.run("scan.pdf", "--out", "elsewhere")
    assert answer.code == 5, answer
    assert answer.err.count("\n") == 1
    assert len(desk.calls) == 2
    if target.exists():
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    kept.rename(target)
    desk.ok("scan.pdf", "--out", "elsewhere")
    assert len(desk.calls) == 2


def test_a_pipe_in_the_place_of_an_output_is_refused_at_once(desk: Desk) -> None:
    desk.put("scan.pdf", 1)
    os.mkfifo(desk.folder / "scan.json")
    answer = desk.run("scan.pdf")
    assert answer.code == 1
    assert "scan.json is a device or a pipe" in answer.err
    assert desk.calls == []


@pytest.mark.slow
def test_damaged_results_of_two_documents_are_merged_again(desk: Desk) -> None:
    for name in ("one.pdf", "two.pdf"):
        desk.put(name, 1, f"{name} {{}}")
    desk.ok("one.pdf", "two.pdf")
    with desk.here.app() as app:
        merges = [app.ledger.get(job.merge_id or "") for job in app.ledger.list_jobs(Query()).items]
    for merge in merges:
        assert merge is not None
        (blob,) = desk.here.home.rglob(merge.result_blob or "")
        blob.write_bytes(b"x" + blob.read_bytes()[1:])
    calls = list(desk.calls)
    desk.ok("one.pdf", "two.pdf", "--out", "again")
    assert desk.calls == calls


@pytest.mark.parametrize("budgets", ["x", "pages=-1/day", "pages=5/fortnight"])
def test_a_budget_that_is_none_is_refused_before_anything_is_stored(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, budgets: str
) -> None:
    monkeypatch.setenv("FOREBAY_BUDGETS", budgets)
    desk.put("scan.pdf", 1)
    answer = desk.run("scan.pdf")
    assert (answer.code, desk.calls) == (2, [])
    assert "is not a budget" in answer.err


def test_a_budget_for_a_processor_that_there_is_not_is_refused_and_one_for_the_others_is_not(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_BUDGETS", "pages=100/day,notes:pages=1/day")
    desk.put("scan.pdf", 1)
    answer = desk.run("scan.pdf")
    assert (answer.code, desk.calls) == (2, [])
    assert "The budget of 1 pages a day is for 'notes', which is not known here." in answer.err
    monkeypatch.setenv("FOREBAY_BUDGETS", "pages=100/day,docai:pages=1/day,noted:pages=1/day")
    desk.ok("scan.pdf")
