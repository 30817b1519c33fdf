"""What the benchmark of the fleet must refuse to count."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.fleet.cap import IN_FLIGHT, judge
from benchmarks.fleet.crew import Wrong
from benchmarks.fleet.measuring import verify
from benchmarks.work.marks import Marks
from chaos.journal import Journal


def marked(folder: Path, *indexes: int) -> Marks:
    marks = Marks.create(folder / "marks", 3)
    for index in indexes:
        marks.note(index)
    return marks


def test_each_task_once_counts(tmp_path: Path) -> None:
    verify("engine", marked(tmp_path, 0, 1, 2), 3, (3, 3))


@pytest.mark.parametrize("ran", [(0, 1), (0, 1, 2, 2)], ids=["never", "twice"])
def test_a_task_that_ran_twice_or_never_counts_for_nothing(tmp_path: Path, ran: tuple[int, ...]) -> None:
    with pytest.raises(Wrong, match="never ran"):
        verify("engine", marked(tmp_path, *ran), 3, (3, 3))


@pytest.mark.parametrize("ended", [(2, 2), (4, 3), (3, 2)])
def test_a_store_that_knows_of_other_endings_counts_for_nothing(tmp_path: Path, ended: tuple[int, int]) -> None:
    with pytest.raises(Wrong, match="endings"):
        verify("engine", marked(tmp_path, 0, 1, 2), 3, ended)


def record(folder: Path, at_once: int) -> Path:
    """Calls that all arrive before the first of them ends."""
    path = folder / "provider.jsonl"
    journal = Journal(path)
    for number in range(at_once):
        journal.note("arrived", call=number, limit="api", units=1, who="w")
    for number in range(at_once):
        journal.note("ended", call=number, status=200)
    journal.close()
    return path


def test_calls_within_the_cap_count(tmp_path: Path) -> None:
    assert judge("engine", record(tmp_path, IN_FLIGHT), math.inf).most == IN_FLIGHT


def test_one_call_over_the_cap_counts_for_nothing(tmp_path: Path) -> None:
    with pytest.raises(Wrong, match="at once"):
        judge("engine", record(tmp_path, IN_FLIGHT + 1), math.inf)
