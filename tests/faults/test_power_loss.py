"""The power is cut after every step of one task's path: whatever was acknowledged is there, and nothing is half.

What the disk does, and what is not modelled of it, stands in `power.py`. The files that a cut leaves are opened by the
ordinary VFS and judged twice: at once, against what had been acknowledged, and after the path was gone to its end.

With FOREBAY_FUZZ=1, or by `./dev chaos power`, nothing is sampled.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from chaos import checker, evidence, inheritance, journal
from chaos.client import Client
from forebay.clock import ManualClock
from forebay.stores.sqlite import connection, files
from forebay.stores.sqlite.connection import connect
from forebay.stores.sqlite.ledger import SqliteLedger
from tests.faults import power
from tests.faults.path import finish, walk, walk_again

EVERY_STEP = bool(os.environ.get("FOREBAY_FUZZ"))
SAMPLED = 60


@dataclass(slots=True)
class Diary:
    """A journal in memory that knows after which step each line was written."""

    disk: power.Disk
    lines: list[tuple[int, journal.Record]] = field(default_factory=list)

    def note(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - whatever JSON takes
        self.lines.append((len(self.disk.steps), {"e": event, "m": float(len(self.lines)), "w": 0.0, **fields}))

    def until(self, step: int) -> list[journal.Record]:
        return [record for at, record in self.lines if at <= step]


@dataclass(slots=True)
class Recording:
    """One walk along the path: its steps, and what was asked and told between them."""

    steps: list[power.Step]
    diary: Diary

    def images(self) -> Iterator[tuple[int, dict[str, bytes]]]:
        """What is left when nothing unsynced survives, with the last step after which it is still so."""
        platter, image = power.Platter(), dict[str, bytes]()
        for number, step in enumerate(self.steps, 1):
            if platter.apply(step) and platter.survivors() != image:
                yield number - 1, image
                image = platter.survivors()
        yield len(self.steps), image

    def after_each(self, chance: random.Random) -> Iterator[tuple[int, power.Platter]]:
        """The disk after every step, or after some of them where time is short."""
        numbers = range(1, len(self.steps) + 1)
        chosen = set(numbers if EVERY_STEP else chance.sample(numbers, SAMPLED))
        platter = power.Platter()
        for number, step in enumerate(self.steps, 1):
            platter.apply(step)
            if number in chosen:
                yield number, platter


def record(folder: Path, *pragmas: str, monkeypatch: pytest.MonkeyPatch) -> Recording:
    def connected(path: Path, **options: Any) -> apsw.Connection:  # noqa: ANN401 - as connect
        db = connect(path, **options)
        for pragma in pragmas:
            db.execute(f"PRAGMA {pragma}")
        return db

    disk = power.Disk()
    diary = Diary(disk)
    diary.note("born", unanswered=[])
    clock = ManualClock()
    with power.vfs(disk) as vfs, monkeypatch.context() as patch:
        patch.setattr(files, "connect", connected)
        for path in (walk, walk_again):
            with SqliteLedger(folder / "ledger.db", clock=clock, vfs=vfs) as ledger:
                path(Client(ledger, diary, path.__name__, seed=0, loses=False), clock)
    return Recording(disk.steps, diary)


def judged(recording: Recording, number: int, image: dict[str, bytes], folder: Path) -> list[str]:
    """All that is wrong after a cut behind this step: first as it was found, then at the end of the path."""
    power.put(image, folder)
    logs = folder / "logs"
    logs.mkdir()
    before = recording.diary.until(number)
    (logs / "w-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in before))
    file = folder / "ledger.db"
    clock = ManualClock()
    ledger = SqliteLedger(file, clock=clock)
    found = list(ledger.check())
    seen = evidence.gather(file, logs)
    found += [*lost(seen), *half(seen)]
    book = journal.Journal(logs / "w-1.jsonl")
    past = inheritance.of(logs, [("w", 1)])
    finish(Client(ledger, book, "finish", seed=0, loses=False), clock, past.unanswered)
    ledger.close()
    book.close()
    return found + checker.judge(file, logs).violations


def lost(seen: evidence.Evidence) -> Iterator[str]:
    """What was acknowledged and is not there right after the restart."""
    for told in (told for question in seen.of("submit") for told in question.told):
        yield from (f"{id_} is gone" for id_, _ in told["outcomes"] if id_ not in {*seen.tasks, *seen.jobs})
    for told in (told for question in seen.of("exchange") for told in question.told):
        for id_, token, _ in told["claims"]:
            if id_ not in seen.tasks or seen.tasks[id_].claim_count < token:
                yield f"the claim of {id_} is gone"
        for id_, token, _ in told["settled"]:
            task = seen.tasks.get(id_)
            if task is None or task.status != "completed" or json.loads(task.result or "{}").get("token") != token:
                yield f"the result of {id_} is gone"
            if token not in [one.token for one in seen.history[id_]]:
                yield f"the history of {id_} is gone"


def half(seen: evidence.Evidence) -> Iterator[str]:
    """A merge is there exactly when the last chunk has ended."""
    for job in seen.jobs.values():
        members = [task for task in seen.tasks.values() if task.job_id == job.id]
        closed = all(task.status == "completed" for task in members if task.role == "chunk")
        if closed != (sum(task.role == "merge" for task in members) == 1):
            yield f"the chunks of {job.id} and its merge do not fit"


NAMES = ["as it is", pytest.param("checkpoints", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Recording]]:
    with pytest.MonkeyPatch.context() as patch:
        yield {
            "as it is": record(tmp_path_factory.mktemp("plain"), monkeypatch=patch),
            # A checkpoint in nearly every commit: the log begins anew again and again, over its old frames.
            "checkpoints": record(tmp_path_factory.mktemp("often"), "wal_autocheckpoint = 8", monkeypatch=patch),
            "unsynced": record(tmp_path_factory.mktemp("normal"), "synchronous = NORMAL", monkeypatch=patch),
        }


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_acknowledged_is_lost_when_the_power_is_cut_after_any_step(
    name: str, recordings: dict[str, Recording], tmp_path: Path
) -> None:
    recording = recordings[name]
    images = list(recording.images())
    assert len(recording.steps) > 200
    assert len(images) > 15
    assert images[-1][0] == len(recording.steps)
    for number, image in images:
        assert judged(recording, number, image, tmp_path / f"{number}") == [], f"cut after step {number}"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_acknowledged_is_lost_when_a_part_of_what_was_not_synced_survives(
    name: str, recordings: dict[str, Recording], tmp_path: Path
) -> None:
    recording = recordings[name]
    chance = random.Random(7)
    for number, platter in recording.after_each(chance):
        found = judged(recording, number, platter.torn(chance), tmp_path / f"{number}")
        assert found == [], f"cut after step {number}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_acknowledged_is_lost_when_the_process_is_killed_after_any_step(
    name: str, recordings: dict[str, Recording], tmp_path: Path
) -> None:
    recording = recordings[name]
    for number, platter in recording.after_each(random.Random(8)):
        found = judged(recording, number, platter.written(), tmp_path / f"{number}")
        assert found == [], f"killed after step {number}"


def test_folders_that_the_ledger_makes_are_synced_into_those_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(connection, "sync", synced.append)
    ledger = SqliteLedger(tmp_path / "a" / "b" / "ledger.db")
    assert ledger.check() == []
    ledger.close()
    assert synced == [tmp_path, tmp_path / "a"]


def test_a_ledger_that_does_not_sync_every_commit_is_caught(recordings: dict[str, Recording], tmp_path: Path) -> None:
    recording = recordings["unsynced"]
    found = [
        text
        for number, image in recording.images()
        for text in judged(recording, number, image, tmp_path / f"{number}")
    ]
    assert any("is gone" in text for text in found)
