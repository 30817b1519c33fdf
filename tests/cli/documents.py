"""Documents in a folder of their own, and `forebay run` over them with a processor that writes down each call."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.ground import Answer, Ground
from tests.pipelines.ground import pdf

APP = f"{Path(__file__).with_name('reader_app.py')}:app"
WITH = ("--app", APP, "--processor", "noted")


class Desk:
    def __init__(self, here: Ground) -> None:
        self.here = here
        self.folder = here.home.parent

    def put(self, name: str, page_count: int = 3, text: str = "Page {}") -> Path:
        """A document whose page n says so."""
        return self.write(name, pdf(page_count, text))

    def write(self, name: str, raw: bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        return path

    def tell(self, what: str, value: float) -> None:
        (self.folder / what).write_text(str(value))

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def run(self, *arguments: str) -> Answer:
        return self.here.run("run", *arguments, *WITH)

    def ok(self, *arguments: str) -> Answer:
        answer = self.run(*arguments)
        assert answer.code == 0, answer
        return answer

    @property
    def calls(self) -> list[str]:
        log = self.folder / "calls"
        return sorted(log.read_text().split()) if log.exists() else []

    def there(self) -> set[str]:
        """The files, without those that belong to the test."""
        files = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        others = {"calls", "sleep", "block", "refuse", "down", "words"}
        return {str(file) for file in files if file.parts[0] != "home" and str(file) not in others}

    @contextmanager
    def started(self, *arguments: str, processor: str = "noted") -> Iterator[subprocess.Popen[str]]:
        """In a process of its own, ended with the block."""
        with subprocess.Popen(
            command(*arguments, processor=processor),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def until(self, condition: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + 90
        while not condition():
            assert time.monotonic() < ends_at
            time.sleep(0.02)


def command(*arguments: str, processor: str = "noted") -> list[str]:
    return [sys.executable, "-m", "forebay", "run", *arguments, "--app", APP, "--processor", processor]
