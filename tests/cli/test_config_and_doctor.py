from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forebay.blobs import Blobs
from forebay.cli.checkup import EXTRAS, findings
from forebay.cli.options import Common
from forebay.testing.workers import lone
from tests.cli.ground import Answer, Ground
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_bucket, fresh_schema
from tests.servers.server import Server
from tests.stores.test_blobs import use_s3


def test_config_shows_who_set_what_and_no_secret(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_LEASE_S", "20")
    monkeypatch.setenv("FOREBAY_TYPO", "1")
    answer = here.ok("config", "show", "--ledger", "postgresql://ann:hush@db/forebay")
    assert ["lease_s", "20", "environment", "FOREBAY_LEASE_S"] in [line.split() for line in answer.lines]
    assert "hush" not in answer.out
    assert "FOREBAY_TYPO is not a setting." in answer.err
    found = {each["name"]: each for each in here.ok("config", "show", "-o", "json").json}
    assert found["concurrency"]["source"] == "default"


def test_doctor_is_content_with_a_sound_installation(here: Ground) -> None:
    here.submit(lone())
    found = here.ok("doctor", "-o", "json").json
    assert {each["verdict"] for each in found} <= {"ok", "warn"}
    names = {each["name"] for each in found}
    assert {"sqlite", "ledger", "blobs", "disk", "clock", "files", "children", "sandbox"} < names
    assert {f"extra {name}" for name in EXTRAS} < names


def test_doctor_tells_how_far_parsers_are_shut_off(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_PARSER_MEMORY_MB", "1536")
    monkeypatch.setenv("FOREBAY_PARSER_CPU_S", "7.5")
    found = next(each for each in here.ok("doctor", "-o", "json").json if each["name"] == "sandbox")
    assert found["verdict"] == "ok"
    assert found["text"].startswith("seccomp+landlock (ABI ")
    assert found["text"].endswith("), 1.5 GiB, 7.5 s CPU")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "verdict", "says"),
    [
        ("seccomp.deny(['landlock_create_ruleset'])", "warn", "seccomp, 1 GiB, 20 s CPU; missing landlock: "),
        ("seccomp.deny(['landlock_restrict_self'])", "fail", "The sandbox of a parser could not be set up"),
    ],
)
def test_doctor_tells_what_the_sandbox_lacks(rules: str, verdict: str, says: str, tmp_path: Path) -> None:
    code = (
        f"import runpy; from forebay.child import seccomp; seccomp.install({rules}); "
        "runpy.run_module('forebay', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "FOREBAY_HOME": str(tmp_path)},
    )
    found = next(each for each in json.loads(done.stdout) if each["name"] == "sandbox")
    assert found["verdict"] == verdict
    assert found["text"].startswith(says)
    assert found["remedy"]


def test_doctor_creates_nothing(here: Ground) -> None:
    assert "Run `forebay store init`." in here.ok("doctor").out
    assert not here.home.exists()


def test_doctor_fails_on_a_damaged_ledger(here: Ground) -> None:
    here.home.mkdir()
    here.ledger.write_bytes(b"no database, but long enough to be taken for one" * 100)
    answer = here.run("doctor")
    assert answer.code == 1
    assert "fail  ledger" in answer.out


@pytest.mark.parametrize(("name", "address"), [("ledger", "sqlite://["), ("ledger", "odd://x"), ("blobs", "file://[")])
def test_doctor_fails_on_an_address_that_is_none(
    name: str, address: str, here: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"FOREBAY_{name.upper()}", address)
    answer = here.run("doctor")
    assert answer.code == 1
    assert f"fail  {name}" in answer.out


def test_doctor_says_that_settings_are_wrong(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_LEASE_S", "soon")
    answer = here.run("doctor")
    assert answer.code == 1
    assert "fail  settings" in answer.out


def test_doctor_warns_of_variables_that_mean_nothing_and_of_failpoints(
    here: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_TYPO", "1")
    monkeypatch.setenv("FOREBAY_CHILD", "1")
    monkeypatch.setenv("FOREBAY_FAILPOINTS", "claimed=delay@0.1")
    texts = [each.text for each in findings(Common()) if each.verdict == "warn"]
    assert "FOREBAY_TYPO is not a setting" in texts
    assert any(text.startswith("FOREBAY_FAILPOINTS is set") for text in texts)
    assert not any("FOREBAY_CHILD" in text for text in texts)


def test_doctor_distrusts_an_old_sqlite_and_a_clock_that_lags(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    here.submit(lone())
    monkeypatch.setattr("apsw.sqlite_lib_version", lambda: "3.40.0")
    monkeypatch.setattr("forebay.cli.checkup.time.time", lambda: 1.0)
    failed = {each.name for each in findings(Common()) if each.verdict == "fail"}
    assert {"sqlite", "clock"} <= failed


@pytest.mark.parametrize(
    ("soft", "hard", "verdict"),
    [(256, 512, "warn"), (256, 4096, "ok"), (256, resource.RLIM_INFINITY, "ok")],
)
def test_doctor_warns_of_a_hard_limit_of_few_files(
    here: Ground, monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, verdict: str
) -> None:
    here.submit(lone())
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    (found,) = [each for each in findings(Common()) if each.name == "files"]
    assert found.verdict == verdict
    assert "256 open files" in found.text
    assert ("LimitNOFILE" in found.remedy) is (verdict == "warn")


def lines_of(answer: Answer, name: str) -> list[tuple[str, str]]:
    return [(each["verdict"], each["text"]) for each in answer.json if each["name"] == name]


@pytest.mark.parametrize("address", ["redis://127.0.0.1:1/0", "postgresql://forebay@127.0.0.1:1/none"])
def test_doctor_fails_on_a_limit_store_that_does_not_answer(
    here: Ground, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("FOREBAY_LIMITS", address)
    answer = here.run("doctor", "-o", "json")
    ((verdict, text),) = lines_of(answer, "limits")
    assert (answer.code, verdict) == (1, "fail")
    assert "127.0.0.1:1" in text


def test_doctor_looks_at_a_redis_and_its_clock(
    here: Ground, monkeypatch: pytest.MonkeyPatch, valkey_server: Server
) -> None:
    monkeypatch.setenv("FOREBAY_LIMITS", valkey_server.url)
    answer = here.run("doctor", "-o", "json")
    ((verdict, text),) = lines_of(answer, "limits")
    assert verdict == "ok"
    assert re.search(r"(Valkey|Redis) \d.*answers in \d+\.\d ms", text)
    offsets = [each for each in lines_of(answer, "clock") if "limits server" in each[1]]
    assert [verdict for verdict, _ in offsets] == ["ok"]


@pytest.mark.parametrize("kind", ["sentinels", "cluster"])
def test_doctor_looks_at_the_servers_of_sentinels_and_clusters(
    here: Ground, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, kind: str
) -> None:
    monkeypatch.setenv("FOREBAY_LIMITS", request.getfixturevalue(kind).url)
    answer = here.run("doctor", "-o", "json")
    ((verdict, text),) = lines_of(answer, "limits")
    assert verdict == "ok"
    assert "Valkey" in text


def test_doctor_warns_of_a_redis_that_evicts(
    here: Ground, monkeypatch: pytest.MonkeyPatch, valkey_server: Server
) -> None:
    monkeypatch.setenv("FOREBAY_LIMITS", valkey_server.url)
    with redis_client(valkey_server.url) as client:
        usual = client.config_get("maxmemory-policy")["maxmemory-policy"]
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            answer = here.run("doctor", "-o", "json")
        finally:
            client.config_set("maxmemory-policy", usual)
    found = [each for each in answer.json if each["name"] == "limits" and each["verdict"] == "warn"]
    assert [each["remedy"] for each in found] == ["Set maxmemory-policy to noeviction."]


@pytest.mark.slow
def test_doctor_tells_how_far_the_clock_of_the_ledger_is_off(
    here: Ground, monkeypatch: pytest.MonkeyPatch, postgres_server: Server
) -> None:
    with fresh_schema(postgres_server) as address:
        monkeypatch.setenv("FOREBAY_LEDGER", address)
        monkeypatch.setenv("FOREBAY_LIMITS", f"sqlite:///{here.home / 'limits.db'}")
        answer = here.run("doctor", "-o", "json")
        real = time.time
        monkeypatch.setattr("forebay.cli.checkup_stores.time.time", lambda: real() - 100)
        late = here.run("doctor", "-o", "json")
    assert [verdict for verdict, text in lines_of(answer, "clock") if "ledger server" in text] == ["ok"]
    (found,) = (each for each in lines_of(late, "clock") if "ledger server" in each[1])
    assert found[0] == "warn"
    assert re.search(r"is (99|100)\.\d+ s ahead of", found[1])


@pytest.mark.slow
def test_doctor_writes_nothing_into_a_bucket(
    here: Ground, monkeypatch: pytest.MonkeyPatch, seaweedfs_server: Server
) -> None:
    with fresh_bucket(seaweedfs_server) as bucket:
        use_s3(monkeypatch, seaweedfs_server)
        monkeypatch.setenv("FOREBAY_BLOBS", f"s3://{bucket}/blobs")
        puts: list[object] = []
        monkeypatch.setattr(Blobs, "put", lambda *given: puts.append(given))
        answer = here.run("doctor", "-o", "json")
    ((verdict, text),) = lines_of(answer, "blobs")
    assert (verdict, puts) == ("ok", []), text


@pytest.mark.parametrize("command", [("limits", "list"), ("doctor",), ("list",)])
def test_a_number_of_a_limit_that_cannot_be_read_is_said(
    command: tuple[str, ...], here: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_LIMIT_ADOBE_IN_FLIGHT", "abc")
    answer = here.run(*command)
    assert answer.code in {1, 2}
    assert "FOREBAY_LIMIT_ADOBE_IN_FLIGHT" in answer.out + answer.err
