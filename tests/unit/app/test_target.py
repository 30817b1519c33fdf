"""Another process finds an application where it is found here, or is told that it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from pathlib import Path
from forebay import Forebay
from forebay.app.target import locate
from forebay.errors import BadInput

app = Forebay("sqlite:///target.db")


@app.task("plain")
def plain(ctx):
    return 1


"""
WORKS_AT_ONCE = """
app.submit("plain", idempotency_key="once")
try:
    app.work(until_idle=True, processes=1)
except BadInput as error:
    Path("refused").write_text(str(error))
"""


def _run(folder: Path, *arguments: str, stdin: str | None = None) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=kept | {"FOREBAY_HOME": str(folder)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_script_is_found_by_its_file_and_a_module_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text(SCRIPT + "print(locate(app))")
    assert _run(tmp_path, "some.py") == f"{tmp_path}/some.py:app"
    assert _run(tmp_path, "-m", "some") == "some:app"
    assert _run(tmp_path, "-c", "import some") == "some:app"


@pytest.mark.parametrize("way", ["-c", "-"])
def test_what_was_typed_in_is_found_nowhere_and_plain_functions_are_refused(tmp_path: Path, way: str) -> None:
    code = SCRIPT + "print(locate(app))\ntry:\n    app.work()\nexcept BadInput as error:\n    print(error)"
    said = _run(tmp_path, "-c", code) if way == "-c" else _run(tmp_path, "-", stdin=code)
    assert said.startswith("None\n'plain' is a plain function")


@pytest.mark.slow
def test_a_script_that_works_when_it_is_imported_does_not_breed_workers(tmp_path: Path) -> None:
    (tmp_path / "eager.py").write_text(SCRIPT + WORKS_AT_ONCE)
    _run(tmp_path, "eager.py")
    assert "__main__" in (tmp_path / "refused").read_text()
