"""The short form of `./dev chaos fleet`: workers, PostgreSQL, Valkey and S3 are struck, then all is judged."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from chaos import checker
from chaos.engine.evidence import Evidence
from chaos.evidence import Evidence as Rows
from chaos.fleet.judge import judge
from chaos.fleet.promised import DRAIN_GRACE_S, NARROW, PACED, RULES
from chaos.fleet.troubles import Troubles, out_waited
from chaos.journal import Record
from tests.faults.storms import QUICK, Doctor, blob, imported_from_forebay, journal, sql, stormed

KILLS = 30


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing was found wrong with."""
    folder = tmp_path_factory.mktemp("fleet")
    # A storm ends as soon as everything has struck; a slow machine may take its time.
    seed, run = 31, stormed("fleet", folder, 31, 120, "--kills", str(KILLS))
    if run.returncode == checker.VOID:
        seed, run = 32, stormed("fleet", folder, 32, 120, "--kills", str(KILLS))
    assert run.returncode == checker.OK, run.stdout + run.stderr
    return folder / str(seed) / "run"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nothing_is_lost_doubled_or_over_the_limit_when_workers_and_servers_are_struck(sound: Path) -> None:
    verdict = judge(sound, least=1, kills=KILLS)
    print(verdict.text())  # noqa: T201 - shown when asked for, and when it fails
    assert verdict.exit_code == checker.OK
    assert verdict.figures["ledger: restart"] >= 1
    assert verdict.figures["limits: restart"] >= 1
    assert verdict.figures["narrow: most calls in progress"] >= (RULES[NARROW].in_flight or 0)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_run_in_which_a_fault_never_struck_proves_nothing(sound: Path, tmp_path: Path) -> None:
    folder = copied(sound, tmp_path)
    journal(
        "site", "fired", lambda one: [] if (one["server"], one["fault"]) == ("ledger", "lost") else [one], every=True
    )(folder)
    verdict = judge(folder, least=1, kills=KILLS)
    assert verdict.exit_code == checker.VOID
    assert "ledger: lost 0 of 1" in verdict.missing
    assert judge(sound, least=1, kills=10_000).exit_code == checker.VOID


def copied(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "run"))


def at(folder: Path, event: str) -> float:
    """When the run came to this."""
    conducted = [json.loads(line) for line in (folder / "logs" / "conductor.jsonl").read_text().splitlines()]
    return float(next(record["m"] for record in conducted if record["e"] == event))


def add(folder: Path, name: str, *records: Record) -> None:
    with (folder / "logs" / f"{name}.jsonl").open("a") as file:
        file.writelines(
            json.dumps({"w": 0, "limit": NARROW, "who": "x", "life": "x", "pid": 0, **record}) + "\n"
            for record in records
        )


def crowd(limit: str, count: int, *, apart_s: float = 0.0, work_s: float = 0.1) -> Doctor:
    """So many calls more, a minute after the end, where nothing is excused."""

    def doctor(folder: Path) -> None:
        for number in range(count):
            m = at(folder, "drained") + 60 + number * apart_s
            call = {"call": 10**6 + number, "limit": limit}
            add(folder, "api", {"e": "arrived", "m": m, "units": 1, **call})
            add(folder, "api", {"e": "ended", "m": m + work_s, "status": 200, **call})

    return doctor


def call_in_cooldown(folder: Path) -> None:
    """The first of two calls is refused, and its handler hears of it; the other comes all the same."""
    crowd(NARROW, 2, apart_s=3.0)(folder)
    m = at(folder, "drained") + 60.05
    add(folder, "api", {"e": "cooldown", "m": m, "retry_after_s": 10, "call": 10**6})
    add(folder, "provider", {"e": "refused", "m": m, "call": 10**6, "id": "x"})


def idle_rest(folder: Path) -> None:
    """When all was well nobody called."""
    path = folder / "logs" / "api.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    begins, ends = at(folder, "rests"), at(folder, "rested")
    gone = {one["call"] for one in records if one["e"] in {"arrived", "ended"} and begins <= one["m"] <= ends}
    path.write_text("".join(json.dumps(one) + "\n" for one in records if one.get("call") not in gone))


def all_gave_up(folder: Path) -> None:
    """All of them: who was told to hurry may."""
    for path in (folder / "logs").glob("w*.jsonl"):
        with path.open("a") as file:
            file.write(json.dumps({"e": "gave_up", "m": 0, "w": 0}) + "\n")


DOCTORS: dict[str, tuple[Doctor, str]] = {
    "an accepted task is gone": (sql(f"DELETE FROM tasks WHERE seq = {QUICK}"), "accepted, and gone"),
    "a task never ended": (sql(f"UPDATE tasks SET status = 'pending' WHERE seq = {QUICK}"), "is pending at the end"),
    "the loser's result": (
        sql(f"UPDATE results SET result = json_set(result, '$.token', 99) WHERE task_seq = {QUICK}"),
        "its result was made under 99",
    ),
    "a completed task ran again": (
        journal("provider", "begin", lambda one: [one, one | {"w": one["w"] + 3600, "life": "x", "token": 1}]),
        "s after token",
    ),
    "a blob holds other bytes": (blob(lambda path: path.write_bytes(path.read_bytes() + b" ")), "R1 blob"),
    "a blob is gone": (blob(Path.unlink), "R2 task"),
    "one call too many at once": (crowd(NARROW, (RULES[NARROW].in_flight or 0) + 1), "narrow: L1"),
    "one unit too many in a window": (
        crowd(PACED, RULES[PACED].windows[0].n + 1, apart_s=0.08, work_s=0.01),
        "paced: L2",
    ),
    "a call in a cool-down": (call_in_cooldown, "narrow: L3 call"),
    "slots that never came back": (idle_rest, "narrow: L4"),
    "a task that was not poisoned is told to be": (
        journal("w*", "task_completed", lambda one: [one | {"e": "task_failed", "error_class": "poison"}]),
        "acknowledged as failed, attempt",
    ),
    "a worker gave up": (all_gave_up, "gave up"),
}


def test_a_worker_may_give_up_on_a_ledger_that_was_away_when_its_grace_was_over() -> None:
    found = Troubles(disturbed={"ledger": [(10.0, 20.0)]})

    def excused(told_at: float, gave_up_at: float) -> bool:
        evidence = Evidence(
            Rows(),
            conducted=[{"e": "term", "life": "w0-1", "m": told_at}],
            workers={"w0-1": [{"e": "gave_up", "m": gave_up_at}], "w0-2": [{"e": "gave_up", "m": gave_up_at}]},
        )
        return out_waited(found, evidence) == {"w0-1"}

    assert excused(11.0, 11.0 + DRAIN_GRACE_S)
    assert not excused(11.0, 10.9 + DRAIN_GRACE_S)  # it did not wait
    assert not excused(1.0, 9.0)  # the ledger was there
    assert not excused(11.0, 30.0)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("flaw", DOCTORS)
def test_a_flaw_in_the_records_of_a_fleet_is_found(flaw: str, sound: Path, tmp_path: Path) -> None:
    doctor, words = DOCTORS[flaw]
    folder = copied(sound, tmp_path)
    doctor(folder)
    violations = judge(folder).violations
    assert any(words in text for text in violations), violations


def test_the_judge_of_the_fleet_shares_no_code_with_the_judged() -> None:
    assert imported_from_forebay("chaos.fleet.judge") == "[]\n"


@pytest.mark.slow
@pytest.mark.timeout(260)
def test_a_fleet_without_fence_limiter_and_memory_is_convicted_of_all_three(tmp_path: Path) -> None:
    sabotage = "unfenced,bypass,losing"
    run = stormed("fleet", tmp_path, 33, 8, "--sabotage", sabotage, "--ledger", "sqlite")
    assert run.returncode == checker.VIOLATION, run.stdout + run.stderr
    broken = judge(tmp_path / "33" / "run", ledger="sqlite").violations
    for wanted in ("T6 task|T3 task .* acknowledged as", "T1 .* accepted, and gone", "narrow: L1|paced: L[12]"):
        assert [text for text in broken if re.match(wanted, text)], (wanted, broken)
    assert f"again: ./dev chaos fleet --minutes 0.133 --seed 33 --sabotage {sabotage} --ledger sqlite" in run.stdout
