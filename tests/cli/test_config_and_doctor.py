from __future__ import annotations

import pytest

from forebay.cli.checkup import EXTRAS, findings
from forebay.cli.options import Common
from forebay.testing.workers import lone
from tests.cli.ground import Ground


def test_config_shows_who_set_what_and_no_secret(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_LEASE_S", "20")
    monkeypatch.setenv("FOREBAY_TYPO", "1")
    answer = here.ok("config", "show", "--ledger", "postgresql://ann:hush@db/forebay")
    assert ["lease_s", "20", "environment", "FOREBAY_LEASE_S"] in [line.split() for line in answer.lines]
    assert "hush" not in answer.out
    assert "FOREBAY_TYPO is no setting." in answer.err
    found = {each["name"]: each for each in here.ok("config", "show", "-o", "json").json}
    assert found["concurrency"]["source"] == "default"


def test_doctor_is_content_with_a_sound_installation(here: Ground) -> None:
    here.submit(lone())
    found = here.ok("doctor", "-o", "json").json
    assert {each["verdict"] for each in found} <= {"ok", "warn"}
    names = {each["name"] for each in found}
    assert {"sqlite", "ledger", "blobs", "disk", "clock", "children"} < names
    assert {f"extra {name}" for name in EXTRAS} < names


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
    assert "FOREBAY_TYPO is no setting" in texts
    assert any(text.startswith("FOREBAY_FAILPOINTS is set") for text in texts)
    assert not any("FOREBAY_CHILD" in text for text in texts)


def test_doctor_distrusts_an_old_sqlite_and_a_clock_that_lags(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    here.submit(lone())
    monkeypatch.setattr("apsw.sqlite_lib_version", lambda: "3.40.0")
    monkeypatch.setattr("forebay.cli.checkup.time.time", lambda: 1.0)
    failed = {each.name for each in findings(Common()) if each.verdict == "fail"}
    assert {"sqlite", "clock"} <= failed
