"""Quotas as the simulator enforces them, judged by counts of the test's own."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

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


def test_calls_at_once_are_bounded_and_counted(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"in_flight": 3}}, latency={"openai": {"s": 0.3}})
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


def test_a_sliding_window_admits_no_more_in_any_stretch(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"windows": [{"n": 10, "per_s": 0.3}]}})
    ends_at = time.monotonic() + 1.2
    answers: Counter[int] = Counter()
    while time.monotonic() < ends_at:
        answers[clients.chat().status_code] += 1
    assert answers[429] > 0
    assert worst(admitted(sim), 0.3) == 10
    (window,) = sim.verdict()["quotas"]["openai"]["windows"]
    assert window["worst_admitted"] == 10
    assert window["worst"] == worst(sim.calls(), 0.3) > 10


def test_a_fixed_window_lets_through_twice_as_many_at_its_edge(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"windows": [{"n": 8, "per_s": 2.0, "edge": "fixed"}]}})
    for edge in range(2):
        time.sleep(2.0 - time.time() % 2.0 - (0.25 if edge == 0 else 0.0))
        for _ in range(8):
            clients.chat()
    found = admitted(sim)
    assert len(found) == 16
    assert worst(found, 2.0) > 8
    (window,) = sim.verdict()["quotas"]["openai"]["windows"]
    assert window["worst"] == 8


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


def test_refused_calls_use_up_a_window_where_they_are_said_to(clients: Clients, sim: Simulated) -> None:
    sim.change(quotas={"openai": {"windows": [{"n": 2, "per_s": 0.6}], "count_refused": True}})
    assert [clients.chat().status_code for _ in range(4)] == [200, 200, 429, 429]
    time.sleep(0.4)
    clients.chat()
    time.sleep(0.4)
    assert clients.chat().status_code == 200


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


def test_without_a_quota_nothing_is_refused_and_the_judge_sees_what_came(clients: Clients, sim: Simulated) -> None:
    sim.change(latency={"docai": {"s": 0.3}})
    assert set(clients.at_once([process()] * 6, path=PROCESS)) == {200}
    assert sim.verdict()["peak_in_flight"] == most_at_once(sim.calls()) == 6


@pytest.mark.parametrize("form", ["seconds", "date", "ms", "info", "none"])
def test_a_quotas_own_429_says_when_to_come_again_as_it_is_told(clients: Clients, sim: Simulated, form: str) -> None:
    sim.change(quotas={"docai": {"windows": [{"n": 0, "per_s": 20}]}}, retry={"docai": form})
    answer = clients.docai()
    hints = {name for name in ("retry-after", "retry-after-ms") if name in answer.headers}
    assert hints == {"seconds": {"retry-after"}, "date": {"retry-after"}, "ms": {"retry-after-ms"}}.get(form, set())
    assert ("retryDelay" in answer.text) is (form == "info")
