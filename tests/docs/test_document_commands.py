"""The commands of the page about documents do what it says, in its order."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forebay import Forebay
from forebay.model.query import Query
from tests.pipelines.ground import pdf

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "read-documents.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        self.environment = kept | {"HOME": str(folder)}

    def command(self, line: str) -> list[str]:
        return [sys.executable, "-m", *shlex.split(line)]

    def run(self, line: str) -> str:
        run = subprocess.run(
            self.command(line), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, (line, run.stderr)
        return run.stdout

    def watch(self, line: str) -> None:
        """Until what comes is read, and then Ctrl-C."""
        with subprocess.Popen(
            self.command(line), cwd=self.folder, env=self.environment, stderr=subprocess.DEVNULL
        ) as process:
            try:
                (self.folder / "letters" / "late.pdf").write_bytes(pdf(1, "Late {}"))
                ends_at = time.monotonic() + 120
                while not ((self.folder / "out" / "late.md").exists() and self._is_idle()):
                    assert time.monotonic() < ends_at
                    time.sleep(0.05)
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 0
            finally:
                process.kill()

    def _is_idle(self) -> bool:
        [file] = self.folder.rglob("forebay.db")
        with Forebay(f"sqlite:///{file}") as app:
            return all(job.status.terminal for job in app.ledger.list_jobs(Query()).items)


@pytest.mark.slow
def test_the_commands_about_documents_run(tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(2))
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "first.pdf").write_bytes(pdf(1, "Dear {}"))
    blocks: list[tuple[str, str]] = BLOCK.findall(TEXT)
    (python,) = (text for language, text in blocks if language == "python")
    (tmp_path / "mine.py").write_text(python)
    shell = Shell(tmp_path)
    said = {}
    for line in "".join(text for language, text in blocks if language == "sh").splitlines():
        if "--watch" in line:
            shell.watch(line)
            continue
        if "JOB" in line:
            jobs = json.loads(shell.run("forebay list --jobs -o json"))
            line = line.replace("JOB", next(job["id"] for job in jobs if job["label"] == "first.pdf"))  # noqa: PLW2901
        said[line] = shell.run(line)
    assert {"scan.md", "scan.json"} <= {path.name for path in tmp_path.iterdir()}
    out = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").iterdir()}
    assert {"scan.ocr.pdf", "first.txt", "first.ocr.pdf", "late.md"} <= out
    assert said["forebay estimate scan.pdf"].startswith("FILE")
    assert [line for line in said if line.startswith("forebay result") and "Dear 1" in said[line]]
    records = [json.loads(line) for line in said["forebay run letters --out out -o ndjson"].splitlines()]
    assert {record["status"] for record in records} == {"completed"}
    assert "page 2" in (tmp_path / "mine" / "scan.md").read_text()
