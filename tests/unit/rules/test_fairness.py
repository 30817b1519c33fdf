from __future__ import annotations

import heapq
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.names import LABEL_LENGTH
from forebay.rules.fairness import MAX_CROWD, Line, Place, flow_of, flow_range, key_within, place_of, tags

LINE = Line("page", "page@adobe", 0)
OTHER = Line("page", "page@adobe", 5)
BACKLOGS = st.integers(1, 60)
FLOWS = st.none() | st.sampled_from("abc")


class Waiting:
    """One line as a ledger keeps it: claimed by rising tag, then by arrival."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str | None]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap)

    def arrive(self, *flows: str | None) -> list[int]:
        heads = {LINE: self._heap[0][0]} if self._heap else {}
        tails = {
            (LINE, flow): max(tag for tag, _, name in self._heap if name == flow)
            for flow in {name for _, _, name in self._heap}
            if flow is not None
        }
        given = tags([Place(LINE, flow) for flow in flows], heads, tails, {})
        for flow, tag in zip(flows, given, strict=True):
            heapq.heappush(self._heap, (tag, next(self._order), flow))
        return given

    def serve(self) -> tuple[int, str | None]:
        """The number of the task, counted from the first arrival, and its flow."""
        _, number, flow = heapq.heappop(self._heap)
        return number, flow

    def serve_all(self) -> list[str | None]:
        return [self.serve()[1] for _ in range(len(self))]


def test_the_first_of_an_empty_line_is_tagged_one_and_its_flow_goes_on_from_there() -> None:
    assert tags([Place(LINE, "a")] * 3, {}, {}, {}) == [1, 2, 3]
    assert tags([Place(LINE, None)] * 3, {}, {}, {}) == [1, 1, 1]


def test_a_flow_goes_on_behind_the_later_of_the_head_and_its_own_last() -> None:
    place = Place(LINE, "a")
    assert tags([place], {LINE: 7}, {(LINE, "a"): 20}, {}) == [21]
    assert tags([place], {LINE: 20}, {(LINE, "a"): 7}, {}) == [21]
    assert tags([place, place], {LINE: 20}, {(LINE, "b"): 90}, {}) == [21, 22]


def test_a_task_without_a_flow_joins_right_behind_the_head() -> None:
    assert tags([Place(LINE, None)], {LINE: 7}, {(LINE, "a"): 20}, {}) == [8]


def test_lines_do_not_mix() -> None:
    places = [Place(LINE, "a"), Place(OTHER, "a"), Place(LINE, "a"), Place(OTHER, None)]
    assert tags(places, {LINE: 10, OTHER: 50}, {(LINE, "a"): 30}, {}) == [31, 51, 32, 51]


@given(BACKLOGS, BACKLOGS, st.booleans())
def test_two_flows_take_turns_while_both_wait(one: int, other: int, together: bool) -> None:  # noqa: FBT001 - a case
    line = Waiting()
    if together:
        line.arrive(*"a" * one, *"b" * other)
    else:
        line.arrive(*"a" * one)
        line.arrive(*"b" * other)
    # Behind a backlog, a newcomer joins behind the head, which is one turn.
    served = line.serve_all()[0 if together else 1 :]
    both = min(one - (not together), other)
    assert served[: 2 * both].count("a") == served[: 2 * both].count("b") == both
    assert all(pair.count("a") == 1 for pair in zip(served[: 2 * both : 2], served[1 : 2 * both : 2], strict=True))


@given(st.lists(BACKLOGS, min_size=2, max_size=6))
def test_any_number_of_flows_take_turns(backlogs: list[int]) -> None:
    line = Waiting()
    line.arrive(*(str(flow) for flow, backlog in enumerate(backlogs) for _ in range(backlog)))
    served = line.serve_all()
    for turn in range(min(backlogs)):
        assert sorted(map(str, served[turn * len(backlogs) : (turn + 1) * len(backlogs)])) == sorted(
            str(flow) for flow in range(len(backlogs))
        )


@given(st.integers(0, 9_000))
def test_a_job_of_two_is_not_starved_by_one_of_ten_thousand(served_before: int) -> None:
    # The huge job's tags run from 1 on, one each; what is served already is gone from the line.
    head = served_before + 1
    small = tags([Place(LINE, "small")] * 2, {LINE: head}, {(LINE, "huge"): 10_000}, {})
    waiting = sorted([(tag, 0, "huge") for tag in range(head, 10_001)] + [(tag, 1, "small") for tag in small])
    assert [flow for _, _, flow in waiting[:5]].count("small") == 2


@pytest.mark.slow
def test_a_huge_job_that_arrives_later_does_not_overtake_a_small_one() -> None:
    line = Waiting()
    line.arrive("small", "small")
    line.arrive(*["huge"] * 10_000)
    assert [line.serve()[1] for _ in range(4)].count("small") == 2


@given(st.lists(st.integers(1, 3) | st.none(), max_size=60))
def test_tasks_without_a_flow_are_served_in_the_order_they_came(steps: list[int | None]) -> None:
    line = Waiting()
    served = []
    for step in steps:
        if step is not None:
            line.arrive(*[None] * step)
        elif len(line):
            served.append(line.serve()[0])
    served += [line.serve()[0] for _ in range(len(line))]
    assert served == sorted(served)


@given(st.lists(st.lists(FLOWS, max_size=5), max_size=20))
def test_tags_rise_within_a_flow(arrivals: list[list[str | None]]) -> None:
    line = Waiting()
    last: dict[str, int] = {}
    for number, flows in enumerate(arrivals):
        for flow, tag in zip(flows, line.arrive(*flows), strict=True):
            if flow is not None:
                assert tag > last.get(flow, 0)
                last[flow] = tag
        # Serves some, but never so much that the line is empty and counts anew.
        for _ in range(number % 3):
            if len(line) > 1:
                line.serve()


@given(st.lists(st.lists(FLOWS, max_size=4), min_size=1, max_size=20), st.data())
def test_a_newcomer_always_stands_behind_the_head(arrivals: list[list[str | None]], data: st.DataObject) -> None:
    line = Waiting()
    for flows in arrivals:
        if len(line):
            head = line._heap[0][0]
            assert all(tag > head for tag in line.arrive(*flows))
            for _ in range(data.draw(st.integers(0, 2))):
                if len(line) > 1:
                    line.serve()
        else:
            line.arrive(*flows)


@given(
    st.lists(FLOWS, min_size=1, max_size=30),
    st.lists(st.sampled_from([None, "a", "b", "a newcomer each time"]), min_size=1, max_size=4),
)
def test_nobody_waits_for_ever_behind_steady_newcomers(waiting: list[str | None], newcomers: list[str | None]) -> None:
    line = Waiting()
    given = line.arrive(*waiting)
    # Each turn of the head is finite work and at least one tag long, and one newcomer comes for each task served.
    bound = len(waiting) * max(given)
    left = set(range(len(waiting)))
    for turn in range(bound):
        left.discard(line.serve()[0])
        if not left:
            return
        newcomer = newcomers[turn % len(newcomers)]
        line.arrive(f"new {turn}" if newcomer == "a newcomer each time" else newcomer)
    raise AssertionError(f"{sorted(left)} of {len(waiting)} still wait after {bound} others were served")


def test_the_flows_of_a_tenant_share_one_turn() -> None:
    third = Place(LINE, "acme/third", "acme")
    assert tags([third, third], {LINE: 7}, {}, {(LINE, "acme"): 2}) == [10, 13]
    assert tags([third], {LINE: 7}, {(LINE, "acme/third"): 9}, {(LINE, "acme"): 3}) == [12]


def test_flows_that_join_together_count_each_other() -> None:
    places = [Place(LINE, f"acme/{n}", "acme") for n in range(3)]
    assert tags(places, {}, {}, {}) == [1, 2, 3]


def test_a_flow_that_has_left_the_line_counts_once_when_it_comes_back() -> None:
    place = Place(LINE, "acme/", "acme")
    assert tags([place], {LINE: 20}, {(LINE, "acme/"): 7}, {(LINE, "acme"): 1}) == [22]


@pytest.mark.parametrize("head", [1, 7])
def test_a_flow_whose_last_task_heads_the_line_is_counted_already(head: int) -> None:
    place = Place(LINE, "acme/", "acme")
    assert tags([place], {LINE: head}, {(LINE, "acme/"): head}, {(LINE, "acme"): 2}) == [head + 2]


def test_a_tenant_with_very_many_flows_takes_bounded_steps() -> None:
    place = Place(LINE, "acme/new", "acme")
    assert tags([place], {LINE: 5}, {}, {(LINE, "acme"): MAX_CROWD}) == [5 + MAX_CROWD]


def test_a_place_belongs_to_its_tenant_unless_a_key_was_given() -> None:
    assert flow_of(None, "acme", None) == "acme/"
    assert flow_of(None, "acme", "job1") == "acme/job1"
    assert flow_of("eu", "acme", "job1") == "eu"
    assert place_of(LINE, "acme/job1", "acme").tenant == "acme"
    # Keys, and what an earlier version stored: a job's id, or nothing.
    for flow in ("eu", "acmes/x", "acme", "other/acme/", "job1", None):
        assert place_of(LINE, flow, "acme") == Place(LINE, flow, None)


@given(st.text(min_size=1, max_size=200), st.sampled_from(["acme", "a" * 64]))
def test_a_key_within_a_tenant_is_a_flow_of_that_tenant_only(key: str, tenant: str) -> None:
    flow = key_within(tenant, key)
    assert len(flow) <= LABEL_LENGTH
    assert place_of(LINE, flow, tenant) == Place(LINE, flow, tenant)
    assert flow_of(key_within("b", "acme/"), "b", None) != flow_of(None, "acme", None)
    first, beyond = flow_range(tenant)
    assert first <= flow < beyond


@given(st.integers(1, 200))
def test_one_document_is_not_starved_by_a_tenant_that_has_many(jobs: int) -> None:
    crowds: dict[tuple[Line, str], int] = {}
    loud = []
    for n in range(jobs):
        loud += tags([Place(LINE, f"loud/{n}", "loud")], {LINE: 1} if n else {}, {}, crowds)
        crowds[LINE, "loud"] = min(n + 1, MAX_CROWD)
    (quiet,) = tags([Place(LINE, "quiet/1", "quiet")], {LINE: 1}, {}, crowds)
    assert sum(tag < quiet for tag in loud) <= 2
