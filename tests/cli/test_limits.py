from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.cli import reading
from forebay.cli.limit_views import state
from forebay.cli.opening import who
from forebay.errors import BadInput
from forebay.limits import Limit, Limiter, Window
from forebay.testing.workers import lone
from tests.cli.ground import Ground
from tests.limits.ground import until
from tests.servers.fresh import fresh_name, fresh_schema
from tests.servers.server import Server


@contextmanager
def limiter(here: Ground) -> Iterator[Limiter]:
    """As a program has it that shares the store."""
    with Limiter(f"sqlite:///{here.home / 'forebay.db-limits.db'}") as made:
        yield made


def shown(here: Ground, name: str = "adobe") -> dict[str, str]:
    """Lines of `limits show` by what they begin with."""
    lines = here.ok("limits", "show", name).lines
    pairs = [line.partition(":") for line in lines[: lines.index("")]]
    return {key: value.strip() for key, _, value in pairs}


def source(here: Ground, field: str) -> str:
    """What `limits show` says of a field: its value and its layer."""
    found = next(line for line in here.ok("limits", "show", "adobe").lines if line.startswith(f"{field} "))
    return " ".join(found.split()[1:])


def test_set_defines_a_limit_and_show_names_the_layer_of_each_field(here: Ground) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "150", "--window", "190/60", "--window", "40000/60:tokens")
    assert source(here, "in_flight").startswith("150 operator by cli:")
    assert source(here, "windows").startswith("190 calls per 60 s, 40000 tokens per 60 s operator")
    assert source(here, "lease_s") == "15 default"
    found = shown(here)
    assert found["state"] == "open"
    assert found["in flight"] == "0/150 (0%), 150 free"
    assert found["next call"] == "a new caller may start now"


def test_what_is_done_to_a_limit_is_in_the_audit_trail_of_the_ledger(here: Ground) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "3")
    assert not here.ledger.exists()  # limits are used without a ledger as well
    here.ok("store", "init")
    here.ok("limits", "set", "adobe", "--in-flight", "2", "--for", "10m", "--note", "contract")
    here.ok("limits", "pause", "adobe", "--note", "maintenance")
    assert here.ok("limits", "show", "adobe", "-o", "json").json["paused_by"].startswith("cli:")
    here.ok("limits", "resume", "adobe")
    here.ok("limits", "clear", "adobe")
    here.ok("limits", "reset", "adobe")
    with here.app() as app:
        lines = [line for line in app.ledger.audit() if line.verb.endswith("_limit")][::-1]
    assert [(line.verb, line.note) for line in lines] == [
        ("set_limit", "in_flight=2, for 600 s; contract"),
        ("pause_limit", "maintenance"),
        ("resume_limit", ""),
        ("clear_limit", "layer override"),
        ("reset_limit", ""),
    ]
    assert all(line.who.startswith("cli") and line.targets == ("adobe",) for line in lines)


def test_set_keeps_what_was_set_before(here: Ground) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "150")
    here.ok("limits", "set", "adobe", "--call-timeout", "2m", "--cooldown", "1,2", "--when-store-down", "fail")
    limit = here.ok("limits", "show", "adobe", "-o", "json").json["limit"]
    assert (limit["in_flight"], limit["call_timeout_s"], limit["cooldown_s"]) == (150, 120, [1, 2])
    assert limit["when_store_down"] == "fail"


def test_an_override_ends_by_itself_and_is_shown_with_its_end(here: Ground) -> None:
    with limiter(here) as code:
        code.define(Limit("adobe", in_flight=9))
    here.ok("limits", "set", "adobe", "--in-flight", "5", "--for", "2h", "--note", "they are slow")
    assert source(here, "in_flight").startswith("5 override until 2")
    assert "they are slow" in source(here, "in_flight")
    set_below = here.ok("limits", "set", "adobe", "--in-flight", "7")
    assert "The layer override stands above it for another 1 h: in_flight." in set_below.err
    assert "9 in flight" not in here.ok("limits", "clear", "adobe").out
    assert source(here, "in_flight").startswith("7 operator")
    assert here.ok("limits", "clear", "adobe", "--layer", "operator").out == "adobe  9 in flight  open\n"
    assert source(here, "in_flight").startswith("9 code by ")
    assert "has no layer override" in here.ok("limits", "clear", "adobe").err


def test_none_lifts_a_bound(here: Ground) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "5", "--window", "190/60")
    assert here.ok("limits", "set", "adobe", "--in-flight", "none").out == "adobe  190 calls per 60 s  open\n"
    assert here.run("limits", "set", "adobe", "--window", "none").code == 2  # nothing would be bounded


def test_a_preset_is_used_by_name_and_may_be_changed_at_once(here: Ground) -> None:
    answer = here.ok("limits", "set", "pdf", "--preset", "adobe-conservative", "--in-flight", "50")
    assert answer.out == "pdf  50 in flight, 150 calls per 60 s  open\n"
    assert here.run("limits", "set", "pdf", "--preset", "adoby").code == 4


def test_zero_pauses_and_a_resume_says_that_it_does_not_help(here: Ground) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "0")
    assert shown(here)["state"] == "paused: a bound is 0"
    resumed = here.run("limits", "resume", "adobe")
    assert resumed.code == 1
    assert "a bound of adobe is 0" in resumed.err


def test_a_limit_is_paused_with_a_note_and_resumed(here: Ground) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "5")
    here.ok("limits", "pause", "adobe", "--for", "90m", "--note", "they are down")
    assert shown(here)["state"] == f"paused by {who()} for another 1 h: they are down"
    assert shown(here)["next call"] == "a new caller may start in about 1 h, after all who wait"
    with limiter(here) as code:
        assert code.try_slot("adobe") is None
    here.ok("limits", "pause", "adobe")
    assert shown(here)["next call"] == "nobody can say when"
    here.ok("limits", "resume", "adobe")
    assert shown(here)["state"] == "open"


def test_show_says_who_holds_what_and_who_waits(here: Ground) -> None:
    with limiter(here) as code:
        code.define(Limit("adobe", in_flight=1, windows=(Window(190, 60),)))
        with code.slot("adobe", label="scan-17.pdf"):
            waiter = threading.Thread(target=lambda: code.slot("adobe", timeout_s=2).__enter__().release())
            waiter.start()
            while not code.usage("adobe").waiting:
                pass
            found, whole = shown(here), here.ok("limits", "show", "adobe").out
            listed = here.ok("limits", "list").lines
        waiter.join()
    assert found["in flight"] == "1/1 (100%), 0 free"
    assert found["window"].startswith("1/190 calls per 60 s (1%), 189 free, has room now")
    assert (found["state"], found["waiting"]) == ("full: waits for a call to end", "1, in 1 processes")
    assert "scan-17.pdf (" in whole
    assert listed[1].split()[:2] == ["adobe", "full:"]


def test_those_who_are_about_to_be_served_wait_for_nothing() -> None:
    with Limiter("memory://") as made:
        made.define(Limit("x", in_flight=5))
        usage = made.usage("x")
    assert state(usage) == "open"
    assert state(replace(usage, blocked_by=("in_flight",))) == "open: those in line are about to be served"
    assert state(replace(usage, free=0, blocked_by=("in_flight",))) == "full: waits for a call to end"
    assert state(replace(usage, blocked_by=("calls/60000",))) == "full: waits for a window"


def test_a_cool_down_is_shown_until_somebody_ends_it(here: Ground) -> None:
    with limiter(here) as code:
        code.define(Limit("adobe", in_flight=5))
        with code.slot("adobe") as slot:
            slot.throttled(retry_after_s=300)
        assert code.try_slot("adobe") is None
    assert shown(here)["state"].startswith("cools down for another ")
    assert shown(here)["cool-down"].startswith("cooldown, ends in ")
    assert "(level 1)" in shown(here)["cool-down"]
    here.ok("limits", "resume", "adobe")
    assert shown(here)["cool-down"] == "none"


def test_the_mean_call_time_tells_which_bound_binds(here: Ground) -> None:
    with limiter(here) as code:
        code.define(Limit("adobe", in_flight=5, windows=(Window(190, 60),)))
        assert shown(here)["call time"] == "not known yet"
        with code.slot("adobe"):
            threading.Event().wait(0.05)
    assert "190 calls per 60 s binds, at 189 calls a minute" in shown(here)["call time"]


def test_reset_forgets_only_what_ended_unless_all_is_said(here: Ground) -> None:
    with limiter(here) as code:
        code.define(Limit("adobe", in_flight=5))
        slot = code.try_slot("adobe")
        assert here.ok("limits", "reset", "adobe").out == "adobe  0 calls forgotten, 1 in flight\n"
        refused = here.run("limits", "reset", "adobe", "--all")
        assert (refused.code, "forgets 1 running calls of adobe" in refused.err) == (2, True)
        answer = here.ok("limits", "reset", "adobe", "--all", "--yes", "-o", "json").json
        assert answer == {"limit": "adobe", "forgotten_count": 1, "in_flight": 0}
        assert slot is not None
        slot.release()


def test_lists_and_json_have_every_limit_whole(here: Ground) -> None:
    here.ok("limits", "set", "b", "--in-flight", "1")
    here.ok("limits", "set", "a", "--window", "5/1")
    rows = here.ok("limits", "list").lines
    assert [row.split()[0] for row in rows] == ["LIMIT", "a", "b"]
    assert "0/5 calls per 1 s" in rows[1]
    assert [each["name"] for each in here.ok("limits", "list", "-o", "json").json] == ["a", "b"]
    lines = [json.loads(line) for line in here.ok("limits", "list", "-o", "ndjson").lines]
    assert lines[0]["windows"][0] == {
        "unit": "calls",
        "per_s": 1.0,
        "n": 5,
        "used": 0,
        "free": 5,
        "next_in_s": 0.0,
        "counted_s": 1.301,
        "utilisation": 0.0,
    }
    assert lines[1]["layers"][0]["name"] == "operator"


def test_presets_are_listed_with_their_source(here: Ground) -> None:
    out = here.ok("limits", "presets").out
    assert "preset:  adobe-published-free" in out
    assert "bounds:  25 calls per 60 s" in out
    found = here.ok("limits", "presets", "-o", "json").json
    assert [each["name"] for each in found][:2] == ["docai", "adobe"]
    assert found[1]["values"] == {"in_flight": 150, "windows": [[190, 60.0, "calls"]]}
    assert not here.home.exists()


def test_a_store_is_chosen_by_flag_variable_or_ledger(here: Ground, tmp_path: Path) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "1", "--limits", "sqlite:///other.db")
    assert (tmp_path / "other.db").exists()
    here.ok("--limits", "sqlite:///other.db", "limits", "show", "adobe")
    here.ok("limits", "set", "adobe", "--in-flight", "2", "--ledger", "sqlite:///led.db")
    assert (tmp_path / "led.db-limits.db").exists()
    assert not (tmp_path / "led.db").exists()


@pytest.mark.parametrize("command", ["show adobe", "pause adobe", "resume adobe", "clear adobe", "reset adobe"])
def test_a_store_that_is_not_there_yet_exits_5_and_is_not_made(here: Ground, command: str) -> None:
    answer = here.run("limits", *command.split())
    assert (answer.code, "There is no limit store at" in answer.err) == (5, True)
    assert not here.home.exists()


@pytest.fixture(params=["sqlite beside the ledger", "sqlite", "postgresql", "redis"])
def empty_store(
    postgres_server: Server, valkey_server: Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """Yield the options that name a limit store in which nothing was ever defined."""
    monkeypatch.setenv("FOREBAY_ENV", fresh_name())
    with fresh_schema(postgres_server) as schema:
        addresses = {"sqlite": "sqlite:///limits.db", "postgresql": schema, "redis": valkey_server.url}
        yield ["--limits", addresses[request.param]] if request.param in addresses else []


def test_list_says_that_there_are_none_before_a_store_exists_and_makes_none(
    here: Ground, tmp_path: Path, empty_store: list[str]
) -> None:
    answer = here.ok("limits", "list", *empty_store)
    assert (answer.out, answer.err) == ("", "There are none.\n")
    assert here.ok("limits", "list", *empty_store, "-o", "json").json == []
    assert not here.home.exists()
    assert not (tmp_path / "limits.db").exists()


def test_list_exits_5_if_the_store_cannot_be_reached(here: Ground, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    folders = ("missing", "file", "loop")
    for address in (*(f"sqlite:///{each}/limits.db" for each in folders), "redis://127.0.0.1:1/0"):
        answer = here.run("limits", "list", "--limits", address)
        assert (answer.code, answer.out) == (5, ""), answer
    assert not (tmp_path / "missing").exists()


def test_limits_in_memory_are_refused(here: Ground) -> None:
    answer = here.run("limits", "set", "adobe", "--in-flight", "1", "--limits", "memory://")
    assert (answer.code, "one process" in answer.err) == (2, True)


@pytest.mark.parametrize("command", ["show", "pause", "resume", "clear", "reset"])
def test_an_unknown_limit_exits_4_with_those_that_are_known(here: Ground, command: str) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "1")
    answer = here.run("limits", command, "adoby")
    assert (answer.code, "Known limits: adobe." in answer.err) == (4, True)


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--in-flight", "many"],
        ["--in-flight", "-1"],
        ["--window", "190"],
        ["--window", "190/60", "--window", "180/60"],
        ["--in-flight", "1", "--for", "later"],
        ["--in-flight", "1", "--for", "0"],
        ["--in-flight", "1", "--note", "two\nlines"],
        ["--in-flight", "1", "--lease", "3", "--heartbeat", "2"],
        ["--call-timeout", "60"],
        ["--in-flight", "1", "--when-store-down", "pray"],
    ],
)
def test_wrong_usage_exits_2_and_changes_nothing(here: Ground, options: list[str]) -> None:
    answer = here.run("limits", "set", "adobe", *options)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    here.ok("limits", "set", "other", "--in-flight", "1")
    assert here.run("limits", "show", "adobe").code == 4


def test_the_last_layer_of_a_limit_cannot_be_cleared(here: Ground) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "1")
    answer = here.run("limits", "clear", "adobe", "--layer", "operator")
    assert (answer.code, "Nothing else defines limit 'adobe'." in answer.err) == (2, True)


def test_config_show_lists_the_store_without_its_password(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_LIMITS", "redis://ada:canary@host:6379/0")
    out = here.ok("config", "show").out
    assert "redis://***@host:6379/0" in out
    assert "canary" not in out


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("90s", 90),
        ("500ms", 0.5),
        ("30m", 1800),
        ("5min", 300),
        ("2h", 7200),
        (" 2H ", 7200),
        ("1d", 86_400),
        ("1h30m", 5400),
    ],
)
def test_a_duration_is_seconds_or_has_units(text: str, seconds: float) -> None:
    assert reading.duration("--for", text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "h", "-5", "1w", "1h30", "2 h", "1e3", "nan", "inf", "9" * 400, "999999999999d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--for"):
        reading.duration("--for", text)


def test_calls_that_were_cut_off_are_shown_apart(here: Ground) -> None:
    with limiter(here) as code:
        code.define(Limit("adobe", in_flight=5))
        held = code.slot("adobe").take()
        for page in range(3):
            with pytest.raises(TimeoutError), code.slot("adobe", label=f"page {page}"):
                raise TimeoutError
        code.flush()
        answer = here.ok("limits", "show", "adobe")
        found = shown(here)
        held.release()
    assert found["in flight"] == "4/5 (80%), 1 free"
    assert found["cut off"] == "3 of 5 held by calls that were cut off: see on_disconnect, call_timeout_s"
    assert any("(cut off)" in line and "page 0" in line for line in answer.lines)


KEY_COLUMNS = ["KEY", "CALLS", "WAITING"]


def test_use_by_key_is_shown_the_busiest_first(here: Ground) -> None:
    with limiter(here) as code:
        code.define(Limit("adobe", in_flight=3))
        held = [code.slot("adobe", key=key).take() for key in ("tenant-a", "tenant-b", "tenant-b")]
        waiting = threading.Thread(target=lambda: code.slot("adobe", key="tenant-c").take().release())
        waiting.start()
        until(lambda: code.usage("adobe").waiting == 1)
        lines = here.ok("limits", "show", "adobe").lines
        found = here.ok("limits", "show", "adobe", "-o", "json").json["keys"]
        for each in held:
            each.release()
        waiting.join(20)
    assert found == [
        {"key": "tenant-b", "in_flight": 2, "waiting": 0},
        {"key": "tenant-a", "in_flight": 1, "waiting": 0},
        {"key": "tenant-c", "in_flight": 0, "waiting": 1},
    ]
    at = next(index for index, line in enumerate(lines) if line.split() == KEY_COLUMNS)
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        ["tenant-b", "2", "0"],
        ["tenant-a", "1", "0"],
        ["tenant-c", "0", "1"],
    ]


def test_without_keys_there_is_no_table_of_keys(here: Ground) -> None:
    with limiter(here) as code:
        code.define(Limit("adobe", in_flight=3))
        with code.slot("adobe"):
            assert ["key", "calls", "waiting"] not in [
                line.split() for line in here.ok("limits", "show", "adobe").lines
            ]


def test_calls_of_processes_that_have_ended_are_counted_in_the_head(here: Ground) -> None:
    with limiter(here) as code:
        code.define(Limit("adobe", in_flight=5, lease_s=0.3, heartbeat_s=0.1))
        assert "left behind" not in shown(here)
        held = code.slot("adobe").take()
        code._pump.stop()  # as if it were killed
        until(lambda: not any(each.alive for each in code.usage("adobe").holders))
        assert shown(here)["left behind"].startswith("1 by processes that have ended")
        assert held.held


def test_why_names_who_paused_the_limit(here: Ground) -> None:
    here.ok("limits", "set", "adobe", "--in-flight", "5")
    here.ok("limits", "pause", "adobe", "--note", "they are down")
    (identifier,) = here.submit(lone(limit="adobe"))
    first = here.ok("why", identifier).lines[0]
    assert "limit 'adobe' is paused (they are down): `forebay limits resume adobe`" in first
    assert first.endswith(f", paused by {who()}")
