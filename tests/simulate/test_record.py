from __future__ import annotations

import socket
from hashlib import sha256
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.simulate.record import Call
from forebay.simulate.verdict import peak, worst_sliding
from forebay.testing import Simulated
from tests.simulate.ground import CHAT, DOCUMENT, Clients, chat, document, process


def test_a_call_is_recorded_with_its_chunk_its_units_and_its_answer(clients: Clients, sim: Simulated) -> None:
    clients.docai()
    (call,) = sim.calls()
    assert call["fingerprint"] == sha256(DOCUMENT).hexdigest()
    assert (call["route"], call["units"], call["status"]) == ("docai.process", {"pages": 3}, 200)
    assert 0 < call["arrived"] < call["ended"]
    assert call["arrived_at"].endswith("Z")


def test_calls_of_a_chunk_are_counted_and_those_after_an_answer_named(clients: Clients, sim: Simulated) -> None:
    one, two = process(document("one")), process(document("two"))
    clients.docai(one, fault="500")
    clients.docai(one)
    clients.docai(two, fault="truncate")
    clients.docai(two)
    clients.docai(two)
    counts = sorted(tuple(each.values()) for each in sim.chunks().values())
    assert counts == [(2, 1, 1, 0), (3, 2, 3, 1)]
    verdict = sim.verdict()
    assert (verdict["chunks"], verdict["most_calls_of_a_chunk"]) == (2, 3)
    assert (verdict["repeated_after_success"], verdict["paid_more_than_once"]) == (1, 1)


def test_money_follows_the_prices(clients: Clients, sim: Simulated) -> None:
    clients.docai()
    clients.ended(clients.autotag().headers["location"])
    clients.docai(fault="500")
    found = sim.verdict()
    assert found["money"] == pytest.approx(3 * 0.0015 + 30 * 0.05)
    sim.change(prices={"docai": {"pages": 1.0}, "adobe.job": {"transactions": 0.0}})
    assert sim.verdict()["money"] == pytest.approx(3.0)


def test_refusals_are_counted_as_they_were_answered(clients: Clients, sim: Simulated) -> None:
    for fault in ("429", "429 form=date", "503", ""):
        clients.docai(fault=fault)
    found = sim.verdict()
    assert found["refused_429"] == 2
    assert found["routes"]["docai.process"]["answers"] == {"200": 1, "429": 2, "503": 1}


def test_the_ledger_can_be_read_in_pieces_and_by_route(clients: Clients, sim: Simulated) -> None:
    clients.docai()
    clients.chat()
    clients.chat()
    assert [call["number"] for call in sim.calls("openai.chat")] == [2, 3]
    assert [call["number"] for call in sim.calls(after=2)] == [3]
    lines = clients.http.get("/simulate/ledger?format=ndjson").text.splitlines()
    assert len(lines) == 3


def test_control_is_no_call_and_refuses_what_it_does_not_know(clients: Clients, sim: Simulated) -> None:
    assert clients.http.get("/simulate").json()["addresses"]["openai"] == f"{sim.base}/v1"
    assert clients.http.get("/simulate/nothing").status_code == 404
    assert clients.http.patch("/simulate/settings", content=b"[]").status_code == 422
    with pytest.raises(ValueError, match=r"quotas\.docai\.windows\.0\.n"):
        sim.change(quotas={"docai": {"windows": [{"n": -1, "per_s": 60}]}})
    assert clients.http.get("/simulate", headers={"origin": "http://evil.example"}).status_code == 403
    assert clients.http.get("/elsewhere").status_code == 404
    assert sim.calls() == []


def test_a_reset_forgets_calls_and_brings_the_settings_back(clients: Clients, sim: Simulated) -> None:
    sim.change(scale=3, quotas={"openai": {"month": {"n": 1}}})
    clients.chat()
    sim.reset()
    assert (sim.calls(), sim.verdict()["quotas"]) == ([], {})
    assert clients.http.get("/simulate/settings").json()["scale"] == 1


def test_a_client_that_goes_while_it_sends_is_recorded(clients: Clients, sim: Simulated) -> None:
    host, _, port = sim.base.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as line:
        head = (f"POST {CHAT} HTTP/1.1", "host: x", "authorization: Bearer token", "content-length: 999", "", '{"half')
        line.sendall("\r\n".join(head).encode())
        while not sim.calls():
            pass
    while sim.calls()[0]["ended"] is None:
        pass
    assert (sim.calls()[0]["gone"], sim.calls()[0]["status"]) == (True, None)
    assert clients.chat(chat()).status_code == 200


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), min_size=1), st.integers(1, 15))
def test_the_worst_window_is_the_worst_of_all_windows(entries: list[tuple[int, int]], per_s: int) -> None:
    slow = max(sum(units for at, units in entries if first <= at < first + per_s) for first, _ in entries)
    assert worst_sliding([(float(at), units) for at, units in entries], float(per_s)) == slow


@given(st.integers(0, 10_000))
def test_the_peak_is_the_most_at_any_arrival(start: int) -> None:
    chance = Random(start)
    calls = []
    for number in range(chance.randint(1, 30)):
        arrived = chance.randint(0, 30)
        calls.append(Call(number, "x", float(arrived), float(arrived + chance.randint(1, 9))))
    slow = max(sum(each.arrived <= call.arrived < (each.ended or 0) for each in calls) for call in calls)
    assert peak(calls) == slow
