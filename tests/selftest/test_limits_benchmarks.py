"""What the benchmarks of limits at scale must find out, and that their short forms run."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.limiting.exactness import fullest
from benchmarks.limits_fleet.judge import BEGAN, ENDED, GO, NOTE, OVER, Judge, Verdict, Window, combined
from benchmarks.limits_fleet.plan import PRESETS, Plan, quick
from benchmarks.limits_fleet.tally import added_up, p50_p99

ROOT = Path(__file__).resolve().parents[2]
WINDOW = Window(n=4, per_s=1.0, enforced_s=1.25)
Note = tuple[bytes, float]


def judged(notes: Sequence[Note], window: Window | None = None) -> Verdict:
    judge = Judge()
    for kind, at in notes:
        judge.take(kind, at - 0.001, at)
    return judge.verdict(window)


def calls(*starts: float, lasted_s: float = 0.1) -> list[Note]:
    return sorted(
        [*((BEGAN, at) for at in starts), *((ENDED, at + lasted_s) for at in starts)], key=lambda note: note[1]
    )


def measured(notes: Sequence[Note], span: tuple[float, float]) -> list[Note]:
    return sorted([*notes, (GO, span[0]), (OVER, span[1])], key=lambda note: note[1])


def test_calls_count_that_end_between_the_marks_and_all_count_for_the_peak() -> None:
    verdict = judged(measured(calls(0.0, 0.01, 0.02, 1.0, 1.5), (0.5, 2.5)))
    assert (verdict.calls, verdict.peak) == (2, 3)
    assert verdict.rate == pytest.approx(1.0)
    assert verdict.level == pytest.approx(0.1)
    assert verdict.late_s == pytest.approx(0.001)


def test_a_call_that_begins_as_another_ends_is_not_beside_it() -> None:
    notes = [(GO, 0.0), (BEGAN, 1.0), (ENDED, 2.0), (BEGAN, 2.0), (ENDED, 3.0), (OVER, 4.0)]
    assert judged(notes).peak == 1


def test_one_call_too_many_in_a_window_is_found() -> None:
    inside = calls(0.0, 0.5, 0.6, 0.9, 1.0, lasted_s=0.01)
    over = calls(0.0, 0.5, 0.6, 0.9, 0.99, lasted_s=0.01)
    assert judged(measured(inside, (0.0, 2.0)), WINDOW).worst == WINDOW.n
    assert judged(measured(over, (0.0, 2.0)), WINDOW).worst == WINDOW.n + 1
    assert judged(measured(over, (0.0, 2.0)), WINDOW).shortest_s == pytest.approx(0.99)


def test_a_window_is_half_open() -> None:
    assert fullest([0.0, 1.0], 1.0) == 1
    assert fullest([0.0, 0.999], 1.0) == 2
    assert fullest([], 1.0) == 0


def test_the_share_of_the_rate_is_of_whole_enforced_windows() -> None:
    full = [1.25 * turn + 0.01 * number for turn in range(4) for number in range(4)]
    assert judged(measured(calls(*full), (1.2, 4.9)), WINDOW).share_of_rate == pytest.approx(1.0)
    assert judged(measured(calls(*full[::2]), (1.2, 4.9)), WINDOW).share_of_rate == pytest.approx(0.5)
    assert judged(measured(calls(*full), (0.0, 1.0)), WINDOW).share_of_rate is None


def test_a_judge_that_reads_late_says_what_the_callers_clocks_say() -> None:
    judge = Judge()
    for number in range(8):
        judge.take(BEGAN, 0.25 * number, 2.0)
    judge.take(GO, 0.0, 2.0)
    judge.take(OVER, 3.0, 3.0)
    verdict = judge.verdict(WINDOW)
    assert (verdict.worst, verdict.worst_sent) == (8, 4)
    assert verdict.late_s == pytest.approx(2.0)


def test_of_several_runs_the_worst_is_told_of_what_must_not_be() -> None:
    few, many = judged(measured(calls(0.1, 0.2), (0.0, 1.0))), judged(measured(calls(0.1, 0.11, 0.12), (0.0, 1.0)))
    assert combined([few, many, few]).peak == 3
    assert combined([few, many, few]).calls == 2


def test_the_judge_counts_in_a_process_of_its_own_however_notes_are_cut() -> None:
    kinds = [GO, *3 * [BEGAN], *3 * [ENDED], BEGAN, OVER]
    said = b"".join(NOTE.pack(kind, 0.0) for kind in kinds)
    command = [sys.executable, "-m", "benchmarks.limits_fleet.judge", json.dumps(asdict(WINDOW))]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for index in range(0, len(said), 7):
            process.stdin.write(said[index : index + 7])
            process.stdin.flush()
        process.stdin.close()
        verdict = json.loads(process.stdout.read())
    assert (verdict["peak"], verdict["calls"], verdict["worst"], verdict["worst_sent"]) == (3, 3, 4, 4)


def test_a_measurement_without_its_marks_has_no_verdict() -> None:
    with pytest.raises(SystemExit):
        judged(calls(0.0))


def test_local_semaphores_have_the_limit_as_their_sum() -> None:
    for plan in [each for plans in PRESETS.values() for each in plans]:
        assert sum(plan.local) == plan.in_flight
        assert len(quick(plan).local) == quick(plan).processes


def test_the_window_is_enforced_as_the_proof_has_it() -> None:
    plan = PRESETS["500x1"][0]
    assert plan.enforced_s == pytest.approx(30.301)
    assert plan.window_s >= 30
    assert plan.by_window < plan.allowed
    assert math.isinf(Plan(processes=1, callers=1, in_flight=1, call_s=1, seconds=1).by_window)


def test_what_processes_saw_is_added_up() -> None:
    total = added_up([{"counts": {"exchange": 2}, "waits_s": [0.1], "exchanges_s": []}] * 3)
    assert total.counts["exchange"] == 6
    assert p50_p99(total.waits_s) == pytest.approx((0.1, 0.1))
    assert p50_p99([]) is None


def bench(name: str, *options: str) -> str:
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("form", [(), ("--tasks",)], ids=["threads", "tasks"])
def test_a_fleet_is_measured_beside_local_semaphores(form: tuple[str, ...]) -> None:
    own = ["--processes", "3", "--callers", "4", "--in-flight", "5", "--call-s", "0.05", "--store", "sqlite"]
    said = bench("limits_fleet", *own, "--seconds", "1", "--warm-s", "0.5", *form)
    assert "peak 5 of 5," in said
    assert "OVER" not in said
    assert "error" not in said


_UNLIMITED = """
import sys
from pathlib import Path
from benchmarks.limiting.gates import LOOSE, plain
from benchmarks.limits_fleet.phase import measure
from benchmarks.limits_fleet.plan import Plan
from benchmarks.limits_fleet.sides import Side
plan = Plan(processes=3, callers=2, in_flight=4, call_s=0.05, seconds=0.5, warm_s=0.3, window_n=10, window_s=1.0)
verdict = measure(plan, Side("nothing", opens=lambda number, tally: plain("", LOOSE)), Path(sys.argv[1])).verdict
print(verdict.peak, verdict.worst)
"""


@pytest.mark.slow
def test_a_fleet_without_a_limiter_is_found_over(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _UNLIMITED, str(tmp_path)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    peak, worst = map(int, said.split())
    assert peak == 6
    assert worst > 10


@pytest.mark.slow
def test_the_short_form_of_the_fleet_runs() -> None:
    said = bench("limits_fleet", "--quick")
    assert said.count("peak") == 3
    assert "OVER" not in said


@pytest.mark.slow
def test_the_short_form_of_the_store_runs() -> None:
    said = bench("limits_store", "--quick")
    assert said.count("sessions wait in one line") == 2
    assert said.count("sessions live") == 2
