from __future__ import annotations

import json
import threading
import time
from email.utils import parsedate_to_datetime

import httpx2
import pytest

from forebay.errors import BadInput
from forebay.simulate.fault import Fault
from forebay.testing import Simulated
from tests.simulate.ground import BEARER, CHAT, Clients, chat, process


def last(sim: Simulated) -> dict[str, object]:
    return sim.calls()[-1]


@pytest.mark.parametrize(
    ("fault", "header", "value"),
    [
        ("429 form=seconds after=12", "retry-after", "12"),
        ("429 form=seconds after=-5", "retry-after", "-5"),
        ("429 form=seconds after=86400", "retry-after", "86400"),
        ("429 form=ms after=0.25", "retry-after-ms", "250"),
        ("429 form=nonsense", "retry-after", "soon"),
        ("429 form=none", "retry-after", None),
    ],
)
def test_a_429_in_every_form(clients: Clients, fault: str, header: str, value: str | None) -> None:
    for send in (clients.docai, clients.chat, clients.azure):
        answer = send(fault=fault)
        assert answer.status_code == 429
        assert answer.headers.get(header) == value


@pytest.mark.parametrize("after", [30, -30])
def test_a_429_with_a_date(clients: Clients, after: int) -> None:
    answer = clients.docai(fault=f"429 form=date after={after}")
    at = parsedate_to_datetime(answer.headers["retry-after"]).timestamp()
    assert at - time.time() == pytest.approx(after, abs=2)


def test_googles_retry_info(clients: Clients) -> None:
    details = clients.docai(fault="429 form=info after=1.5").json()["error"]["details"]
    assert details[1] == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}


@pytest.mark.parametrize("status", ["500", "503", "504"])
def test_errors_of_the_server_are_worded_by_each_api(clients: Clients, status: str) -> None:
    for send in (clients.docai, clients.chat, clients.azure, clients.autotag):
        answer = send(fault=status)
        assert answer.status_code == int(status)
        assert "error" in answer.json()


def test_a_502_is_html(clients: Clients) -> None:
    answer = clients.autotag(fault="502")
    assert (answer.status_code, answer.headers["content-type"]) == (502, "text/html")
    with pytest.raises(json.JSONDecodeError):
        answer.json()


@pytest.mark.slow
def test_a_refused_call_is_neither_admitted_nor_paid(clients: Clients, sim: Simulated) -> None:
    for fault in ("429", "500", "401", "quota"):
        clients.docai(fault=fault)
        assert (last(sim)["admitted"], last(sim)["paid"], last(sim)["fault"]) == (False, False, fault)


@pytest.mark.parametrize("fault", ["truncate", "garbage", "html"])
def test_bodies_that_are_no_answer(clients: Clients, sim: Simulated, fault: str) -> None:
    answer = clients.docai(fault=fault)
    assert answer.status_code == 200
    with pytest.raises(ValueError, match=r"."):
        answer.json()
    assert (last(sim)["paid"], last(sim)["whole"]) == (True, False)


@pytest.mark.slow
def test_an_answer_that_is_small_only_until_it_is_unpacked(clients: Clients) -> None:
    with clients.http.stream("POST", CHAT, json=chat(), headers=BEARER | {"x-simulate": "bomb"}) as answer:
        packed = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
    assert len(packed) < 2_000_000


def test_an_answer_that_sends_elsewhere(clients: Clients) -> None:
    answer = clients.chat(fault="redirect")
    assert (answer.status_code, answer.headers["location"]) == (307, "http://elsewhere.invalid/")


@pytest.mark.parametrize(("fault", "error"), [("cut", httpx2.RemoteProtocolError), ("reset", httpx2.ReadError)])
def test_connections_that_end_in_the_middle(
    clients: Clients, sim: Simulated, fault: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        clients.docai(fault=fault)
    assert (last(sim)["paid"], last(sim)["whole"]) == (True, False)


def test_an_answer_that_drips(clients: Clients, sim: Simulated) -> None:
    began = time.monotonic()
    assert clients.docai(fault="drip s=0.4").json()["document"]["text"]
    assert time.monotonic() - began >= 0.4
    assert last(sim)["whole"]


def test_an_answer_that_never_comes(clients: Clients, sim: Simulated) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        clients.http.post(CHAT, json=chat(), headers=BEARER | {"x-simulate": "hang"}, timeout=0.3)
    call = ended(sim)
    assert call["gone"]
    assert call["paid"]


def ended(sim: Simulated) -> dict[str, object]:
    while sim.calls()[-1]["ended"] is None:
        time.sleep(0.02)
    return sim.calls()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("sticky", [False, True])
def test_work_for_a_client_that_has_gone(clients: Clients, sim: Simulated, *, sticky: bool) -> None:
    sim.change(latency={"openai": {"s": 1.2}}, sticky=sticky)
    with pytest.raises(httpx2.ReadTimeout):
        clients.http.post(CHAT, json=chat(), headers=BEARER, timeout=0.2)
    call = ended(sim)
    assert call["gone"]
    assert (float(str(call["ended"])) - float(str(call["arrived"])) >= 1.2) is sticky
    assert sim.verdict()["routes"]["openai.chat"]["clients_gone"] == 1


def test_a_slow_answer(clients: Clients, sim: Simulated) -> None:
    assert clients.chat(fault="slow s=0.3").status_code == 200
    call = sim.calls()[-1]
    assert call["ended"] - call["arrived"] >= 0.3


def test_a_script_says_which_calls_fail(clients: Clients, sim: Simulated) -> None:
    sim.fault("openai", "500", calls=[2, 4])
    sim.fault("docai", "503", times=1)
    assert [clients.chat().status_code for _ in range(5)] == [200, 500, 200, 500, 200]
    assert [clients.docai().status_code for _ in range(2)] == [503, 200]


@pytest.mark.slow
def test_a_share_of_all_calls_fails_and_the_same_ones_each_time(clients: Clients, sim: Simulated) -> None:
    runs = []
    for _ in range(2):
        sim.reset()
        sim.fault("openai", "500", share=0.3)
        runs.append([clients.chat().status_code for _ in range(100)])
    assert runs[0] == runs[1]
    assert 15 <= runs[0].count(500) <= 45


@pytest.mark.slow
def test_a_fault_lasts_for_its_time(clients: Clients, sim: Simulated) -> None:
    sim.fault("*", "429", for_s=2.0)
    assert clients.chat().status_code == 429
    time.sleep(2.1)
    assert clients.chat().status_code == 200


def test_a_call_may_ask_to_be_spared(clients: Clients, sim: Simulated) -> None:
    sim.fault("openai", "500")
    assert [clients.chat(fault="ok").status_code, clients.chat().status_code] == [200, 500]


def test_a_fault_that_does_not_exist_is_refused(clients: Clients, sim: Simulated) -> None:
    assert "'explode' is not a fault" in clients.chat(fault="explode").json()["error"]["message"]
    with pytest.raises(ValueError, match="is not a fault"):
        sim.fault("openai", "explode")
    with pytest.raises(ValueError, match="neither an API nor a route"):
        sim.fault("nowhere", "500")


@pytest.mark.parametrize("text", ["", "429 form=never", "429 after=x", "hang s=nan", "500 colour=red"])
def test_what_is_no_fault(text: str) -> None:
    with pytest.raises(BadInput):
        Fault.read(text)


@pytest.mark.parametrize("text", ["429", "429 form=date after=-3", "hang s=2.5", "429 form=ms after=0.25"])
def test_a_fault_is_spelled_as_it_was_read(text: str) -> None:
    assert str(Fault.read(text)) == text


def test_a_latency_is_the_least_that_an_answer_takes(clients: Clients, sim: Simulated) -> None:
    sim.change(latency={"docai": {"kind": "uniform", "s": 2, "most_s": 4}, "openai": {"s": 1}}, scale=0.05)
    threads = [threading.Thread(target=clients.at_once, args=([chat()] * 30,)), threading.Thread(target=clients.docai)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lasted = [call["ended"] - call["arrived"] for call in sim.calls("openai.chat")]
    assert len(lasted) == 30
    assert min(lasted) >= 0.05
    (scan,) = sim.calls("docai.process")
    assert scan["ended"] - scan["arrived"] >= 0.1
    assert clients.docai(process(fieldMask="text")).status_code == 200
