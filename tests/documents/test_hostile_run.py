"""Hostile files through the whole command: each ends in its class, the others finish, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.documents.make import make
from tests.documents.hostile import COMPLETED, KINDS, write

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # the first of them waits for the run over all
FAILED_SOME = 3
MOST_MB = 300
# No output has room for its suffix.
REFUSED_NAMES = {"longest name": frozenset({"bad_input"})}
# The parent alone, since it began: its children bound themselves, and getrusage counts what was before it, too.
MEASURED = """
import sys
from forebay.cli import main
code = main()
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What `forebay run` says of each kind, all of them in one run together with a sound document."""
    folder = tmp_path_factory.mktemp("hostile")
    files = write(folder / "files")
    make(folder / "innocent")
    innocent = folder / "innocent" / "text.pdf"
    run = subprocess.run(
        [
            *(sys.executable, "-c", MEASURED, "run", "--out", str(folder / "out"), "-o", "json", "--"),
            *(os.fsencode(file) for file in files.values()),
            str(innocent),
        ],
        env={name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        | {"FOREBAY_HOME": str(folder / "home")},
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == FAILED_SOME, run.stderr
    assert b"Traceback" not in run.stderr
    assert int(run.stderr.splitlines()[-1]) / 1024 < MOST_MB
    told = json.loads(run.stdout)
    assert len(told) == len(files) + 1
    return dict(zip([*files, "innocent"], told, strict=True))


@pytest.mark.parametrize("name", KINDS)
def test_a_hostile_file_ends_in_its_class(name: str, ended: dict[str, dict[str, Any]]) -> None:
    told = ended[name]
    end = COMPLETED if told["status"] == "completed" else told["error_class"]
    assert end in KINDS[name].ends | REFUSED_NAMES.get(name, frozenset())
    if end != COMPLETED:
        assert told["error_text"]
        assert told["remedy"]
        assert "Traceback" not in told["error_text"]
        assert "_io." not in told["error_text"]


def test_the_innocent_one_among_them_is_read(ended: dict[str, dict[str, Any]]) -> None:
    assert (ended["innocent"]["status"], ended["innocent"]["page_count"]) == ("completed", 3)


def test_all_outputs_lie_in_the_folder_that_was_named(ended: dict[str, dict[str, Any]]) -> None:
    for told in ended.values():
        assert {Path(each).parent.name for each in told["outputs"]} <= {"out"}
