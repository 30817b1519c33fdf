"""The commands of the README and of the first tutorial do what the pages say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay import Forebay

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FOREBAY = [sys.executable, "-m", "forebay"]


class Page:
    """A page, and a folder in which its files lie and its commands run."""

    def __init__(self, page: Path, folder: Path, **environment: str) -> None:
        self.folder = folder
        self._blocks: list[tuple[str, str]] = BLOCK.findall(page.read_text(encoding="utf-8"))
        commands = "\n".join(text for language, text in self._blocks if language == "sh")
        self._commands = {line.partition("  #")[0].strip() for line in commands.splitlines()}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        self.environment = kept | {"COLUMNS": "200"} | environment
        self._workers: list[subprocess.Popen[bytes]] = []

    def save(self, language: str, name: str) -> None:
        text = next(text for found, text in self._blocks if found == language)
        (self.folder / name).write_text(text, encoding="utf-8")

    def says(self, command: str) -> None:
        assert command in self._commands

    def run(self, command: str, *arguments: str, identifier: str = "") -> str:
        """A command as the page has it, up to its arguments."""
        self.says(" ".join(["forebay", command, *(f"'{each}'" for each in arguments), *(["ID"] if identifier else [])]))
        given = [*command.split(), *arguments, *([identifier] if identifier else [])]
        done = subprocess.run(
            [*FOREBAY, *given], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def worker(self) -> subprocess.Popen[bytes]:
        self.says("forebay worker tasks:app")
        command = [*FOREBAY, "worker", "tasks:app"]
        self._workers.append(
            subprocess.Popen(command, cwd=self.folder, env=self.environment, stderr=subprocess.DEVNULL)
        )
        return self._workers[-1]

    def until(self, status: str, identifier: str) -> None:
        ends_at = time.monotonic() + 100
        (file,) = self.folder.rglob("forebay.db")
        with Forebay(f"sqlite:///{file}") as app:
            while app.get(identifier).status != status:
                assert time.monotonic() < ends_at, app.get(identifier)
                time.sleep(0.02)

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()


@pytest.fixture
def readme(tmp_path: Path) -> Iterator[Page]:
    page = Page(ROOT / "README.md", tmp_path, FOREBAY_LEDGER="sqlite:///forebay.db", FOREBAY_HOME=str(tmp_path))
    yield page
    page.close()


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Page]:
    page = Page(ROOT / "docs" / "tutorial" / "first-worker.md", tmp_path)
    yield page
    page.close()


def test_the_readme_names_the_two_commands_of_a_fresh_checkout_side_by_side() -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    commands = [[line.partition("  #")[0].strip() for line in text.splitlines()] for _, text in blocks]
    assert ["./dev run examples/documents --out out", "./dev test"] in commands


def test_the_commands_of_the_readme(readme: Page) -> None:
    readme.save("python", "tasks.py")
    readme.says("python tasks.py")
    readme.says("export FOREBAY_LEDGER=sqlite:///forebay.db")
    task = readme.run("submit -t read_page -i", '{"page": 2}')
    worker = readme.worker()
    readme.until("completed", task)
    assert "text of page 2" in readme.run("get", identifier=task)
    assert "claimed by" in readme.run("history", identifier=task[:10])
    assert "it is completed" in readme.run("why", identifier=task)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(timeout=60) == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_first_worker_is_told_to_wait_is_killed_and_another_goes_on(tutorial: Page) -> None:
    tutorial.save("toml", "forebay.toml")
    tutorial.save("python", "tasks.py")
    task = tutorial.run("submit -t greet -i", '{"name": "Ada"}')
    assert "1. no_worker: no worker that runs 'greet' is alive: start one" in tutorial.run("why", identifier=task)
    worker = tutorial.worker()
    tutorial.until("completed", task)
    assert "reschedule_count: 1 " in tutorial.run("get", identifier=task)
    assert tutorial.run("result", identifier=task) == '"hello Ada"'
    assert "count: 1, 429 from the greeting service" in tutorial.run("history", identifier=task)

    assert f"-{worker.pid} " in tutorial.run("workers")
    # Of the page's 20 seconds, enough to be killed in.
    tutorial.says("""forebay submit -t nap -i '{"seconds": 20}'""")
    nap = subprocess.check_output(
        [*FOREBAY, "submit", "-t", "nap", "-i", '{"seconds": 3}'],
        cwd=tutorial.folder,
        env=tutorial.environment,
        text=True,
    ).strip()
    tutorial.until("running", nap)
    worker.kill()
    worker.wait()
    tutorial.worker()
    tutorial.until("completed", nap)
    assert "pending (lost, its session ended)" in tutorial.run("history", identifier=nap)
