"""The judge is judged: it acquits a sound run, and convicts each ledger and each record that breaks a promise."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import apsw
import pytest

from chaos import checker, orders, sabotage
from chaos.journal import Record
from forebay.clock import ManualClock
from forebay.stores.base import Ledger
from tests.faults import scenario

Doctor = Callable[[Path], None]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    scenario.play(folder / "run")
    return folder / "run"


def judged(folder: Path) -> checker.Verdict:
    return checker.judge(folder / "ledger.db", folder / "logs")


def test_a_sound_run_is_acquitted(sound: Path) -> None:
    verdict = judged(sound)
    assert verdict.violations == []
    assert verdict.exit_code == checker.OK
    seen = verdict.figures
    assert (seen["settles fenced"], seen["attempts rescued"], seen["merges"], seen["jobs completed"]) == (1, 1, 1, 1)
    assert (seen["attempts retried"], seen["attempts rescheduled"]) == (1, 1)


def test_a_run_in_which_too_little_happened_is_void(sound: Path) -> None:
    verdict = checker.judge(sound / "ledger.db", sound / "logs", least={"kills": 1, "merges": 1})
    assert verdict.exit_code == checker.VOID
    assert verdict.missing == ["kills 0 of 1"]
    assert "VOID" in verdict.text()


def test_a_ledger_that_settles_by_id_alone_is_caught(tmp_path: Path) -> None:
    scenario.play(tmp_path / "run", lambda ledger: sabotage.apply("unfenced", ledger))
    verdict = judged(tmp_path / "run")
    assert verdict.exit_code == checker.VIOLATION
    assert any("was acknowledged, and is not in its history" in text for text in verdict.violations)
    assert any("completed under token 2, its result was made under 1" in text for text in verdict.violations)


def test_a_ledger_that_forgets_what_it_acknowledged_is_caught(tmp_path: Path) -> None:
    def forgetful(ledger: Ledger) -> Ledger:
        return cast("Ledger", sabotage.Forgetful(ledger, one_in=3))

    with scenario.hands(tmp_path / "run", 1, forgetful) as (_, (hand,)):
        for number in range(3):
            hand.client.submit([orders.key(f"by-hand/{number}")])
        hand.exchange(*[hand.ended(task) for task in hand.exchange().claims])
    (violation,) = judged(tmp_path / "run").violations
    assert violation.endswith("accepted, and gone")


def sql(*statements: str) -> Doctor:
    def doctor(folder: Path) -> None:
        db = apsw.Connection(str(folder / "ledger.db"))
        for statement in statements:
            db.execute(statement)
            assert db.changes(), statement
        db.close()

    return doctor


def journal(change: Callable[[list[Record]], None]) -> Doctor:
    """Doctor what the heir wrote, who got the task that the late one lost."""

    def doctor(folder: Path) -> None:
        path = folder / "logs" / "w1-0.jsonl"
        records = [json.loads(line) for line in path.read_text().splitlines()]
        change(records)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))

    return doctor


def told(records: list[Record], field: str) -> list[Record]:
    """The answers that have something in this field."""
    return [record for record in records if record["e"] == "told" and record.get(field)]


def claim_it_again(records: list[Record]) -> None:
    answer = told(records, "settled")[0]
    task_id, token, _ = answer["settled"][0]
    told(records, "settled")[-1]["claims"].append([task_id, token + 1, 9])


def give_it_to_another(records: list[Record]) -> None:
    answer = dict(told(records, "claims")[0], s="another")
    records += [{"e": "asked", "m": 0, "w": 0, "c": "x", "verb": "exchange"}, dict(answer, c="x")]


def settle_after_the_next_claim(records: list[Record]) -> None:
    asked = next(record for record in records if any(one[2] == "retried" for one in record.get("settles", ())))
    asked["m"] += 3600


def renew_what_was_lost(folder: Path) -> None:
    """As if the late one had been heard of a second before its task was taken away."""
    path = folder / "logs" / "w0-0.jsonl"
    session_id = json.loads(path.read_text().splitlines()[0])["s"]
    renewed_at = ManualClock().now() + scenario.LEASE_S - 1
    note = {"c": "renewal", "verb": "renew", "s": session_id, "m": 0, "w": renewed_at, "alive": True}
    with path.open("a") as file:
        file.writelines(json.dumps({"e": event, **note}) + "\n" for event in ("asked", "told"))


def answer_with(field: str, index: int, value: object) -> Doctor:
    def change(records: list[Record]) -> None:
        told(records, field)[0][field][0][index] = value

    return journal(change)


def note(**fields: object) -> Doctor:
    return journal(lambda records: records.append({"m": 0, "w": 0, **fields}))


def scribble(folder: Path) -> None:
    """Overwrite a page in the middle of the file."""
    with (folder / "ledger.db").open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096)


LONE_TASK = "(SELECT seq FROM tasks WHERE role = 'lone')"
MERGE = "role = 'merge'"
COLUMNS = (
    "kind, lane, tenant, status, role, job_id, generation, priority, timeout_s, max_retries, created_at, available_at"
)

DOCTORS: dict[str, tuple[Doctor, str]] = {
    "an accepted task is gone": (sql("DELETE FROM tasks WHERE role = 'lone'"), "accepted, and gone"),
    "an accepted job is gone": (sql("DELETE FROM jobs"), "accepted, and gone"),
    "a chunk is gone": (sql("DELETE FROM tasks WHERE chunk_index = 1"), "counts 2 chunks, its rows are 1"),
    "a task never ended": (sql("UPDATE tasks SET status = 'pending' WHERE role = 'lone'"), "is pending at the end"),
    "a job never ended": (sql("UPDATE jobs SET status = 'running'"), "is running at the end"),
    "a task that nobody submitted": (
        sql(f"INSERT INTO tasks (id, {COLUMNS}) SELECT 'x', {COLUMNS} FROM tasks WHERE role = 'lone'"),
        "nobody submitted it",
    ),
    "two merges": (
        sql(f"INSERT INTO tasks (id, {COLUMNS}) SELECT 'x', {COLUMNS} FROM tasks WHERE {MERGE}"),
        "has 2 merges in generation 1",
    ),
    "a merge was forgotten": (
        sql(f"DELETE FROM tasks WHERE {MERGE}", "UPDATE jobs SET merge_id = NULL"),
        "has 0 merges in generation 1, its chunks are {'completed': 2}",
    ),
    "a merge of another generation": (
        sql(f"UPDATE tasks SET generation = 2 WHERE {MERGE}"),
        "has a merge of generation 2, and is in 1 itself",
    ),
    "merged too early": (
        sql(f"UPDATE tasks SET created_at = created_at - 60 WHERE {MERGE}"),
        "merged before its last chunk had ended",
    ),
    "a counter is wrong": (sql("UPDATE jobs SET completed_count = 1, failed_count = 1"), "counts 1 completed"),
    "an event is missing": (sql("DELETE FROM events WHERE number = 2"), "they are numbered [1, 3"),
    "a job ended twice": (
        sql("UPDATE events SET name = 'job_failed' WHERE name = 'all_chunks_completed_merging'"),
        "ended 2 times by its events",
    ),
    "an attempt is missing": (
        sql(f"DELETE FROM history WHERE task_seq = {LONE_TASK} AND token = 2"),
        "was acknowledged, and is not in its history",
    ),
    "an attempt too many": (
        sql(
            "INSERT INTO history SELECT task_seq, token + 1, attempt + 1, session_id, worker, ended_at, ended_at,"
            " outcome, status, retry_count, reschedule_count, settled, available_at, error_class, error_text, traceback"
            f" FROM history WHERE task_seq = {LONE_TASK} AND token = 2",
            "UPDATE tasks SET claim_count = 3, attempt_count = 3 WHERE role = 'lone'",
        ),
        "completed more than once",
    ),
    "two attempts at once": (
        sql(f"UPDATE history SET claimed_at = claimed_at - 1 WHERE task_seq = {LONE_TASK} AND token = 2"),
        "attempt 2 was claimed before attempt 1 ended",
    ),
    "an attempt of somebody else's": (
        sql(f"UPDATE history SET session_id = 'x' WHERE task_seq = {LONE_TASK} AND token = 2"),
        "was claimed by one session and ended for another",
    ),
    "the loser's result": (
        sql(f'UPDATE results SET result = \'{{"token":1,"session":"x"}}\' WHERE task_seq = {LONE_TASK}'),
        "completed under token 2, its result was made under 1",
    ),
    "a result is gone": (sql(f"DELETE FROM results WHERE task_seq = {LONE_TASK}"), "its result is None"),
    "another outcome than was settled": (
        sql(f"UPDATE history SET outcome = 'failed', status = 'failed' WHERE task_seq = {LONE_TASK} AND token = 2"),
        "written as failed",
    ),
    "more retries than allowed": (
        sql("UPDATE tasks SET retry_count = max_retries + 1 WHERE role = 'lone'"),
        "retries of",
    ),
    "a crash counted as a retry": (
        sql("UPDATE tasks SET retry_count = 1, lost_count = 0, max_retries = 3 WHERE role = 'lone'"),
        "lost 1 times by its history, 0 by its row",
    ),
    "a token nobody accounts for": (
        sql("UPDATE tasks SET claim_count = claim_count + 1 WHERE chunk_index = 0"),
        "was given, and has no history",
    ),
    "a damaged file": (scribble, "store: "),
    "completed, and claimed again": (journal(claim_it_again), "token 3 was given, its row knows of fewer"),
    "one token for two": (journal(give_it_to_another), "was given to 2 holders"),
    "a settle that came late": (journal(settle_after_the_next_claim), "was held already"),
    "fenced, but written": (answer_with("settled", 2, True), "fenced under token 2, and written all the same"),  # noqa: FBT003 - a field of the answer
    "a submission refused": (answer_with("outcomes", 1, "conflict"), "its submission was answered with conflict"),
    "a live session robbed": (renew_what_was_lost, "was taken away though its session had been renewed"),
    "a crash": (note(e="crash", text="Traceback"), "a worker crashed"),
    "an error": (note(e="error", verb="submit", kind="StoreCorrupt", text="damaged"), "failed with StoreCorrupt"),
}


@pytest.mark.parametrize("name", DOCTORS)
def test_a_doctored_record_is_caught(name: str, sound: Path, tmp_path: Path) -> None:
    doctor, expected = DOCTORS[name]
    shutil.copytree(sound, tmp_path / "run")
    doctor(tmp_path / "run")
    verdict = judged(tmp_path / "run")
    assert verdict.exit_code == checker.VIOLATION
    assert any(expected in text for text in verdict.violations), verdict.violations


def test_the_judge_shares_no_code_with_the_judged() -> None:
    script = "import chaos.checker, sys; sys.exit(any(name.split('.')[0] == 'forebay' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
