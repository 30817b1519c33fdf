"""Keeps blobs in a folder: whole or absent, durable when put returns, never through a link."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forebay.blobs.base import Content, Stored
from forebay.blobs.folder_draft import FolderDraft, sync_names
from forebay.blobs.os_errors import MISPLACED, in_folder
from forebay.blobs.ref import BlobRef, ref_of_key
from forebay.blobs.tree import Tree
from forebay.errors import BlobMissing, ResultCorrupt, StoreUnreachable

_CHUNK = 1 << 20
_DRAFT_NAME = re.compile(r"[0-9a-f]{32}")
# Without O_NONBLOCK, a pipe planted under a blob's name would hold the reader for ever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Folder:
    def __init__(self, root: Path) -> None:
        self.address = root.as_uri()
        self._tree = Tree(root)

    @contextmanager
    def draft(self) -> Iterator[FolderDraft]:
        draft = FolderDraft(self._tree, self.address)
        try:
            yield draft
        finally:
            draft.close()

    @contextmanager
    def read(self, ref: BlobRef) -> Iterator[Content]:
        fd = self._open(ref)
        try:
            with in_folder(self.address, writing=False):
                seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                raise self._misplaced(ref)
            yield Content(seen.st_size, self._chunks(fd))
        finally:
            os.close(fd)

    def size(self, ref: BlobRef) -> int | None:
        with self._existing("blobs", ref.tenant, ref.shard) as shard:
            seen = None if shard is None else _plain_file(shard, ref.sha256)
        return None if seen is None else seen.st_size

    def delete(self, ref: BlobRef) -> None:
        with self._existing("blobs", ref.tenant, ref.shard, writing=True) as shard:
            if shard is None:
                return
            with suppress(FileNotFoundError):
                os.unlink(ref.sha256, dir_fd=shard)
            # Also when it was gone already: whoever deleted it may not have come this far.
            sync_names(shard, f"The {ref} in {self.address} was deleted", "Delete it again.")

    def scan(self, tenant: str | None) -> Iterator[Stored]:
        for name in self._names("blobs") if tenant is None else (tenant,):
            for shard in self._names("blobs", name):
                yield from self._scan_shard(name, shard)

    def now(self) -> float:
        with in_folder(self.address, writing=False):
            # A draft would make the folder that is missing.
            self._check_there()
        with self.draft() as draft:
            return draft.written_at()

    def delete_if_older(self, ref: BlobRef, cutoff: float) -> bool:
        with self._existing("blobs", ref.tenant, ref.shard, writing=True) as shard:
            if shard is None:
                return False
            try:
                fcntl.flock(shard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # Somebody writes here, perhaps this very blob; the next sweep will see.
                return False
            return _unlink_if_older(shard, ref.sha256, cutoff)

    def delete_drafts(self, cutoff: float) -> int:
        names = [name for name in self._names("tmp") if _DRAFT_NAME.fullmatch(name)]
        with self._existing("tmp", writing=True) as tmp:
            return 0 if tmp is None else sum(_unlink_if_older(tmp, name, cutoff) for name in names)

    def _open(self, ref: BlobRef) -> int:
        with in_folder(self.address, writing=False):
            try:
                with self._tree.folder("blobs", ref.tenant, ref.shard) as shard:
                    return os.open(ref.sha256, _READ, dir_fd=shard)
            except FileNotFoundError as error:
                self._check_there()
                raise BlobMissing(f"There is no {ref} in {self.address}.", remedy="Put the bytes again.") from error
            except OSError as error:
                if error.errno not in MISPLACED:
                    raise
                self._check_there()
                raise self._misplaced(ref) from error

    @contextmanager
    def _existing(self, *path: str, writing: bool = False) -> Iterator[int | None]:
        """None where the store is there, but has no such folder."""
        with in_folder(self.address, writing=writing), self._tree.existing(*path) as folder:
            if folder is None:
                self._check_there()
            yield folder

    def _check_there(self) -> None:
        # Every put makes this folder. Without it the disk is not mounted, and "not found" would buy all results again.
        try:
            with self._tree.folder("blobs"):
                pass
        except FileNotFoundError as error:
            raise StoreUnreachable(
                f"There is no folder 'blobs' in {self.address}.",
                remedy="Mount the disk or correct the address. The first put makes that folder; if the blobs are lost"
                " for good, make it yourself.",
            ) from error

    def _misplaced(self, ref: BlobRef) -> ResultCorrupt:
        return ResultCorrupt(
            f"What stands in the place of {ref} is not a plain file, in {self.address}.",
            remedy="Remove it and put the bytes again.",
        )

    def _chunks(self, fd: int) -> Iterator[bytes]:
        while True:
            with in_folder(self.address, writing=False):
                chunk = os.read(fd, _CHUNK)
            if not chunk:
                return
            yield chunk

    def _names(self, *path: str) -> list[str]:
        with self._existing(*path) as folder:
            return _listed(folder)

    def _scan_shard(self, tenant: str, shard: str) -> list[Stored]:
        found = []
        with self._existing("blobs", tenant, shard) as folder:
            for name in _listed(folder):
                seen = _plain_file(folder, name)
                ref = None if seen is None else ref_of_key(f"blobs/{tenant}/{shard}/{name}", seen.st_size)
                if seen is not None and ref is not None:
                    found.append(Stored(ref, seen.st_mtime))
        return found


def _listed(folder: int | None) -> list[str]:
    return [] if folder is None else sorted(os.listdir(folder))  # noqa: PTH208 - a descriptor, not a path


def _plain_file(folder: int | None, name: str) -> os.stat_result | None:
    try:
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return seen if stat.S_ISREG(seen.st_mode) else None


def _unlink_if_older(folder: int, name: str, cutoff: float) -> bool:
    seen = _plain_file(folder, name)
    if seen is None or seen.st_mtime > cutoff:
        return False
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
