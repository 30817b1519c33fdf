import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forebay.blobs import BlobRef, folder_draft, open_blobs
from forebay.errors import (
    MaybeApplied,
    NotFound,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from tests.unit.blobs.power_loss import Disk, watched


def put_and_lose_power(root: Path) -> tuple[Disk, BlobRef]:
    with watched(root) as disk:
        ref = open_blobs((root / "deep" / "er").as_uri()).put("t", [b"some", b"bytes"])
    return disk, ref


def path_of(ref: BlobRef) -> tuple[str, ...]:
    return ("deep", "er", "blobs", "t", ref.shard, ref.sha256)


def test_a_blob_and_every_folder_above_it_survive_a_power_cut_when_put_returned(tmp_path: Path) -> None:
    disk, ref = put_and_lose_power(tmp_path)
    assert disk.survives(*path_of(ref))


def test_at_no_step_does_a_blob_have_its_name_before_its_bytes_are_durable(tmp_path: Path) -> None:
    disk, _ = put_and_lose_power(tmp_path)
    assert disk.half_visible == []
    assert disk.steps[-2:] == ["rename", "fsync"]


def test_a_put_without_the_folder_sync_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_draft, "sync_names", lambda *_: None)
    disk, ref = put_and_lose_power(tmp_path)
    assert not disk.survives(*path_of(ref))


def test_a_put_without_the_file_sync_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(tmp_path) as disk, monkeypatch.context() as patch:
        seen = os.fsync
        patch.setattr(os, "fsync", lambda fd: seen(fd) if is_folder(fd) else None)
        open_blobs(tmp_path.as_uri()).put("t", b"bytes")
    assert disk.half_visible != []


def test_a_folder_that_another_process_made_is_synced_all_the_same(tmp_path: Path) -> None:
    open_blobs((tmp_path / "deep" / "er").as_uri()).put("t", [b"some", b"bytes"])
    with watched(tmp_path) as disk:
        ref = open_blobs((tmp_path / "deep" / "er").as_uri()).put("t", [b"some", b"bytes"])
    synced = set(disk.synced_names)
    folders = [tmp_path.joinpath(*path_of(ref)[:depth]) for depth in range(1, 6)]
    assert {folder.stat().st_ino for folder in folders} <= synced


def test_a_second_put_into_known_folders_syncs_only_the_file_and_its_folder(tmp_path: Path) -> None:
    blobs = open_blobs(tmp_path.as_uri())
    blobs.put("t", b"bytes")
    with watched(tmp_path) as disk:
        blobs.put("t", b"bytes")
    assert disk.steps == ["create", "write", "fsync", "rename", "fsync"]


def test_folders_that_were_removed_meanwhile_are_made_again(tmp_path: Path) -> None:
    blobs = open_blobs(tmp_path.as_uri())
    path = tmp_path / blobs.put("t", b"bytes").key
    path.unlink()
    path.parent.rmdir()
    path.parent.parent.rmdir()
    with watched(tmp_path) as disk:
        ref = blobs.put("t", b"bytes")
    assert blobs.get(ref) == b"bytes"
    assert disk.steps.count("mkdir") == 2
    assert {path.parent.parent.parent.stat().st_ino, path.parent.parent.stat().st_ino} <= set(disk.synced_names)


def is_folder(fd: int) -> bool:
    return stat.S_ISDIR(os.fstat(fd).st_mode)


def failing(number: int, when: Callable[..., bool] = lambda *_: True) -> Callable[[Callable[..., Any]], Any]:
    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - stands in for any call
            if when(*args):
                raise OSError(number, os.strerror(number))
            return real(*args, **kwargs)

        return call

    return wrap


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EFBIG, StoreFull),
        (errno.EROFS, StoreReadOnly),
        (errno.EACCES, StoreReadOnly),
        (errno.EPERM, StoreReadOnly),
        (errno.EIO, StoreUnreachable),
        (errno.ESTALE, StoreUnreachable),
    ],
)
@pytest.mark.parametrize("step", ["open", "write", "fsync", "rename"])
def test_what_the_disk_refuses_has_our_name_and_leaves_nothing(
    step: str, number: int, expected: type[StoreError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = open_blobs(tmp_path.as_uri())
    before = blobs.put("t", b"stored before")
    with monkeypatch.context() as patch:
        creating = (lambda _, flags, *__: bool(flags & os.O_CREAT)) if step == "open" else (lambda *_: True)
        patch.setattr(os, step, failing(number, creating)(getattr(os, step)))
        with pytest.raises(expected, match=tmp_path.name) as caught:
            blobs.put("t", b"new")
    assert caught.value.remedy
    assert list(blobs.list("t")) == [before]
    assert list((tmp_path / "tmp").iterdir()) == []
    assert blobs.get(blobs.put("t", b"new")) == b"new"


def test_a_failed_file_sync_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = open_blobs(tmp_path.as_uri())
    ref = blobs.put("t", b"bytes")
    blobs.delete(ref)
    calls: list[int] = []

    def fsync(fd: int) -> None:
        calls.append(fd)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(StoreUnreachable):
            blobs.put("t", b"bytes")
    assert len(calls) == 1
    with pytest.raises(NotFound):
        blobs.get(ref)


def test_a_failed_folder_sync_is_reported_as_maybe_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = open_blobs(tmp_path.as_uri())
    ref = blobs.put("t", b"bytes")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.EIO, is_folder)(os.fsync))
        with pytest.raises(MaybeApplied, match="power cut"):
            blobs.put("t", b"bytes")
        with pytest.raises(MaybeApplied, match="power cut"):
            blobs.delete(ref)


def test_a_write_that_takes_only_some_bytes_goes_on_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    blobs = open_blobs(tmp_path.as_uri())
    assert blobs.get(blobs.put("t", b"0123456789")) == b"0123456789"


def test_a_put_waits_for_a_sweep_but_not_for_a_stopped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_draft, "_LOCK_WAIT_S", 0.05)
    blobs = open_blobs(tmp_path.as_uri())
    ref = blobs.put("t", b"bytes")
    with sweeping((tmp_path / ref.key).parent):
        with pytest.raises(StoreBusy, match="stopped process"):
            blobs.put("t", b"bytes")
        assert blobs.get(ref) == b"bytes"
    blobs.put("t", b"bytes")


@contextmanager
def sweeping(shard: Path) -> Iterator[None]:
    """Hold what a sweep holds while it looks at a blob and deletes it."""
    fd = os.open(shard, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def test_a_draft_that_was_swept_away_ends_in_an_error_and_not_in_a_lost_blob(tmp_path: Path) -> None:
    blobs = open_blobs(tmp_path.as_uri())
    before = blobs.put("t", b"stored before")

    def slow() -> Iterator[bytes]:
        yield b"bytes"
        assert blobs.sweep(lambda _, asked: asked, now=4_000_000_000).draft_count == 1

    with pytest.raises(StoreError):
        blobs.put("t", slow())
    assert list(blobs.list("t")) == [before]


def descriptors() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}


def test_a_draft_leaves_no_descriptor_open_whether_it_was_published_or_not(tmp_path: Path) -> None:
    blobs = open_blobs(tmp_path.as_uri())
    ref = blobs.put("t", b"bytes")
    before = descriptors()
    assert blobs.put("t", b"others") != ref
    with blobs.writing("t") as blob:
        blob.write(b"half of it")
        assert len(descriptors()) > len(before)
    assert descriptors() == before
    assert list((tmp_path / "tmp").iterdir()) == []
