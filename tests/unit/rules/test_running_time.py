from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.task import Status, Task
from forebay.rules import running_time
from tests.unit.builders import task


def ended(start: float, end: float, generation: int = 1, id: str = "a" * 26) -> Task:  # noqa: A002 - its name everywhere
    return task(id=id, status=Status.COMPLETED, claimed_at=start, finished_at=end, generation=generation)


def ran_s(tasks: list[Task], told_s: dict[str, float] | None = None) -> float:
    return running_time.ran_s(running_time.ended(tasks, told_s or {}, generation=1))


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([], 0),
        ([ended(10, 15), ended(20, 30)], 15),
        ([ended(10, 20), ended(12, 15), ended(15, 25)], 15),
        ([task(status=Status.PENDING, claimed_at=50.0, finished_at=None)], 0),
        ([ended(10, 90, generation=1), ended(92, 95, generation=2)], 80),
        ([task(status=Status.CANCELED, claimed_at=None, finished_at=9.0)], 0),
    ],
)
def test_it_is_the_time_in_which_anything_ran(tasks: list[Task], expected: float) -> None:
    assert ran_s(tasks) == expected


def test_what_has_not_ended_may_be_waiting_and_does_not_count() -> None:
    assert ran_s([ended(10, 20), task(status=Status.RUNNING, claimed_at=15.0, finished_at=None)]) == 10


def test_what_a_task_waited_does_not_count() -> None:
    waited = ended(0, 60, id="b" * 26)
    assert ran_s([ended(10, 20), waited], {waited.id: 4.0}) == 14
    # It cannot have run before it was claimed.
    assert ran_s([waited], {waited.id: 70.0}) == 60


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8))
def test_it_is_what_somebody_finds_who_looks_every_moment(spans: list[tuple[int, int]]) -> None:
    tasks = [ended(float(start), float(start + length)) for start, length in spans]
    moments = {moment for start, length in spans for moment in range(start, start + length)}
    assert ran_s(tasks) == len(moments)
