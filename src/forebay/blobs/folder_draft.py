"""Writes one blob into a folder: a temporary file, synced, then renamed, then the folder synced."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from contextlib import ExitStack, suppress

from forebay import failpoint
from forebay.blobs.os_errors import in_folder
from forebay.blobs.ref import BlobRef
from forebay.blobs.tree import Tree
from forebay.errors import MaybeApplied, StoreBusy

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_WAIT_S = 5.0


class FolderDraft:
    """Keeps the folder of drafts open, so that its way there is walked once."""

    def __init__(self, tree: Tree, address: str) -> None:
        self._tree = tree
        self._address = address
        self._name = secrets.token_hex(16)
        self._named = False
        with in_folder(address, writing=True), ExitStack() as opened:
            self._tmp = opened.enter_context(tree.folder("tmp", create=True))
            self._fd = os.open(self._name, _CREATE, 0o600, dir_fd=self._tmp)
            self._opened = opened.pop_all()

    def write(self, chunk: bytes) -> None:
        rest = memoryview(chunk)
        with in_folder(self._address, writing=True):
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def publish(self, ref: BlobRef) -> None:
        path = ("blobs", ref.tenant, ref.shard)
        with in_folder(self._address, writing=True), self._tree.folder(*path, create=True) as shard:
            # From the moment the file's time is set until it has its name, no sweep may look at this shard.
            self._share(shard)
            os.utime(self._fd)
            failpoint.reach("result_written")
            os.fsync(self._fd)
            os.rename(self._name, ref.sha256, src_dir_fd=self._tmp, dst_dir_fd=shard)
            self._named = True
            sync_names(shard, f"The {ref} in {self._address} was written", "Put the bytes again.")

    def written_at(self) -> float:
        return os.fstat(self._fd).st_mtime

    def close(self) -> None:
        # What could go wrong here changes nothing that was promised: the bytes are synced, or the draft is thrown away.
        with suppress(OSError):
            os.close(self._fd)
        # What cannot be removed is left to the sweep.
        with suppress(OSError), self._opened:
            if not self._named:
                os.unlink(self._name, dir_fd=self._tmp)

    def _share(self, shard: int) -> None:
        give_up = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(shard, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                # A sweep holds it for the time of one deletion, unless its process was stopped in the middle.
                if time.monotonic() > give_up:
                    raise StoreBusy(
                        f"A sweep has held a part of {self._address} for more than {_LOCK_WAIT_S:.0f} s.",
                        remedy="Put the bytes again; if it stays so, look for a stopped process that sweeps.",
                    ) from None
                time.sleep(0.002)
            else:
                return


def sync_names(folder: int, done: str, remedy: str) -> None:
    """Make renames and deletions in a folder durable; a sync that failed proves nothing and is not repeated."""
    try:
        os.fsync(folder)
    except OSError as error:
        raise MaybeApplied(f"{done}, but may be undone by a power cut ({error.strerror}).", remedy=remedy) from error
