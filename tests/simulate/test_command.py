from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from forebay.cli import main
from forebay.errors import BadInput, NotFound
from forebay.simulate import settings, spelled
from forebay.testing import Simulated, simulator
from tests.simulate.ground import BEARER, CHAT, chat

COMMAND = [sys.executable, "-m", "forebay", "simulate", "--port", "0"]
SCENARIO = """
scale = 0.5
random = 7

[quotas.docai]
in_flight = 5
windows = [{ n = 120, per_s = 60 }, { n = 600, per_s = 60, unit = "pages", edge = "fixed" }]

[latency."adobe.job"]
kind = "lognormal"
s = 8
sigma = 0.4

[[faults]]
route = "docai"
fault = "429 form=date"
calls = [3, 5]
"""


@pytest.mark.slow
def test_it_tells_where_it_is_and_ends_with_its_verdict() -> None:
    options = ["--quota", "openai=1,10/60", "--latency", "openai=0.01"]
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        head = [process.stdout.readline() for _ in range(8)]
        base = head[0].split()[-1]
        assert f"export OPENAI_BASE_URL={base}/v1\n" in head
        httpx2.post(f"{base}{CHAT}", json=chat(), headers=BEARER, trust_env=False).raise_for_status()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 0
    assert "calls:        1" in rest
    assert "openai  calls in any 60 s  10     1     ok" in rest


@pytest.mark.slow
def test_it_ends_on_sigterm_while_a_call_hangs() -> None:
    with subprocess.Popen([*COMMAND, "-o", "json"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        base = json.loads(process.stdout.readline())["base"]
        httpx2.post(f"{base}{CHAT}", json=chat(), headers=BEARER, timeout=60, trust_env=False).raise_for_status()
        with pytest.raises(httpx2.TransportError):
            httpx2.post(
                f"{base}{CHAT}", json=chat(), headers=BEARER | {"x-simulate": "hang s=60"}, timeout=1, trust_env=False
            )
        process.terminate()
        assert json.loads(process.stdout.read())["calls"] == 2
        assert process.wait(50) == 0


@pytest.mark.slow
def test_a_file_and_options_make_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO)
    with simulator("--scenario", str(file), "--fault", "openai@0.5=500", "--sticky") as sim:
        found = sim.change()
    assert (found["scale"], found["random"], found["sticky"]) == (0.5, 7, True)
    assert found["quotas"]["docai"]["windows"][1] == {"n": 600, "per_s": 60, "unit": "pages", "edge": "fixed"}
    assert [rule["fault"] for rule in found["faults"]] == ["429 form=date", "500"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--quota", "docai=many"], "is not a quota"),
        (["--quota", "nobody=5"], "neither an API nor a route"),
        (["--latency", "docai=fast"], "is not a latency"),
        (["--fault", "docai"], "is not a fault of a route"),
        (["--fault", "docai=explode"], "is not a fault"),
        (["--scenario", "/nowhere.toml"], "No such file"),
        (["--port", "70000"], "port is 70000"),
    ],
)
def test_what_it_cannot_read_it_refuses_with_one_line(
    capsys: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    assert main(["simulate", *options]) in (2, 4)
    said = capsys.readouterr().err
    assert complaint in said
    assert len(said.splitlines()) == 1


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(sim: Simulated, capsys: pytest.CaptureFixture[str]) -> None:
    port = sim.base.rpartition(":")[2]
    assert main(["simulate", "--port", port]) == 5
    assert f"Port {port}" in capsys.readouterr().err


def test_quotas_in_a_word() -> None:
    assert spelled.quotas(["adobe=150,190/60,3/1.5@fixed,500/month:transactions"]) == {
        "adobe": {
            "in_flight": 150,
            "windows": [{"n": "190", "per_s": "60"}, {"n": "3", "per_s": "1.5", "edge": "fixed"}],
            "month": {"n": "500", "unit": "transactions"},
        }
    }


def test_latencies_and_faults_in_a_word() -> None:
    assert spelled.latencies(["0.5", "docai=0.2..1.5", "adobe.job=lognormal:8,0.4"]) == {
        "*": {"s": 0.5},
        "docai": {"kind": "uniform", "s": 0.2, "most_s": 1.5},
        "adobe.job": {"kind": "lognormal", "s": 8.0, "sigma": 0.4},
    }
    assert spelled.faults(["docai#2,3=429 form=date", "adobe.status@0.1=401"]) == [
        {"fault": "429 form=date", "calls": [2, 3], "route": "docai"},
        {"fault": "401", "share": 0.1, "route": "adobe.status"},
    ]


def test_a_file_that_is_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        settings.read(tmp_path / "none.toml")
    file = tmp_path / "bad.toml"
    file.write_text("scale = ")
    with pytest.raises(BadInput, match="is not TOML"):
        settings.read(file)
    with pytest.raises(BadInput, match=r"the file: quotas\.docai\.color"):
        settings.changed(settings.Settings(), {"quotas": {"docai": {"color": 1}}}, where="the file")
