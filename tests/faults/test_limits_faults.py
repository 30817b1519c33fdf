"""The short form of `./dev chaos limits --scenario all`, and limiters with one promise broken that it must convict."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from chaos import checker
from chaos.limits import command, playing
from chaos.limits.checks import Bounded, When, most_between, paused_for, reached
from chaos.limits.play import excuse, play
from chaos.limits.records import Call, Mark, Records
from chaos.limits.rules import Window
from chaos.limits.scenarios import SCENARIOS


def sound(name: str, store: str, folder: Path) -> None:
    verdict = play(name, store, folder / "short", short=True)
    print(verdict.text())  # noqa: T201 - shown when asked for, and when it fails
    is_slow = bool(verdict.violations) and all(_measures_use(each) for each in verdict.violations)
    if verdict.exit_code == checker.VOID or is_slow:
        # The machine was too slow to show anything, or to use what was free: once more, for longer.
        verdict = play(name, store, folder / "long")
    assert verdict.exit_code == checker.OK, verdict.text()


def _measures_use(violation: str) -> bool:
    """Return whether a machine that is too slow to use what is free violates this as well."""
    return "L5 " in violation or "calls were in progress on average" in violation


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("name", "store"),
    [
        pytest.param("clean", "memory", marks=pytest.mark.slow),
        pytest.param("clean", "sqlite", marks=pytest.mark.slow),
        pytest.param("clean", "redis", marks=pytest.mark.slow),
        ("kill", "redis"),
        pytest.param("refused", "redis", marks=pytest.mark.slow),
        pytest.param("restart-empty", "redis", marks=pytest.mark.slow),
        ("kill-sticky", "sqlite"),
        pytest.param("freeze", "sqlite", marks=pytest.mark.slow),
        pytest.param("lowered", "sqlite", marks=pytest.mark.slow),
        pytest.param("rolled-back", "redis", marks=pytest.mark.slow),
        pytest.param("evicted", "redis", marks=pytest.mark.slow),
        pytest.param("slow-store", "redis", marks=pytest.mark.slow),
        pytest.param("slow-store", "sqlite", marks=pytest.mark.slow),
        pytest.param("late-start-killed", "redis", marks=pytest.mark.slow),
        pytest.param("late-start-killed", "sqlite", marks=pytest.mark.slow),
        pytest.param("refused-late", "memory", marks=pytest.mark.slow),
        pytest.param("refused-late", "redis", marks=pytest.mark.slow),
        pytest.param("in-hand", "redis", marks=pytest.mark.slow),
        pytest.param("weighted-in-flight", "redis", marks=pytest.mark.slow),
        pytest.param("weighted-in-flight", "sqlite", marks=pytest.mark.slow),
        pytest.param("mass-kill", "redis", marks=pytest.mark.slow),
        pytest.param("mass-kill", "sqlite", marks=pytest.mark.slow),
        pytest.param("mass-kill-forked", "redis", marks=pytest.mark.slow),
        pytest.param("comers", "redis", marks=pytest.mark.slow),
        pytest.param("comers", "sqlite", marks=pytest.mark.slow),
        pytest.param("clean", "postgres", marks=pytest.mark.slow),
        pytest.param("kill", "postgres", marks=pytest.mark.slow),
        pytest.param("rolled-back", "postgres", marks=pytest.mark.slow),
        pytest.param("slow-store", "postgres", marks=pytest.mark.slow),
        pytest.param("mass-kill", "postgres", marks=pytest.mark.slow),
        pytest.param("comers", "postgres", marks=pytest.mark.slow),
        pytest.param("freeze", "postgres", marks=pytest.mark.slow),
        pytest.param("crashed", "postgres", marks=pytest.mark.slow),
        pytest.param("failed-over", "sentinel", marks=pytest.mark.slow),
        pytest.param("failed-over-behind", "sentinel", marks=pytest.mark.slow),
        pytest.param("failed-over-behind", "cluster", marks=pytest.mark.slow),
    ],
)
def test_a_provider_never_sees_more_than_the_limit(name: str, store: str, tmp_path: Path) -> None:
    sound(name, store, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    ("sabotage", "where", "promise", "seconds"),
    [
        ("Apart", ("lowered", "sqlite"), "L1", 1.0),
        ("Hasty", ("freeze", "sqlite"), "L1", 1.0),
        pytest.param("Deaf", ("refused", "memory"), "L3", 2.5, marks=pytest.mark.slow),
        pytest.param("Narrow", ("late", "memory"), "L2", 5.0, marks=pytest.mark.slow),
        pytest.param("Hoarding", ("kill", "redis"), "L4", 3.5, marks=pytest.mark.slow),
        pytest.param("Forgetful", ("restart-empty", "redis"), "L2", 3.0, marks=pytest.mark.slow),
        pytest.param("Forgetful", ("crashed", "postgres"), "L2", 5.0, marks=pytest.mark.slow),
        pytest.param("Forgetful", ("failed-over-behind", "sentinel"), "L2", 18.0, marks=pytest.mark.slow),
        pytest.param("Blind", ("evicted", "redis"), "L2", 5.0, marks=pytest.mark.slow),
        pytest.param("Deaf", ("in-hand", "redis"), "L3", 3.0, marks=pytest.mark.slow),
        pytest.param("Hasty", ("weighted-in-flight", "redis"), "L1", 2.0, marks=pytest.mark.slow),
        pytest.param("Prompt", ("late-start-killed", "redis"), "L1", 8.0, marks=pytest.mark.slow),
        pytest.param("Prompt", ("late-start-killed", "sqlite"), "L1", 8.0, marks=pytest.mark.slow),
        pytest.param("Timeless", ("refused-late", "memory"), "L3", 5.5, marks=pytest.mark.slow),
        pytest.param("Unheard", ("refused-late", "memory"), "L3", 5.5, marks=pytest.mark.slow),
        pytest.param("FailOpen", ("slow-store", "redis"), "L1", 9.0, marks=pytest.mark.slow),
        pytest.param("LongLived", ("mass-kill", "redis"), "L4", 15.0, marks=pytest.mark.slow),
        pytest.param("Thorough", ("mass-kill", "redis"), "cost:", 14.0, marks=pytest.mark.slow),
        pytest.param("Thorough", ("mass-kill", "sqlite"), "cost:", 14.0, marks=pytest.mark.slow),
        pytest.param("Lingering", ("comers", "redis"), "L4", 4.0, marks=pytest.mark.slow),
        pytest.param("Lingering", ("comers", "sqlite"), "L4", 4.0, marks=pytest.mark.slow),
    ],
)
def test_a_limiter_that_breaks_one_promise_is_convicted(
    sabotage: str, where: tuple[str, str], promise: str, seconds: float, tmp_path: Path
) -> None:
    limiter = f"chaos.limits.sabotaged:{sabotage}"
    verdict = play(*where, tmp_path / "short", adapter=limiter, short=True, seconds=seconds)
    if verdict.exit_code == checker.VOID:
        verdict = play(*where, tmp_path / "long", adapter=limiter, short=True)
    assert verdict.exit_code == checker.VIOLATION, verdict.text()
    # For the right reason: what did not happen for lack of time would convict it, too, and say nothing.
    assert [text for text in verdict.violations if text.startswith(f"{promise} ")], verdict.text()


def test_every_scenario_is_played_on_every_store_that_can_suffer_it() -> None:
    replicated = ["failed-over", "failed-over-behind"]
    stores = {"memory", "sqlite", "redis", "postgres", "sentinel", "cluster"}
    assert {store for _, store in playing.chosen("all", None)} == stores
    for store, without in (("redis", {"crashed"}), ("postgres", {"flushed", "evicted", "mass-kill-forked"})):
        played = [name for name, _ in playing.chosen("all", store)]
        assert played == [name for name in SCENARIOS if name not in {*without, *replicated}]
    assert [name for name, _ in playing.chosen("all", "sentinel")] == replicated
    assert [name for name, _ in playing.chosen("all", "cluster")] == replicated
    with pytest.raises(SystemExit, match="cannot befall memory"):
        playing.chosen("hung", "memory")
    with pytest.raises(SystemExit, match="no scenario 'storm': all, clean"):
        playing.chosen("storm", None)


def test_a_command_without_anything_to_judge_says_so() -> None:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    with pytest.raises(SystemExit, match="name a --scenario"):
        command.run(parser.parse_args([]))


def seen(*spans: tuple[float, float], status: int = 200) -> Records:
    calls = tuple(Call(n, "chaos", "w0", 1, begins, ends, status) for n, (begins, ends) in enumerate(spans))
    return Records(calls, marks=(Mark("go", 0.0), Mark("lowers, done", 1.0), Mark("over", 9.0)))


def test_a_bound_of_a_part_of_a_run_is_judged_in_that_part_alone() -> None:
    lowers = When("lowers, done", 0.5)
    early = seen((0.0, 1.2), (0.1, 1.3), (2.0, 2.5))
    assert not [*Bounded(since=lowers, in_flight=1, window=Window(1, 2.0))(early)]
    longer = seen((0.0, 1.6), (0.1, 1.6))
    assert [text[:2] for text in Bounded(since=lowers, in_flight=1)(longer)] == ["L1"]
    later = seen((0.0, 0.1), (1.6, 1.7), (2.0, 2.1))
    assert [text[:2] for text in Bounded(since=lowers, window=Window(1, 2.0))(later)] == ["L2"]
    assert most_between([*early.calls], 0.5, 9.0) == 2
    assert [text[:2] for text in reached(2, lowers, 1.0)(early)] == ["L5"]


def test_a_pause_that_is_too_short_or_too_long_is_found() -> None:
    paused = seen((0.0, 0.0), (0.1, 0.1), (2.0, 2.0), status=429)
    assert not [*paused_for(429, 2, 1.5, 2.0)(paused)]
    assert [*paused_for(429, 2, 2.5, 3.0)(paused)]
    assert [*paused_for(429, 2, 1.0, 1.5)(paused)]


def test_only_a_machine_that_stands_still_excuses_calls_that_came_too_soon() -> None:
    for took_s, code in ((0.1, checker.VIOLATION), (0.3, checker.VOID)):
        verdict = checker.Verdict(["L2 31 units in 2 s"], {})
        excuse(verdict, Records((Call(1, "chaos", "w0", 1, 1.0, 1.1, 200, sent_at=1.0 - took_s),)))
        assert verdict.exit_code == code
    verdict = checker.Verdict(["L1 9 calls in progress"], {})
    excuse(verdict, Records((Call(1, "chaos", "w0", 1, 1.0, 1.1, 200, sent_at=0.5),)))
    assert verdict.exit_code == checker.VIOLATION
