"""A disk that forgets: what SQLite writes, step by step, and what of it a power cut after any step would leave.

An apsw VFS passes everything on to the ordinary one and writes each step down. A run is recorded once; a `Platter` that
is fed the first k steps then holds what was synced apart from what was only written, and tells what survives a cut
after step k. That is the same as running k steps and cutting the power, without running them again for each k.

Modelled: bytes that were not synced are lost, or a random part of them survives, torn at sectors of 512 bytes and in
any order; so do truncations. The entries of the folder are modelled too: a new file's name, or a deletion, is durable
once the folder was synced. SQLite's unix VFS does that at the first sync of a journal or WAL file that it has created,
which makes the database's own name durable as well, and after a deletion if it is asked to; it is not asked to when a
WAL file is deleted. So does this model. Where a file system keeps names earlier than that, less is lost, never more.
Not modelled: a disk that lies about a sync, bytes that rot, and the folders above (the ledger syncs those that it makes
itself). The `-shm` file is not kept: SQLite builds it anew after a restart. SQLite is told that a torn write damages no
bytes beside it, as the unix VFS always tells it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import apsw

SECTOR = 512
_DIRSYNC = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


class Step(NamedTuple):
    """`flag`: of a creation, that its first sync syncs the folder; of a deletion, that it does so itself."""

    verb: str
    file: str
    offset: int = 0
    data: bytes = b""
    flag: bool = False


@dataclass(slots=True)
class Disk:
    """All steps so far. `fault`, asked before each one, may answer with an error to raise instead."""

    steps: list[Step] = field(default_factory=list)
    fault: Callable[[int, Step], Exception | None] = lambda _number, _step: None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def knows(self, file: str) -> bool:
        with self.lock:
            return any(step.file == file for step in self.steps)

    def take(self, step: Step) -> None:
        with self.lock:
            number = len(self.steps) + 1
            self.steps.append(step)
        if error := self.fault(number, step):
            raise error


@contextmanager
def vfs(disk: Disk) -> Iterator[str]:
    """The name of a VFS that reports to the disk, while it is registered."""
    name = f"power-{id(disk)}"
    registered = _PowerVfs(name, disk)
    try:
        yield name
    finally:
        registered.unregister()


class _PowerVfs(apsw.VFS):
    def __init__(self, name: str, disk: Disk) -> None:
        super().__init__(name, "")
        self._disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return _PowerFile(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802 - SQLite's signature
        self._disk.take(Step("delete", Path(filename).name, flag=syncdir))
        super().xDelete(filename, False)  # noqa: FBT003 - SQLite's signature

    def excepthook(self, *_: object) -> bool:
        """Silent: the errors that it would print are the ones that were asked for."""
        return True


class _PowerFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        assert path is not None, "a temporary file: temp_store should be memory"
        self._disk = disk
        self._file = Path(path).name
        # The ledger makes its own file, empty and for its owner alone, before SQLite opens it.
        if not Path(path).exists() or (not disk.knows(self._file) and not Path(path).stat().st_size):
            disk.take(Step("create", self._file, flag=bool(flags[0] & _DIRSYNC)))
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.take(Step("write", self._file, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.take(Step("truncate", self._file, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        # Not passed on: the real disk need not be waited for, since only the platter is looked at.
        self._disk.take(Step("sync", self._file))

    def excepthook(self, *_: object) -> bool:
        """Silent: the errors that it would print are the ones that were asked for."""
        return True


@dataclass(slots=True, eq=False)
class _Inode:
    syncs_folder: bool
    synced: bytes = b""
    waiting: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class Platter:
    """Files and the folder's entries, each as they are and as they are known to be on the disk."""

    names: dict[str, _Inode] = field(default_factory=dict)
    synced_names: dict[str, _Inode] = field(default_factory=dict)

    def apply(self, step: Step) -> bool:
        """Do a step; True if what is on the disk for certain may have changed."""
        if step.verb == "create":
            self.names[step.file] = _Inode(step.flag)
            return False
        inode = self.names[step.file]
        if step.verb in {"write", "truncate"}:
            inode.waiting.append(step)
            return False
        syncs_folder = step.flag
        if step.verb == "delete":
            del self.names[step.file]
        else:
            inode.synced = _written(inode.synced, inode.waiting)
            inode.waiting = []
            syncs_folder, inode.syncs_folder = inode.syncs_folder, False
        if syncs_folder:
            self.synced_names = dict(self.names)
        return True

    def survivors(self) -> dict[str, bytes]:
        """What is left when nothing survives that was not synced."""
        return {name: inode.synced for name, inode in self.synced_names.items()}

    def written(self) -> dict[str, bytes]:
        """What is left when only the processes died, and the system wrote all that it had been given."""
        return {name: _written(inode.synced, inode.waiting) for name, inode in self.names.items()}

    def torn(self, chance: random.Random) -> dict[str, bytes]:
        """What is left when of all that was not synced a random part survives."""
        left = {}
        for name in sorted(self.names.keys() | self.synced_names.keys()):
            inode = chance.choice([self.names.get(name), self.synced_names.get(name)])
            if inode is not None:
                left[name] = _written(inode.synced, _pieces(inode.waiting, chance))
        return left


def _pieces(waiting: list[Step], chance: random.Random) -> list[Step]:
    """The sectors that reached the disk before the power went, in the order in which they happened to."""
    pieces = []
    for step in waiting:
        if step.verb == "truncate":
            pieces.append(step)
            continue
        start, end = step.offset, step.offset + len(step.data)
        while start < end:
            stop = min(end, (start // SECTOR + 1) * SECTOR)
            pieces.append(step._replace(offset=start, data=step.data[start - step.offset : stop - step.offset]))
            start = stop
    share = chance.random()
    return [piece for piece in pieces if chance.random() < share]


def _written(content: bytes, steps: list[Step]) -> bytes:
    out = bytearray(content)
    for step in steps:
        if step.verb == "truncate":
            del out[step.offset :]
        else:
            out.extend(bytes(max(0, step.offset + len(step.data) - len(out))))
            out[step.offset : step.offset + len(step.data)] = step.data
    return bytes(out)


def put(files: dict[str, bytes], folder: Path) -> None:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
