"""The short form of `./dev chaos limits --scenario all`, but for crowds of sessions (test_limits_crowds.py)."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from chaos import checker
from chaos.limits import command, playing
from chaos.limits.checks import Bounded, When, most_between, paused_for, reached
from chaos.limits.play import excuse
from chaos.limits.records import Call, Mark, Records
from chaos.limits.rules import Window
from chaos.limits.scenarios import SCENARIOS
from tests.faults.limit_plays import assert_sound


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
        pytest.param("clean", "postgres", marks=pytest.mark.slow),
        pytest.param("kill", "postgres", marks=pytest.mark.slow),
        pytest.param("rolled-back", "postgres", marks=pytest.mark.slow),
        pytest.param("slow-store", "postgres", marks=pytest.mark.slow),
        pytest.param("freeze", "postgres", marks=pytest.mark.slow),
        pytest.param("crashed", "postgres", marks=pytest.mark.slow),
        pytest.param("failed-over", "sentinel", marks=pytest.mark.slow),
        pytest.param("failed-over-behind", "sentinel", marks=pytest.mark.slow),
        pytest.param("failed-over-behind", "cluster", marks=pytest.mark.slow),
    ],
)
def test_a_provider_never_sees_more_than_the_limit(name: str, store: str, tmp_path: Path) -> None:
    assert_sound(name, store, tmp_path)


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
