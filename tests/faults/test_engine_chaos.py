"""The short form of `./dev chaos engine`: workers are killed, stopped and cut off, then all is judged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaos import checker
from chaos.engine import app, leftovers
from chaos.engine.dice import PLACES
from chaos.engine.evidence import Evidence
from chaos.engine.judge import judge
from chaos.engine.judge_processes import GRACE_S, out_waited
from chaos.evidence import Evidence as Rows
from tests.faults.storms import QUICK, Doctor, blob, imported_from_forebay, journal, sql, stormed


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a run, and what was said of it."""
    folder = tmp_path_factory.mktemp("storm")
    seed, run = 21, stormed("engine", folder, 21, 12)
    if run.returncode == checker.VOID:
        # By bad luck some fault did not strike: the dice are thrown once more, for longer.
        seed, run = 22, stormed("engine", folder, 22, 20)
    assert run.returncode == checker.OK, run.stdout + run.stderr
    return folder / str(seed) / "run", run.stdout


@pytest.mark.slow
@pytest.mark.timeout(320)
def test_nothing_is_lost_doubled_or_left_behind_when_the_disk_fills_up(tmp_path: Path) -> None:
    figures: dict[str, str] = {"calls refused by a full disk": "0"}
    for seed, seconds in ((23, 20), (24, 30), (25, 40)):
        if int(figures["calls refused by a full disk"]):  # else nobody happened to write while it was full
            break
        run = stormed("engine", tmp_path, seed, seconds, "--disk-mb", "48")
        assert run.returncode in {checker.OK, checker.VOID}, run.stdout + run.stderr
        figures = dict(line.strip().rsplit(maxsplit=1) for line in run.stdout.splitlines() if line.startswith("  "))
    assert int(figures["disk filled"]) >= 1
    assert int(figures["calls refused by a full disk"]) >= 1


@pytest.mark.parametrize(
    ("told_at", "refused_at", "gave_up_at", "excused"),
    [
        (8.0, 10.5, 11.0, True),
        (8.0, 11.9, 15.0, True),  # its threads and children took seconds to end
        (8.0, 14.0, 15.0, False),  # the disk was free again
        (10.5, 11.0, 11.2, False),  # it was told less than its grace ago
        (8.0, None, 15.0, False),  # nobody refused it
    ],
)
def test_whoever_gives_up_on_a_full_disk_is_excused_by_when_it_was_refused(
    told_at: float, refused_at: float | None, gave_up_at: float, *, excused: bool
) -> None:
    told = [{"e": "store_failed", "verb": "exchange", "m": refused_at}] if refused_at else []
    evidence = Evidence(
        Rows(),
        conducted=[{"e": "term", "life": "w0-1", "m": told_at}],
        workers={"w0-1": [*told, {"e": "gave_up", "m": gave_up_at}]},
    )
    assert out_waited(evidence, [(9.0, 12.0)], GRACE_S) == ({"w0-1"} if excused else set())


@pytest.mark.slow
@pytest.mark.timeout(320)
def test_nothing_is_lost_doubled_or_left_behind_when_workers_are_struck_at_every_step(sound: tuple[Path, str]) -> None:
    figures = dict(line.strip().rsplit(maxsplit=1) for line in sound[1].splitlines() if line.startswith("  "))
    fired = {place: int(figures[f"failpoint {place}"]) for place in PLACES}
    print(fired)  # noqa: T201 - shown when asked for, and when it fails
    assert min(fired.values()) >= 1
    assert int(figures["workers killed"]) >= 8
    assert int(figures["settles fenced"]) >= 1


BOUND = "(SELECT seq FROM tasks WHERE kind = 'scans.merge' AND status = 'completed' AND result_blob IS NULL LIMIT 1)"

DOCTORS: dict[str, tuple[Doctor, str]] = {
    "an accepted task is gone": (sql(f"DELETE FROM tasks WHERE seq = {QUICK}"), "accepted, and gone"),
    "a task never ended": (
        sql(f"UPDATE tasks SET status = 'pending' WHERE seq = {QUICK}"),
        "is pending at the end",
    ),
    "a retry was burnt": (sql(f"UPDATE tasks SET retry_count = 1 WHERE seq = {QUICK}"), "by its row"),
    "an attempt is missing": (sql(f"DELETE FROM history WHERE task_seq = {QUICK}"), "which is in no history"),
    "the loser's result": (
        sql(f"UPDATE results SET result = json_set(result, '$.token', 99) WHERE task_seq = {QUICK}"),
        "its result was made under 99",
    ),
    "a merge of other chunks": (
        sql(f"UPDATE results SET result = json_set(result, '$.parts[0][0]', 99) WHERE task_seq = {BOUND}"),
        "merged [[99,",
    ),
    "a counter is wrong": (
        sql("UPDATE jobs SET completed_count = completed_count + 1 WHERE completed_count > 0"),
        "completed, its rows are",
    ),
    "a blob holds other bytes": (blob(lambda path: path.write_bytes(path.read_bytes() + b" ")), "holds other bytes"),
    "a blob is gone": (blob(Path.unlink), "is not there"),
    "a call was made twice": (journal("provider", "begin", lambda one: [one, one]), "called 2 times under token"),
    "a call without a claim": (
        journal("provider", "begin", lambda one: [one, one | {"token": 99}]),
        "called under token 99, only",
    ),
    "a call after the end": (
        journal("provider", "begin", lambda one: [one | {"w": one["w"] + 3600, "life": "x"}]),
        "s after token",
    ),
    "a process was left behind": (
        journal("conductor", "looked", lambda one: [one | {"left": [7], "cpu_s": [1.0]}]),
        "outlived it by a second",
    ),
    "a worker crashed": (journal("conductor", "ended", lambda one: [one | {"code": 70}]), "ended with 70"),
    "work was left": (journal("conductor", "drained", lambda one: [one | {"left": 1}]), "T5 after"),
    "accepted under two ids": (
        journal("submitter", "told", lambda one: [one, one | {"id": "x"}]),
        "and as x",
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(320)
@pytest.mark.parametrize("flaw", DOCTORS)
def test_a_flaw_in_the_records_of_workers_is_found(flaw: str, sound: tuple[Path, str], tmp_path: Path) -> None:
    doctor, words = DOCTORS[flaw]
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder, ignore=shutil.ignore_patterns("*-wake"))
    doctor(folder)
    assert any(words in text for text in judge(folder).violations)


def test_the_judge_of_workers_shares_no_code_with_the_judged() -> None:
    assert imported_from_forebay("chaos.engine.judge") == "[]\n"


def test_what_another_run_has_started_under_the_same_name_was_not_left_behind_by_this_one() -> None:
    marks = {app.LIFE: "w0-0", app.JOURNAL: "/run/this"}
    with ExitStack() as stack:
        started = []
        for run in ("/run/this", "/run/other"):
            sleeping = subprocess.Popen(["sleep", "60"], env={**os.environ, **marks, app.JOURNAL: run})
            started.append(sleeping.pid)
            stack.callback(sleeping.wait)
            stack.callback(sleeping.kill)
        assert list(leftovers.of(marks)) == started[:1]


@pytest.mark.slow
@pytest.mark.timeout(160)
def test_workers_on_a_ledger_without_a_fence_are_convicted(tmp_path: Path) -> None:
    run = stormed("engine", tmp_path, 23, 7.8, "--sabotage", "unfenced")
    assert run.returncode == checker.VIOLATION, run.stdout + run.stderr
    # For the right reason: tasks that are still open would convict it, too, but say nothing about the fence.
    broken = judge(tmp_path / "23" / "run").violations
    assert [text for text in broken if re.match("T6 task|T3 task .* acknowledged as", text)], broken
    assert "again: ./dev chaos engine --minutes 0.13 --seed 23 --sabotage unfenced" in run.stdout
