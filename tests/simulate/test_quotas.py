"""Quotas as the simulator enforces them, judged by counts of the test's own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.simulate.clock import Clock
from forebay.simulate.quotas import Quotas
from forebay.simulate.settings import Quota
from forebay.simulate.verdict import worst_fixed, worst_sliding
from forebay.testing import Simulated
from tests.simulate.ground import PROCESS, Clients, chat, document, process


def worst(calls: list[dict[str, Any]], per_s: float, unit: str = "calls") -> int:
    """By trying every window that begins with a call: slow, and plain to see."""
    counted = [
        sum(
            1 if unit == "calls" else call["units"][unit]
            for call in calls
            if first["arrived"] <= call["arrived"] < first["arrived"] + per_s
        )
        for first in calls
    ]
    return int(max(counted))


def most_at_once(calls: list[dict[str, Any]]) -> int:
    return int(max(sum(call["arrived"] <= each["arrived"] < call["ended"] for call in calls) for each in calls))


def admitted(sim: Simulated) -> list[dict[str, Any]]:
    return [call for call in sim.calls() if call["admitted"]]


@pytest.mark.slow
def test_calls_at_once_are_bounded_and_counted(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"in_flight": 3}}, latency={"openai": {"s": 0.8}})
    answers = Counter(clients.at_once([chat()] * 8))
    assert answers == {200: 3, 429: 5}
    assert most_at_once(admitted(sim)) == 3
    verdict = sim.verdict()
    assert verdict["quotas"]["openai"]["in_flight"]["limit"] == 3
    assert verdict["quotas"]["openai"]["in_flight"]["peak"] == most_at_once(sim.calls()) > 3
    assert not verdict["within_quotas"]


def test_a_slot_is_free_when_its_answer_is_there(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"in_flight": 1}})
    assert {clients.chat().status_code for _ in range(100)} == {200}
    assert sim.verdict()["quotas"]["openai"]["in_flight"]["peak"] == 1


def test_a_window_admits_no_more_than_its_size_and_the_judge_sees_what_was_sent(
    clients: Clients, sim: Simulated
) -> None:
    sim.change(quotas={"openai": {"windows": [{"n": 10, "per_s": 30}]}})
    assert Counter(clients.chat().status_code for _ in range(14)) == {200: 10, 429: 4}
    assert worst(admitted(sim), 30) == 10
    (window,) = sim.verdict()["quotas"]["openai"]["windows"]
    assert (window["worst_admitted"], window["worst"]) == (10, worst(sim.calls(), 30)) == (10, 14)


class Standing(Clock):
    """Wall time begins with the clock, so that calendar slices have round edges."""

    def wall(self, instant: float) -> float:
        return instant


def alone(**quota: Any) -> Quotas:  # noqa: ANN401 - as settings have them
    return Quotas({"openai": Quota.model_validate(quota)}, Standing())


TIMES = st.lists(st.integers(0, 60), min_size=1, max_size=60).map(sorted)


@given(TIMES, st.integers(0, 6), st.integers(1, 20))
def test_a_sliding_window_refuses_exactly_what_would_be_too_much(times: list[int], n: int, per_s: int) -> None:
    quotas = alone(windows=[{"n": n, "per_s": per_s}])
    let_in: list[int] = []
    for at in times:
        room = sum(at - per_s < each <= at for each in let_in) < n
        denial = quotas.admit(["openai.chat"], at, {})
        assert (denial is None) is room
        if room:
            let_in.append(at)
        elif n and denial is not None:
            assert sum(at + denial.retry_in_s - per_s < each for each in let_in) < n


@given(TIMES, st.integers(0, 6), st.integers(1, 20))
def test_a_fixed_window_counts_by_the_calendar(times: list[int], n: int, per_s: int) -> None:
    quotas = alone(windows=[{"n": n, "per_s": per_s, "edge": "fixed"}])
    let_in: Counter[int] = Counter()
    for at in times:
        room = let_in[at // per_s] < n
        assert (quotas.admit(["openai.chat"], at, {}) is None) is room
        let_in[at // per_s] += room


def test_a_fixed_window_lets_through_twice_as_many_at_its_edge() -> None:
    quotas = alone(windows=[{"n": 190, "per_s": 60, "edge": "fixed"}])
    times = [59.0] * 190 + [61.0] * 190
    assert all(quotas.admit(["openai.chat"], at, {}) is None for at in times)
    entries = [(at, 1) for at in times]
    assert worst_fixed(entries, 60, Standing()) == 190
    assert worst_sliding(entries, 60) == 380


def test_pages_weigh(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"docai": {"windows": [{"n": 7, "per_s": 60, "unit": "pages"}]}})
    two = process(document("one", "two"))
    assert [clients.docai(body).status_code for body in (process(), process(), two, process(document("x")))] == [
        200,
        200,
        429,
        200,
    ]
    assert worst(admitted(sim), 60, "pages") == 7
    assert sim.verdict()["quotas"]["docai"]["windows"][0]["worst"] == 9


def test_all_windows_must_have_room(clients: Clients, sim: Simulated) -> None:
    windows = [{"n": 100, "per_s": 60}, {"n": 2, "per_s": 30}]
    sim.change(quotas={"openai": {"windows": windows, "in_flight": 50}})
    assert [clients.chat().status_code for _ in range(4)] == [200, 200, 429, 429]
    assert {call["denied_by"] for call in sim.calls()[2:]} == {"openai window"}
    assert sim.verdict()["quotas"]["openai"]["windows"][0]["worst_admitted"] == 2


@pytest.mark.parametrize("counted", [False, True])
def test_refused_calls_use_up_a_window_where_they_are_said_to(*, counted: bool) -> None:
    quotas = alone(windows=[{"n": 1, "per_s": 10}], count_refused=counted)
    assert [quotas.admit(["openai.chat"], at, {}) is None for at in (0.0, 5.0, 10.0)] == [True, False, not counted]


def test_quotas_of_one_api_leave_the_others_alone(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"docai": {"windows": [{"n": 0, "per_s": 60}]}})
    assert clients.docai().status_code == 429
    assert clients.chat().status_code == 200
    assert clients.azure().status_code == 200


def test_quotas_change_while_it_runs(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"windows": [{"n": 1, "per_s": 60}]}})
    assert [clients.chat().status_code for _ in range(2)] == [200, 429]
    sim.change(quotas={"openai": {"windows": [{"n": 5, "per_s": 60}]}})
    assert clients.chat().status_code == 200
    sim.change(quotas={"openai": None})
    assert sim.verdict()["quotas"] == {}


@pytest.mark.slow
def test_without_a_quota_nothing_is_refused_and_the_judge_sees_what_came(clients: Clients, sim: Simulated) -> None:
    sim.change(latency={"docai": {"s": 1.0}})
    assert set(clients.at_once([process()] * 6, path=PROCESS)) == {200}
    assert sim.verdict()["peak_in_flight"] == most_at_once(sim.calls()) == 6


@pytest.mark.parametrize("form", ["seconds", "date", "ms", "info", "none"])
def test_a_quotas_own_429_says_when_to_come_again_as_it_is_told(clients: Clients, sim: Simulated, form: str) -> None:
    sim.change(quotas={"docai": {"windows": [{"n": 0, "per_s": 20}]}}, retry={"docai": form})
    answer = clients.docai()
    hints = {name for name in ("retry-after", "retry-after-ms") if name in answer.headers}
    assert hints == {"seconds": {"retry-after"}, "date": {"retry-after"}, "ms": {"retry-after-ms"}}.get(form, set())
    assert ("retryDelay" in answer.text) is (form == "info")
