"""Writers into a folder are killed at random moments: no half blob may ever have its name."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from forebay.blobs import open_blobs

KILLS = 120

# Its own process: one that forks must have no threads. It judges by file names and hashlib alone.
BUTCHER = """
import hashlib, json, os, pathlib, random, signal, sys, time
from forebay.blobs import open_blobs

root, kills, honest = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "honest"
chance = random.Random(7)

def pieces(number):
    dice = random.Random(number)
    return [dice.randbytes(dice.choice([10, 4096, 100_000])) for _ in range(dice.randrange(1, 12))]

def write(number):
    blobs = open_blobs(root.as_uri())
    while True:
        number += 1
        if honest:
            blobs.put("t", pieces(number))
        else:
            name = hashlib.sha256(b"".join(pieces(number))).hexdigest()
            path = root / "blobs" / "t" / name[:2] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb", buffering=0) as file:
                for piece in pieces(number):
                    file.write(piece)

checked, half, drafts, turn, longest_s, until = {}, [], 0, 0, 0.04, time.monotonic() + 30
# On a slow disk it takes longer until enough was written to judge.
while turn < kills or (len(checked) < kills / 4 and time.monotonic() < until):
    turn += 1
    seen = len(checked)
    child = os.fork()
    if child == 0:
        write(turn * 1_000_000)
    time.sleep(chance.uniform(0.001, longest_s))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for path in root.glob("blobs/*/*/*"):
        stamp = path.stat().st_mtime_ns
        if checked.get(path) != stamp:
            checked[path] = stamp
            if hashlib.sha256(path.read_bytes()).hexdigest() != path.name:
                half.append(path.name)
    drafts = sum(1 for _ in root.glob("tmp/*"))
    if len(checked) == seen:
        longest_s = min(longest_s * 1.1, 0.5)
print(json.dumps({"blobs": len(checked), "half": half, "drafts": drafts}))
"""


def killed(root: Path, writer: str, kills: int) -> tuple[int, list[str], int]:
    run = subprocess.run(
        [sys.executable, "-c", BUTCHER, str(root), str(kills), writer],
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    seen = json.loads(run.stdout)
    return seen["blobs"], seen["half"], seen["drafts"]


@pytest.mark.slow
def test_kill_9_at_any_moment_leaves_whole_blobs_and_drafts_that_the_sweep_removes(tmp_path: Path) -> None:
    blob_count, half, draft_count = killed(tmp_path, "honest", KILLS)
    assert half == []
    # Else nothing was written, or nobody was hit while writing, and the test has shown nothing.
    assert blob_count >= KILLS / 4
    assert draft_count > 0

    blobs = open_blobs(tmp_path.as_uri())
    listed = list(blobs.list("t"))
    assert len(listed) == blob_count
    assert all(hashlib.sha256(blobs.get(ref)).hexdigest() == ref.sha256 for ref in listed)
    assert blobs.sweep(lambda _, asked: asked).draft_count == 0
    assert blobs.sweep(lambda _, asked: asked, older_than_s=0).draft_count == draft_count
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list(blobs.list("t")) == listed


@pytest.mark.slow
def test_a_writer_that_writes_under_the_final_name_is_caught(tmp_path: Path) -> None:
    _, half, _ = killed(tmp_path, "careless", 40)
    assert half != []


@pytest.mark.parametrize("signal_name", ["SIGTERM", "SIGINT"])
def test_a_writer_that_is_asked_to_stop_leaves_no_half_blob(signal_name: str, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from forebay.blobs import open_blobs\n"
        "def source():\n"
        "    yield b'half'\n"
        f"    os.kill(os.getpid(), signal.{signal_name})\n"
        "    yield b'never'\n"
        "open_blobs(sys.argv[1]).put('t', source())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, tmp_path.as_uri()], capture_output=True, timeout=150, check=False
    )
    assert run.returncode != 0
    assert list(tmp_path.glob("blobs/*/*/*")) == []
