import errno
import fcntl
import os
import random
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from forebay.blobs import BlobRef, Blobs, open_blobs
from forebay.errors import (
    ForebayError,
    NotFound,
    ResultCorrupt,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)

DAY_S = 86_400.0


def nobody(_: str, __: Sequence[str]) -> set[str]:
    return set()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def blobs(root: Path) -> Blobs:
    return open_blobs(root.as_uri())


CALLS: dict[str, Callable[[Blobs, BlobRef], Any]] = {
    "get": lambda blobs, ref: blobs.get(ref),
    "exists": lambda blobs, ref: blobs.exists(ref),
    "delete": lambda blobs, ref: blobs.delete(ref),
    "list": lambda blobs, ref: list(blobs.list(ref.tenant)),
    "sweep": lambda blobs, _: blobs.sweep(nobody),
    "sweep at a given time": lambda blobs, _: blobs.sweep(nobody, now=4_000_000_000),
}


def path_of(root: Path, ref: BlobRef) -> Path:
    return root / "blobs" / ref.tenant / ref.sha256[:2] / ref.sha256


def age(path: Path, seconds: float) -> None:
    seen = path.stat()
    os.utime(path, (seen.st_atime, seen.st_mtime - seconds))


def test_only_the_owner_may_look_into_files_and_folders(root: Path, blobs: Blobs) -> None:
    blobs.put("t", b"bytes")
    for path in (root, *root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_a_put_leaves_one_file_and_nothing_temporary(root: Path, blobs: Blobs) -> None:
    ref = blobs.put("t", [b"by", b"tes"])
    assert [path for path in root.rglob("*") if path.is_file()] == [path_of(root, ref)]


def test_putting_again_makes_a_blob_young(root: Path, blobs: Blobs) -> None:
    path = path_of(root, blobs.put("t", b"bytes"))
    age(path, 2 * DAY_S)
    old = path.stat().st_mtime
    blobs.put("t", b"bytes")
    assert path.stat().st_mtime > old + DAY_S


def test_a_blob_whose_bytes_came_slowly_is_young_when_it_gets_its_name(root: Path, blobs: Blobs) -> None:
    def slow() -> Iterator[bytes]:
        yield b"bytes"
        [draft] = (root / "tmp").iterdir()
        age(draft, 2 * DAY_S)

    ref = blobs.put("t", slow())
    assert blobs.sweep(nobody).blob_count == 0
    assert blobs.exists(ref)


def test_a_link_in_the_place_of_a_blob_is_never_followed(root: Path, blobs: Blobs) -> None:
    ref = blobs.put("t", b"bytes")
    path = path_of(root, ref)
    target = root.parent / "elsewhere"
    path.rename(target)
    path.symlink_to(target)
    with pytest.raises(ResultCorrupt):
        blobs.get(ref)
    assert not blobs.exists(ref)
    assert list(blobs.list("t")) == []
    blobs.put("t", b"bytes")
    assert blobs.get(ref) == b"bytes"
    assert not path.is_symlink()


@pytest.mark.parametrize("depth", [2, 3])
def test_a_link_in_the_place_of_a_folder_is_never_followed(depth: int, root: Path, blobs: Blobs) -> None:
    ref = blobs.put("t", b"bytes")
    folder = path_of(root, ref).parents[3 - depth]
    target = root.parent / "elsewhere"
    folder.rename(target)
    folder.symlink_to(target)
    with pytest.raises(ResultCorrupt):
        blobs.get(ref)
    with pytest.raises(StoreCorrupt, match="link"):
        blobs.put("t", b"bytes")
    assert not blobs.exists(ref)
    assert list(blobs.list("t")) == []
    blobs.delete(ref)
    assert blobs.sweep(nobody, older_than_s=0).blob_count == 0
    assert len([path for path in target.rglob("*") if path.is_file()]) == 1


def test_a_root_that_is_itself_a_link_is_the_users_choice(root: Path, blobs: Blobs, tmp_path: Path) -> None:
    ref = blobs.put("t", b"bytes")
    (tmp_path / "link").symlink_to(root)
    assert open_blobs((tmp_path / "link").as_uri()).get(ref) == b"bytes"


def test_a_folder_in_the_place_of_a_blob_is_never_read_or_removed(root: Path, blobs: Blobs) -> None:
    ref = blobs.put("t", b"bytes")
    path_of(root, ref).unlink()
    path_of(root, ref).mkdir()
    with pytest.raises(ResultCorrupt):
        blobs.get(ref)
    with pytest.raises((StoreCorrupt, StoreReadOnly)):
        blobs.put("t", b"bytes")
    with pytest.raises((StoreCorrupt, StoreReadOnly)):
        blobs.delete(ref)
    assert not blobs.exists(ref)
    assert list(blobs.list("t")) == []
    assert blobs.sweep(nobody, older_than_s=0, now=4_000_000_000).blob_count == 0
    assert path_of(root, ref).is_dir()


def test_a_pipe_or_a_socket_in_the_place_of_a_blob_does_not_hold_the_reader(root: Path, blobs: Blobs) -> None:
    ref = blobs.put("t", b"bytes")
    path_of(root, ref).unlink()
    os.mkfifo(path_of(root, ref))
    with pytest.raises(ResultCorrupt):
        blobs.get(ref)
    path_of(root, ref).unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        cwd = os.open(".", os.O_RDONLY)
        try:
            os.chdir(path_of(root, ref).parent)  # a socket's path must be short
            listener.bind(ref.sha256)
        finally:
            os.fchdir(cwd)
            os.close(cwd)
        with pytest.raises(ResultCorrupt):
            blobs.get(ref)


def test_no_flipped_bit_is_ever_served(root: Path, blobs: Blobs) -> None:
    chance = random.Random(1)
    content = chance.randbytes(5000)
    ref = blobs.put("t", content)
    path = path_of(root, ref)
    for place in chance.sample(range(len(content)), 200):
        flipped = bytearray(content)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(ResultCorrupt, match=ref.sha256):
            blobs.get(ref)
        with pytest.raises(ResultCorrupt), blobs.open(BlobRef("t", ref.sha256)):
            pytest.fail("bytes were handed out")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_disk_that_is_not_mounted_is_no_empty_store(
    call: Callable[[Blobs, BlobRef], Any], root: Path, blobs: Blobs, tmp_path: Path
) -> None:
    ref = blobs.put("t", b"bytes")
    root.rename(tmp_path / "unmounted")
    with pytest.raises(StoreUnreachable, match="Mount the disk"):
        call(blobs, ref)
    assert not root.exists()
    root.mkdir()
    with pytest.raises(StoreUnreachable, match="Mount the disk"):
        call(blobs, ref)
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_store_that_was_never_used_is_not_there_before_the_first_put(
    call: Callable[[Blobs, BlobRef], Any], root: Path, blobs: Blobs
) -> None:
    with pytest.raises(StoreUnreachable, match="first put"):
        call(blobs, BlobRef("t", "0" * 64))
    assert not root.exists()
    call(blobs, blobs.put("t", b"bytes"))


def test_an_empty_folder_named_blobs_is_an_empty_store(root: Path, blobs: Blobs) -> None:
    (root / "blobs").mkdir(parents=True)
    ref = BlobRef("t", "0" * 64)
    with pytest.raises(NotFound):
        blobs.get(ref)
    assert not blobs.exists(ref)
    assert list(blobs.list("t")) == []
    blobs.delete(ref)
    assert blobs.sweep(nobody).blob_count == 0


def test_a_disk_that_goes_away_during_a_list_does_not_end_it_early(root: Path, blobs: Blobs, tmp_path: Path) -> None:
    for number in range(20):
        blobs.put("t", str(number).encode())
    listed = blobs.list("t")
    next(listed)
    root.rename(tmp_path / "unmounted")
    with pytest.raises(StoreUnreachable, match="Mount the disk"):
        list(listed)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("misplaced", ["a file as root", "a file as blobs", "a link as blobs"])
def test_what_is_no_folder_in_the_place_of_the_store_is_refused(
    misplaced: str, call: Callable[[Blobs, BlobRef], Any], root: Path, blobs: Blobs, tmp_path: Path
) -> None:
    ref = blobs.put("t", b"bytes")
    elsewhere = tmp_path / "elsewhere"
    place = root if misplaced.endswith("root") else root / "blobs"
    place.rename(elsewhere)
    if misplaced.startswith("a file"):
        place.write_bytes(b"not a folder")
    else:
        place.symlink_to(elsewhere)
    with pytest.raises(StoreCorrupt, match="is not the folder"):
        call(blobs, ref)
    with pytest.raises(StoreCorrupt, match="is not the folder"):
        blobs.put("t", b"bytes")
    assert len(list(elsewhere.rglob(ref.sha256))) == 1


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.EIO, StoreUnreachable), (errno.EACCES, StoreUnreachable), (errno.ESTALE, StoreUnreachable)],
)
def test_a_read_that_the_disk_refuses_is_no_lost_blob(
    number: int, expected: type[ForebayError], blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = blobs.put("t", b"bytes")

    def read(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "read", read)
    with pytest.raises(expected):
        blobs.get(ref)


def test_what_dead_writers_left_goes_after_a_day_and_foreign_files_stay(root: Path, blobs: Blobs) -> None:
    blobs.put("t", b"bytes")
    (root / "tmp" / ("a" * 32)).write_bytes(b"left behind")
    (root / "tmp" / ("b" * 32)).write_bytes(b"being written")
    (root / "tmp" / "notes.txt").write_bytes(b"foreign")
    (root / "blobs" / "readme.txt").write_bytes(b"foreign")
    (root / "blobs" / "t" / "zz").mkdir()
    for path in (root / "tmp" / ("a" * 32), root / "tmp" / "notes.txt", root / "blobs" / "readme.txt"):
        age(path, 2 * DAY_S)
    swept = blobs.sweep(nobody)
    assert (swept.blob_count, swept.draft_count) == (0, 1)
    assert sorted(path.name for path in (root / "tmp").iterdir()) == ["b" * 32, "notes.txt"]
    assert (root / "blobs" / "readme.txt").exists()


def test_a_sweep_leaves_a_shard_in_which_somebody_writes(root: Path, blobs: Blobs) -> None:
    ref = blobs.put("t", b"bytes")
    age(path_of(root, ref), 2 * DAY_S)
    backend = blobs._backend
    publish_started, go_on = threading.Event(), threading.Event()
    real = os.utime

    def paused(fd: int) -> None:
        publish_started.set()
        assert go_on.wait(10)
        real(fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "utime", paused)
        writer = threading.Thread(target=blobs.put, args=("t", b"bytes"))
        writer.start()
        assert publish_started.wait(10)
        assert not backend.delete_if_older(ref, backend.now())
        go_on.set()
        writer.join()
    assert blobs.sweep(nobody).blob_count == 0
    assert blobs.get(ref) == b"bytes"


@pytest.mark.parametrize("locks", ["real", "none"])
def test_a_put_between_the_last_look_and_the_deletion_is_undone_only_without_locks(
    locks: str, root: Path, blobs: Blobs
) -> None:
    ref = blobs.put("t", b"bytes")
    age(path_of(root, ref), 2 * DAY_S)
    writer = threading.Thread(target=blobs.put, args=("t", b"bytes"))
    real = os.unlink

    def deleting(name: str, *, dir_fd: int) -> None:
        if name == ref.sha256:
            writer.start()
            writer.join(0.3)
        real(name, dir_fd=dir_fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", deleting)
        if locks == "none":
            patch.setattr(fcntl, "flock", lambda *_: None)
        assert blobs.sweep(nobody).blob_count == 1
        writer.join()
    assert blobs.exists(ref) == (locks == "real")


@pytest.mark.slow
def test_putting_and_sweeping_the_same_blob_all_the_time_never_loses_it(root: Path, blobs: Blobs) -> None:
    stop = threading.Event()
    swept: list[int] = []

    def sweep() -> None:
        while not stop.is_set():
            swept.append(blobs.sweep(nobody).blob_count)

    blobs.put("t", b"bytes")
    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for _ in range(200):
            ref = blobs.put("t", b"bytes")
            assert blobs.get(ref) == b"bytes"
            age(path_of(root, ref), 2 * DAY_S)
    finally:
        stop.set()
        sweeper.join()
    assert sum(swept) > 0


FULL_DISK = """
import resource, signal, sys
from forebay.blobs import open_blobs
from forebay.errors import StoreFull
blobs = open_blobs(sys.argv[1])
small = blobs.put("t", b"small")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    blobs.put("t", [b"x" * 300_000] * 10)
except StoreFull as error:
    print(error)
assert blobs.get(small) == b"small"
assert list(blobs.list("t")) == [small]
blobs.put("t", b"fits")
"""


def test_a_disk_that_gets_full_half_way_keeps_what_was_there_and_nothing_half(root: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, root.as_uri()], capture_output=True, text=True, timeout=150, check=True
    )
    assert run.stdout.startswith("No room left in file://")
    assert list((root / "tmp").iterdir()) == []
    assert StoreFull.http_status == 507
