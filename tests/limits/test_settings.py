"""A limiter without an address uses what the command line uses: its store, its environment and its limits."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from forebay.errors import Busy, NotFound, StoreUnreachable
from forebay.limits import Limit, Limiter, acquire_slot, get_current_usage, plain, release_slot, use
from forebay.observe import subscribe
from forebay.settings import fields
from tests.limits.ground import until
from tests.unit.builders import assert_helpful

HOLD = """
import sys
from forebay.limits import Limiter
limiter = Limiter()
with limiter.slot("adobe"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("FOREBAY_CONFIG", "FOREBAY_LIMITS", "FOREBAY_LEDGER", "FOREBAY_ENV", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_two_processes_without_an_address_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_LIMIT_ADOBE_IN_FLIGHT", "1")
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == b"held\n"
            with Limiter() as limiter, pytest.raises(Busy), limiter.slot("adobe", timeout_s=0.2):
                raise AssertionError("the other process holds 1 of 1")
        finally:
            other.stdin.close()


def test_the_check_catches_two_limiters_that_do_not_share() -> None:
    with Limiter("memory://") as one, Limiter("memory://") as other:
        for limiter in (one, other):
            limiter.define(Limit("adobe", in_flight=1))
        with one.slot("adobe"), other.slot("adobe", timeout_s=0.2):
            pass


def test_what_the_command_line_sets_is_known_to_it(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "forebay", "limits", "set", "adobe", "--in-flight", "3", "-o", "json"],
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["limit"]["in_flight"] == 3
    with Limiter() as limiter:
        assert limiter.usage("adobe").limit.in_flight == 3
    assert list(home.rglob("forebay.db-limits.db")), "beside the ledger"


def test_the_file_names_the_store_the_environment_and_the_limits(home: Path) -> None:
    file = home / "forebay.toml"
    file.write_text('env = "prod"\n[limits]\naddress = "sqlite:///mine.db"\n[limits.adobe]\nin_flight = 4\n')
    with Limiter() as limiter:
        assert limiter.usage("adobe").limit.in_flight == 4
    with Limiter(f"sqlite:///{home}/mine.db", environment="prod") as same:
        assert same.usage("adobe").limit.in_flight == 4
    with Limiter(f"sqlite:///{home}/mine.db") as other, pytest.raises(NotFound):
        other.usage("adobe")


def test_an_event_loop_finds_the_limits_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_LIMIT_ADOBE_IN_FLIGHT", "2")

    async def main() -> None:
        with Limiter() as limiter:
            async with limiter.slot("adobe"):
                assert (await limiter.ausage("adobe")).limit.in_flight == 2

    asyncio.run(main())


def test_a_changed_file_is_noticed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "forebay.limits.follow.FollowedFile.__init__.__kwdefaults__", {"environ": None, "every_s": 0.02}
    )
    file = home / "forebay.toml"
    file.write_text("[limits.adobe]\nin_flight = 4\n")
    with Limiter() as limiter:
        assert limiter.usage("adobe").limit.in_flight == 4
        file.write_text("[limits.adobe]\nin_flight = 5\n# longer\n")
        until(lambda: limiter.usage("adobe").limit.in_flight == 5)


def test_a_limiter_that_nobody_has_any_more_ends_its_threads(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "forebay.limits.follow.FollowedFile.__init__.__kwdefaults__", {"environ": None, "every_s": 0.02}
    )
    (home / "forebay.toml").write_text("[limits.adobe]\nin_flight = 4\n")
    limiter = Limiter()
    limiter.usage("adobe")
    here = weakref.ref(limiter)
    del limiter
    gc.collect()
    assert here() is None
    until(lambda: not any(each.name == "forebay-limits-file" for each in threading.enumerate()))


def test_the_plain_functions_use_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_LIMIT_ADOBE_IN_FLIGHT", "1")
    use(None)
    slot = acquire_slot("adobe")
    try:
        with Limiter() as other, pytest.raises(Busy), other.slot("adobe", timeout_s=0.2):
            pass
        assert get_current_usage("adobe")["max_in_flight"] == 1
    finally:
        release_slot(slot)
        plain._default().close()
        use(None)


@pytest.mark.parametrize("variable", ["RATE_LIMIT_TABLE", "ADOBE_API_MAX_IN_FLIGHT_PARAM", "ADOBE_API_RPM_PARAM"])
def test_a_variable_for_a_store_that_there_is_not_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setattr(fields, "_reported", set())
    monkeypatch.setenv(variable, "x")
    heard: list[object] = []
    end = subscribe(lambda name, told: heard.append(told["variable"]) if name == "variable_ignored" else None)
    for _ in range(2):
        with Limiter() as limiter:
            limiter.names()
    end()
    assert heard == [variable]


def test_importing_limits_loads_no_settings() -> None:
    code = "import sys, forebay.limits.limiter, forebay.limits.plain; sys.exit('forebay.settings' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_folder_that_was_named_and_is_missing_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    with (
        Limiter(f"sqlite:///{tmp_path}/nodir/x.db") as limiter,
        pytest.raises(StoreUnreachable, match="nodir") as caught,
    ):
        limiter.define(Limit("adobe", in_flight=1))
    assert_helpful(caught.value)
    assert not (tmp_path / "nodir").exists()
