from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from forebay.model.outcome import Completed
from forebay.testing.workers import lone
from tests.cli.ground import Ground

FULL = Path("/dev/full")


def shell(line: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program as a shell starts it; `line` says what becomes of its streams."""
    command = ["sh", "-c", f'"$@" {line}', "sh", sys.executable, "-m", "forebay", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)


def completed(here: Ground) -> str:
    (identifier,) = here.submit(lone())
    with here.worker() as worker:
        worker.settle(worker.take(), Completed(result_json="3"))
    return identifier


@pytest.mark.parametrize("arguments", [("list",), ("list", "-o", "json"), ("--version",), ("--help",)])
def test_without_stdout_the_answer_goes_nowhere(arguments: tuple[str, ...], here: Ground) -> None:
    here.submit(lone())
    done = shell(">&-", *arguments)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_stderr_a_worker_works(here: Ground) -> None:
    (here.home.parent / "quiet.py").write_text(
        "from forebay import Forebay\napp = Forebay()\n\n\n"
        "@app.task('work')\nasync def work(ctx, **payload):\n    return 1\n"
    )
    (identifier,) = here.submit(lone())
    assert shell("2>&-", "worker", "quiet.py:app", "--until-idle").returncode == 0
    assert here.ok("get", identifier, "-o", "json").json["status"] == "completed"


def test_without_stdin_there_is_no_payload_on_it(here: Ground) -> None:
    done = shell("<&-", "submit", "-t", "add", "-i", "-")
    assert (done.returncode, "There is nothing on standard input" in done.stderr) == (2, True)
    assert not here.ledger.exists()


@pytest.mark.slow
def test_without_any_stream_the_ledger_is_none_of_them(here: Ground) -> None:
    assert shell("<&- >&- 2>&-", "submit", "-t", "add").returncode == 0
    assert len(here.ok("list", "-o", "json").json) == 1
    assert "is sound" in here.ok("store", "check").out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a device that is always full")
@pytest.mark.parametrize("command", ["list", "list -o json", "list -o ndjson", "result", "--help", "list --help"])
def test_an_answer_that_finds_no_space_is_one_complaint(command: str, here: Ground) -> None:
    identifier = completed(here)
    here.submit(*(lone(n) for n in range(100)))
    done = shell(f">{FULL}", *command.split(), *([identifier] if command == "result" else []))
    assert done.returncode == 1
    # Before it, if its buffer held so much, a list may have said that there is more.
    *before, complaint = done.stderr.splitlines()
    assert complaint == (
        "forebay: No space left on device: not all could be written. Free some space, or send the answer elsewhere."
    )
    assert before in ([], ["There are more: see --limit and --all."])


@pytest.mark.parametrize("line", ["| head -1", f">{FULL}"])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a device that is always full")
def test_a_bulk_is_stored_though_nobody_can_read_its_ids(line: str, here: Ground) -> None:
    bulk = here.home.parent / "bulk.jsonl"
    bulk.write_text("1\n" * 5000)
    done = shell(line, "submit", "-t", "add", "--bulk", str(bulk))
    assert ("not all could be written" in done.stderr) == (line == f">{FULL}")
    with here.app() as app:
        assert sum(app.ledger.count().values()) == 5000
