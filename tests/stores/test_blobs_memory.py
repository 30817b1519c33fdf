"""Streams a blob much larger than the memory it may take, in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.fresh import fresh_bucket
from tests.servers.server import Server
from tests.stores.test_blobs import use_s3

MIB = 100
MAX_GROWTH_MIB = 32

STREAM = """
import re, resource, sys
from forebay.blobs import open_blobs

def peak_mib():
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    # On Linux ru_maxrss starts at what the parent had, and would hide the growth.
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

blobs, mib, how = open_blobs(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
piece = bytes(range(256)) * 4096
blobs.get(blobs.put("t", piece))
before = peak_mib()
ref = blobs.put("t", (piece for _ in range(mib)))
if how == "stream":
    with blobs.open(ref) as file:
        while file.read(1 << 20):
            pass
else:
    blobs.get(ref)
print(peak_mib() - before)
"""


@pytest.fixture(params=["folder", "seaweedfs", "ministack"])
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "folder":
        yield tmp_path.as_uri()
        return
    server: Server = request.getfixturevalue(f"{request.param}_server")
    use_s3(monkeypatch, server)
    with fresh_bucket(server) as bucket:
        yield f"s3://{bucket}/prefix"


def growth_mib(address: str, how: str) -> float:
    run = subprocess.run(
        [sys.executable, "-c", STREAM, address, str(MIB), how], capture_output=True, text=True, timeout=150, check=True
    )
    return float(run.stdout)


@pytest.mark.slow
def test_putting_and_opening_100_mib_stays_flat(address: str) -> None:
    assert growth_mib(address, "stream") < MAX_GROWTH_MIB


@pytest.mark.slow
def test_a_reader_that_takes_the_whole_is_seen_by_this_measure(tmp_path: Path) -> None:
    assert growth_mib(tmp_path.as_uri(), "whole") > MIB
