from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forebay.app.draft import draft, path_of

KILLED = """
import os, sys
from pathlib import Path
from forebay.app.draft import draft
with draft(Path(sys.argv[1])):
    os.kill(os.getpid(), 9)
"""


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_draft_is_gone_with_its_block_and_stays_where_it_was_given_the_name(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "scan.md"
    with pytest.raises(ZeroDivisionError), draft(target):
        raise ZeroDivisionError
    assert left(target.parent) == []
    with draft(target) as (path, file):
        file.write(b"text")
        file.flush()
        path.replace(target)
    assert (left(target.parent), target.read_bytes()) == (["scan.md"], b"text")


def test_what_a_process_that_was_killed_has_left_is_removed_by_the_next_draft(tmp_path: Path) -> None:
    target = tmp_path / "scan.md"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False, timeout=150)
    assert killed.returncode == -signal.SIGKILL
    assert left(tmp_path) == [path_of(target).name]
    with draft(target) as (path, _):
        assert left(tmp_path) == [path.name]
    assert left(tmp_path) == []


def test_a_draft_that_somebody_writes_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "scan.md"
    with draft(target) as (first, one):
        with draft(target) as (second, other):
            assert first != second
            other.write(b"second")
        one.write(b"first")
        one.flush()
        assert first.read_bytes() == b"first"
        first.replace(target)
        with draft(target) as (third, _):
            assert third == first
        assert left(tmp_path) == ["scan.md"]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "scan.md"
    mine = tmp_path / "mine"
    mine.write_bytes(b"my own")
    path_of(target).symlink_to(mine)
    with draft(target) as (path, file):
        file.write(b"theirs")
        assert path != path_of(target)
    assert mine.read_bytes() == b"my own"
