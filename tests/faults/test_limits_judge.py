"""The judge of limiters convicts those that are broken, lets an honest one go, and finds every flaw in its records."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaos import checker, journal
from chaos.limits import command, measures, records, seen
from chaos.limits.judge import judge, judge_limit
from chaos.limits.lines import Line, serving
from chaos.limits.records import Call, CoolDown, Mark, Records
from chaos.limits.rules import Rules, Window
from tests.servers.fresh import fresh_prefix
from tests.servers.server import Server

ROOT = Path(__file__).parents[2]
HONEST = ("--adapter", "chaos.limits.coordinator:Coordinated", "--address", "coordinator")
TRIES = 3
CONTROLS = "chaos.limits.controls"
JUDGED = {"many", "moved", "ours", "sabotaged", "wrapped"}
"""Adapters of the limiter on trial."""


def loaded(folder: Path, *arguments: str) -> tuple[Records, Rules, checker.Verdict]:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    options = parser.parse_args(arguments)
    verdict = command.judged(options, folder)
    print(verdict.text())  # noqa: T201 - shown when asked for, and when it fails
    return records.read(folder / "provider.jsonl"), command.rules_of(options), verdict


Sound = tuple[Records, Rules]


def sound(folder: Path, *arguments: str) -> Sound:
    for number in range(TRIES):
        (folder / str(number)).mkdir()
        found, rules, verdict = loaded(folder / str(number), *HONEST, *arguments)
        if verdict.exit_code == checker.OK:
            return found, rules
        # A machine that is too slow to use what is free has shown nothing: once more.
        assert all(text.startswith(("L4 ", "L5 ")) for text in verdict.violations), verdict.text()
    raise AssertionError("the machine was too slow each time: see above")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """Slots that are held, for a provider that works on for the dead."""
    load = ("--processes", "3", "--callers", "3", "--seconds", "2.9", "--in-flight", "3", "--work", "0.1", "--sticky")
    return sound(
        tmp_path_factory.mktemp("killed"), *load, "--kill", "0.8", "--back-within", "1.3", "--least-use", "0.5"
    )


@pytest.fixture(scope="module")
def paced(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A window that is full three times, asked for by tasks of event loops."""
    load = ("--processes", "2", "--callers", "4", "--tasks", "--seconds", "4.8", "--work", "0.02")
    return sound(tmp_path_factory.mktemp("paced"), *load, "--window", "20/2", "--least-rate", "0.95")


@pytest.fixture(scope="module")
def cooled(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A 429 and the ramp after it; with a window, though none that binds, the pause is short of late starts."""
    load = ("--processes", "2", "--callers", "4", "--seconds", "3.8", "--in-flight", "4", "--work", "0.1")
    return sound(tmp_path_factory.mktemp("cooled"), *load, "--refuse", "0.3:1", "--set", "windows=[[10000, 2]]")


def test_an_honest_limiter_is_let_go_when_a_process_is_killed(killed: Sound) -> None:
    found, rules = killed
    assert measures.peak(found.calls).count == rules.in_flight == 3
    assert len(found.marked("kill")) == 1


@pytest.mark.slow
def test_an_honest_limiter_is_let_go_at_its_full_rate(paced: Sound) -> None:
    found, _ = paced
    assert measures.worst_window(found.calls, 2.0).count == 20
    assert len(measures.rate_shares(found.calls, 20, 2.3)) == 2


@pytest.mark.slow
def test_an_honest_limiter_is_let_go_when_it_was_throttled(cooled: Sound) -> None:
    found, _ = cooled
    [(_, ends_at)] = measures.episodes(found.cooldowns)
    steps = measures.ramp(found.calls, ends_at, found.span[1], ceiling=4)
    assert [(step.allowance, step.peak) for step in steps] == [(1, 1), (2, 2)]


@pytest.mark.slow
def test_an_honest_limiter_is_let_go_when_a_process_is_frozen(tmp_path: Path) -> None:
    load = ("--processes", "2", "--callers", "4", "--seconds", "1.6", "--in-flight", "3", "--work", "0.1")
    found, _ = sound(tmp_path, *load, "--stop", "0.4:0.6")
    [stop], [cont] = found.marked("stop"), found.marked("cont")
    frozen = [call for call in found.calls if call.who == stop.who and stop.at + 0.05 < call.arrived_at < cont.at]
    assert not frozen


@pytest.fixture
def shared(valkey_server: Server) -> Iterator[tuple[str, ...]]:
    """Where controls keep their counts."""
    with fresh_prefix(valkey_server) as prefix:
        yield "--address", valkey_server.url, "--set", f'prefix="{prefix}"'


def test_a_semaphore_that_counts_then_adds_is_convicted(shared: tuple[str, ...], tmp_path: Path) -> None:
    load = ("--processes", "2", "--callers", "6", "--seconds", "1", "--in-flight", "5", "--work", "0.1")
    limiter = ("--adapter", f"{CONTROLS}:CountThenAdd", *shared, "--set", "between_s=0.02")
    _, _, verdict = loaded(tmp_path, *limiter, *load)
    assert verdict.exit_code == checker.VIOLATION
    assert any(text.startswith("L1 ") for text in verdict.violations)


def test_a_semaphore_with_one_expiry_for_all_is_convicted(shared: tuple[str, ...], tmp_path: Path) -> None:
    # Of two processes the one that is killed holds more than the other can overrun the limit by.
    load = ("--processes", "2", "--callers", "6", "--seconds", "2.2", "--in-flight", "5", "--work", "0.1")
    faults = ("--kill", "0.8", "--back-within", "1")
    # What the dead held expires with all that others hold, and each of them puts that off: if a busy machine lets them.
    verdicts = []
    for number in range(TRIES):
        (tmp_path / str(number)).mkdir()
        _, _, verdict = loaded(tmp_path / str(number), "--adapter", f"{CONTROLS}:CountThenAdd", *shared, *load, *faults)
        verdicts.append(verdict)
        if any(text.startswith("L4 ") for text in verdict.violations):
            break
    assert verdicts[-1].exit_code == checker.VIOLATION
    assert any(text.startswith("L4 ") for text in verdicts[-1].violations)


@pytest.mark.slow
def test_a_calendar_window_counter_is_convicted(shared: tuple[str, ...], tmp_path: Path) -> None:
    load = ("--processes", "3", "--callers", "4", "--seconds", "1.8", "--in-flight", "8", "--work", "0.1")
    limiter = ("--adapter", f"{CONTROLS}:CalendarWindow", *shared)
    found, _, verdict = loaded(tmp_path, *limiter, *load, "--window", "20/2")
    assert verdict.exit_code == checker.VIOLATION
    assert measures.worst_window(found.calls, 2.0).count >= 36
    assert any(text.startswith("L2 ") for text in verdict.violations)


@pytest.mark.slow
def test_a_count_of_calls_that_nobody_owns_is_convicted(shared: tuple[str, ...], tmp_path: Path) -> None:
    load = ("--processes", "3", "--callers", "4", "--seconds", "2", "--in-flight", "5", "--work", "0.1", "--tasks")
    limiter = ("--adapter", f"{CONTROLS}:CalendarWindow", *shared)
    # A window that is never full: only the count is on trial.
    faults = ("--kill", "0.8", "--back-within", "0.5", "--set", "windows=[[10000, 2]]")
    _, _, verdict = loaded(tmp_path, *limiter, *load, *faults)
    assert [text.partition(" ")[0] for text in verdict.violations] == ["L4"]
    assert "is not back" in verdict.violations[0]


@pytest.mark.slow
def test_a_semaphore_of_each_process_is_convicted_by_the_command(tmp_path: Path) -> None:
    load = ("--processes", "3", "--callers", "4", "--seconds", "0.8", "--in-flight", "2", "--work", "0.1")
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "chaos",
            "limits",
            "--adapter",
            f"{CONTROLS}:OnePerProcess",
            *load,
            "--folder",
            tmp_path,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert run.returncode == checker.VIOLATION, run.stdout + run.stderr
    assert "L1 6 calls in progress" in run.stdout
    assert "again: ./dev chaos limits --adapter chaos.limits.controls:OnePerProcess --processes 3" in run.stdout


def test_a_run_that_reached_no_bound_proves_nothing(killed: Sound) -> None:
    found, _ = killed
    verdict = judge_limit(found, Rules(in_flight=100, windows=(Window(1000, 60.0),), least_rate=0.99, least_stops=1))
    assert verdict.exit_code == checker.VOID
    calls = len(found.calls)
    expected = [
        "calls in progress 3 of 100",
        f"units in 60 s {calls} of 1000",
        "a second window of 60 s",
        "freezes 0 of 1",
    ]
    assert verdict.missing == expected


def test_a_kill_that_cost_nothing_or_came_too_late_proves_nothing(killed: Sound) -> None:
    found, rules = killed
    [kill] = found.marked("kill")

    def missing(other: Mark, within_s: float = 1.3) -> list[str]:
        marks = tuple(mark for mark in found.marks if mark != kill)
        return judge_limit(replace(found, marks=(*marks, other)), replace(rules, back_within_s=within_s)).missing

    assert missing(replace(kill, who="w9")) == ["a call of w9 in progress when it was killed"]
    assert missing(kill, within_s=5.0) == [f"the time that {kill.who}'s capacity has to come back"]
    assert missing(replace(kill, at=0.0)) == [f"all in use before {kill.who} was killed"]


@pytest.mark.slow
def test_a_limiter_that_stays_silent_after_a_cool_down_proves_nothing(cooled: Sound) -> None:
    found, rules = cooled
    silent = replace(found, calls=tuple(call for call in found.calls if call.arrived_at < found.cooldowns[0].ends_at))
    assert judge_limit(silent, rules).missing == ["a call after a cool-down"]


Doctor = Callable[[Records], Records]


def with_calls(found: Records, *more: Call) -> Records:
    return replace(found, calls=tuple(sorted([*found.calls, *more], key=lambda call: call.arrived_at)))


def one_more(at: Callable[[Records], float]) -> Doctor:
    def doctor(found: Records) -> Records:
        arrived_at = at(found)
        return with_calls(
            found, replace(found.calls[0], number=10**6, arrived_at=arrived_at, ended_at=arrived_at + 0.05)
        )

    return doctor


def each(change: Callable[[Records, Call], Call]) -> Doctor:
    return lambda found: with_calls(replace(found, calls=()), *(change(found, call) for call in found.calls))


def moved(call: Call, by_s: float) -> Call:
    return replace(call, arrived_at=call.arrived_at + by_s, ended_at=call.ended_at + by_s)


def an_end_later(found: Records) -> Records:
    """Of a call whose slot was passed on: it ends when all of them are in use again."""
    full = [at for at, level in measures.levels(found.calls) if level == 3][-1]
    passed_on = max((call for call in found.calls if call.ended_at <= full), key=lambda call: call.ended_at)
    return each(lambda _, call: replace(call, ended_at=full + 1e-3) if call is passed_on else call)(found)


def recovery_later(found: Records, call: Call) -> Call:
    [kill] = found.marked("kill")
    return moved(call, 0.7) if call.arrived_at > kill.at else call


def recovery_lacking(found: Records) -> Records:
    [kill] = found.marked("kill")
    kept: list[Call] = []
    for call in found.calls:
        running = sum(other.ended_at > call.arrived_at and other.who != kill.who for other in kept)
        if call.arrived_at < kill.at or running < 2:
            kept.append(call)
    return replace(found, calls=tuple(kept))


def second_window_later(found: Records, call: Call) -> Call:
    return moved(call, 0.4) if call.arrived_at > found.calls[0].arrived_at + 1 else call


DOCTORS: dict[str, tuple[str, Doctor, str]] = {
    "one call more at once": (
        "killed",
        one_more(lambda found: measures.peak(found.calls).at + 1e-6),
        "L1 4 calls in progress",
    ),
    "a call ended later": ("killed", an_end_later, "L1 4 calls in progress"),
    "one arrival more in a window": ("paced", one_more(lambda found: found.calls[0].arrived_at + 1.5), "L2 21 units"),
    "an arrival came earlier": (
        "paced",
        each(lambda found, call: moved(call, -0.4) if call.number == found.calls[20].number else call),
        "L2 21 units",
    ),
    "an arrival in a cool-down": (
        "cooled",
        one_more(lambda found: found.cooldowns[0].began_at + 0.6),
        "arrived 0.600 s into a cool-down of 1 s",
    ),
    "two probes": (
        "cooled",
        one_more(
            lambda found: next(call.arrived_at for call in found.calls if call.arrived_at > found.cooldowns[0].ends_at)
        ),
        "L3 2 calls in progress in step 1",
    ),
    "a ramp that is too steep": (
        "cooled",
        each(lambda found, call: moved(call, -1.0) if call.arrived_at > found.cooldowns[0].ends_at + 2.1 else call),
        "in progress in step 2",
    ),
    "capacity came back late": ("killed", each(recovery_later), "the others reached 3 again after 1."),
    "capacity did not come back": ("killed", recovery_lacking, "its capacity is not back: the others reached 2 of 3"),
    "slots lay idle": (
        "killed",
        each(lambda _, call: replace(call, ended_at=call.arrived_at + 0.3 * (call.ended_at - call.arrived_at))),
        "L5 ",
    ),
    "the rate was not used": ("paced", each(second_window_later), "L5 unit 41 came"),
}


@pytest.mark.parametrize("flaw", DOCTORS)
def test_a_flaw_in_what_the_provider_saw_is_found(flaw: str, request: pytest.FixtureRequest) -> None:
    run, doctor, words = DOCTORS[flaw]
    found, rules = request.getfixturevalue(run)
    assert judge_limit(found, rules).violations == []
    violations = judge_limit(doctor(found), rules).violations
    assert any(words in text for text in violations), violations


def test_a_flaw_in_the_book_of_the_provider_is_found(tmp_path: Path) -> None:
    arrived = {"e": "arrived", "m": 1.0, "call": 1, "limit": "chaos", "units": 1, "who": "w0"}
    ended = {"e": "ended", "m": 2.0, "call": 1, "status": 200}
    crashed = {"e": "mark", "m": 3.0, "name": "exit", "who": "w0", "code": 70}
    books = {
        "ended twice": [arrived, ended, ended],
        "ended and never arrived": [arrived, ended, ended | {"call": 2}],
        "ended 0.500 s before it arrived": [arrived, ended | {"m": 0.5}],
        "for which nothing was promised": [arrived, ended, arrived | {"call": 2, "limit": "other"}],
        "w0 ended with 70": [arrived, ended, crashed],
    }
    for words, book in books.items():
        path = tmp_path / "book.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in book))
        violations = judge(path, {"chaos": Rules(in_flight=1)}).violations
        assert [text for text in violations if words in text] == violations != [], words


def test_freezes_excuse_as_many_calls_as_processes_were_frozen() -> None:
    calls = tuple(Call(number, "chaos", "w0", 1, number / 100, 1.0) for number in range(6))
    rules = Rules(in_flight=5, windows=(Window(5, 2.0),))
    assert [text[:2] for text in judge_limit(Records(calls), rules).violations] == ["L1", "L2"]
    assert judge_limit(Records(calls), replace(rules, excess_allowed=1)).violations == []


def test_a_cool_down_that_died_with_its_caller_binds_nobody() -> None:
    calls = (Call(1, "chaos", "w0", 1, 0.0, 0.0, 429), Call(2, "chaos", "w1", 1, 0.5, 0.6, 200))
    seen = Records(calls, (CoolDown("chaos", "w0", 0.0, 1.0),))
    killed = replace(seen, marks=(Mark("kill", 0.1, "w0"),))
    assert [text[:2] for text in judge_limit(seen, Rules(in_flight=1)).violations] == ["L3"]
    assert judge_limit(killed, Rules(in_flight=1)).violations == []


@pytest.mark.parametrize(
    ("who", "after_s", "is_late"),
    [
        ("w0", 0.2, False),
        ("w0", 0.4, True),
        ("w1", 0.9, False),
        ("w1", 1.2, True),
        ("w0", 2.2, True),
        ("w1", 3.1, False),
    ],
)
def test_who_knows_of_a_cool_down_starts_no_call_late(who: str, after_s: float, is_late: bool) -> None:  # noqa: FBT001
    calls = (Call(1, "chaos", "w0", 1, 0.0, 0.0, 429), Call(2, "chaos", who, 1, after_s, after_s + 0.1, 200))
    found = Records(calls, (CoolDown("chaos", "w0", 0.0, 3.0),))
    rules = Rules(in_flight=2, trail_s=2.05, knowing_trail_s=0.3, news_s=0.7)
    assert [text[:2] for text in judge_limit(found, rules).violations] == ["L3"] * is_late
    # Without knowing who knows, all may start late.
    allowed = judge_limit(found, replace(rules, knowing_trail_s=None)).violations
    assert bool(allowed) is (after_s == 2.2)


def test_processes_that_are_killed_together_have_to_give_back_together() -> None:
    dead = (Call(1, "chaos", "w0", 1, 0.0, 9.0), Call(2, "chaos", "w1", 1, 0.0, 9.0))
    back = (Call(3, "chaos", "w2", 1, 3.0, 9.0, 200), Call(4, "chaos", "w2", 1, 3.0, 9.0, 200))
    marks = (Mark("go", 0.0), Mark("kill", 1.0, "w0"), Mark("kill", 1.1, "w1"), Mark("over", 9.0))
    found = Records(dead + back, marks=marks)
    rules = Rules(in_flight=2, back_within_s=2.5, least_kills=2)
    [(killed, back_then)] = seen.after_kills(found, rules)
    assert (str(killed), killed.at) == ("w0, w1", 1.1)
    assert back_then.after_s == pytest.approx(1.9)
    late = judge_limit(replace(found, calls=dead), rules).violations
    assert any("w0, w1 was killed" in text and "is not back" in text for text in late)


def test_a_window_is_half_open_and_counts_units() -> None:
    def seen(*instants: float) -> list[Call]:
        return [Call(number, "chaos", "w0", 3, at, at) for number, at in enumerate(instants)]

    assert measures.worst_window(seen(0.0, 2.0), 2.0).count == 3
    assert measures.worst_window(seen(0.0, 1.999), 2.0).count == 6


def test_the_worst_window_and_the_peak_are_those_that_a_plain_count_finds() -> None:
    chance = random.Random(7)
    for _ in range(100):
        instants = sorted(chance.randrange(40) / 8 for _ in range(30))
        calls = [
            Call(n, "x", "w", chance.randrange(1, 4), at, at + chance.randrange(1, 9) / 8)
            for n, at in enumerate(instants)
        ]
        windows = [sum(call.units for call in calls if at <= call.arrived_at < at + 2) for at in instants]
        running = [sum(call.units for call in calls if call.arrived_at <= at < call.ended_at) for at in instants]
        assert measures.worst_window(calls, 2.0).count == max(windows)
        assert measures.peak(calls, weighted=True).count == max(running)


def test_the_arrivals_of_a_ramp_may_be_judged_instead() -> None:
    calls = tuple(Call(n, "chaos", "w0", 1, at, at + 0.01) for n, at in enumerate([0.0, 2.0, 2.4, 3.1]))
    seen = Records(calls, (CoolDown("chaos", "w0", 0.0, 1.5),))
    rules = Rules(in_flight=4)
    assert judge_limit(seen, rules).violations == []
    assert any(
        "2 calls had arrived in step 1" in text
        for text in judge_limit(seen, replace(rules, ramp="arrivals")).violations
    )


@pytest.mark.parametrize("sticky", [False, True])
def test_a_provider_ends_the_call_of_a_client_that_is_gone_or_works_on(tmp_path: Path, sticky: bool) -> None:  # noqa: FBT001
    record = tmp_path / "provider.jsonl"
    with serving("chaos.limits.provider", "--record", str(record), *(["--sticky"] if sticky else [])) as address:
        with Line(address) as line:
            line.tell({"limit": "chaos", "work_s": 0.3, "units": 2, "who": "w0"})
            time.sleep(0.05)
        time.sleep(0.4)
    [call] = records.read(record).calls
    assert (call.units, call.who, call.status) == (2, "w0", 200 if sticky else 499)
    assert (call.ended_at - call.arrived_at >= 0.3) is sticky


def test_a_provider_writes_the_end_of_a_call_down_before_it_answers(tmp_path: Path) -> None:
    record = tmp_path / "provider.jsonl"
    call = {"limit": "chaos", "work_s": 0.001, "who": "w0"}
    with serving("chaos.limits.provider", "--record", str(record)) as address, Line(address) as line:
        for number in range(20):
            assert line.ask(call) == {"call": number + 1, "status": 200}
            assert [one["call"] for one in journal.read(record) if one["e"] == "ended"][-1] == number + 1


def test_a_provider_refuses_as_it_was_told_and_writes_the_cool_down_down(tmp_path: Path) -> None:
    record = tmp_path / "provider.jsonl"
    call = {"limit": "chaos", "work_s": 0.0, "who": "w0"}
    with (
        serving("chaos.limits.provider", "--record", str(record)) as address,
        Line(address) as line,
        Line(address) as control,
    ):
        control.ask({"do": "refuse", "limit": "chaos", "retry_after_s": 1.5, "calls": 2})
        control.ask({"do": "refuse", "limit": "other", "status": 503, "for_s": 0.1})
        answers = [line.ask(call) for _ in range(3)]
        others = [line.ask(call | {"limit": "other"})["status"]]
        time.sleep(0.15)
        others.append(line.ask(call | {"limit": "other"})["status"])
    refused = {"status": 429, "retry_after_s": 1.5}
    assert answers == [{"call": 1, **refused}, {"call": 2, **refused}, {"call": 3, "status": 200}]
    assert others == [503, 200]
    found = records.read(record)
    assert [(one.limit, round(one.ends_at - one.began_at, 6)) for one in found.cooldowns] == [("chaos", 1.5)] * 2


def test_provider_load_and_judge_share_no_code_with_the_judged() -> None:
    paths = sorted((ROOT / "chaos" / "limits").glob("[a-z]*.py"))
    modules = ", ".join(f"chaos.limits.{path.stem}" for path in paths if path.stem not in JUDGED)
    assert "chaos.limits.provider" in modules
    names = f"import sys, {modules}; print([n for n in sys.modules if n.partition('.')[0] == 'forebay'])"
    shown = subprocess.run([sys.executable, "-c", names], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
