"""Every Python block in the documents runs as it stands; the blocks of a page share their names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAYS = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
PAGES = [page for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]) if BLOCK.search(page.read_text())]


GUIDES = ROOT / "docs" / "how-to"


def _marked(page: Path) -> object:
    return pytest.param(page, marks=pytest.mark.slow if page.is_relative_to(GUIDES) else ())


@pytest.mark.parametrize("page", [_marked(page) for page in PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_and_print_what_they_say(page: Path, tmp_path: Path) -> None:
    code = "\n".join(BLOCK.findall(page.read_text()))
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    printed = run.stdout.splitlines()
    for said in SAYS.findall(code):
        assert said in printed, f"{said!r} is not among {printed}"


def test_the_main_pages_have_examples() -> None:
    tutorials = {ROOT / "docs/tutorial/first-job.md", ROOT / "docs/tutorial/first-worker.md"}
    assert {ROOT / "README.md", *tutorials} <= set(PAGES)
