"""Takes the file system away from this process, but for folders that it may read."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from forebay.child.kernel import LINUX, no_new_privs, syscall
from forebay.child.syscalls import LANDLOCK_ADD_RULE, LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF

_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILES_BY_ABI = {1: 13, 2: 14, 3: 15, 5: 16}
_NET_SINCE, _SCOPES_SINCE = 4, 6
_TCP = 0b11
_SCOPES = 0b11


def abi() -> int:
    """The version that the kernel offers, or the error as a negative number."""
    return syscall(LANDLOCK_CREATE_RULESET, None, 0, _VERSION) if LINUX else -errno.ENOSYS


def missing() -> str | None:
    """Why there is no Landlock here; None if there is."""
    found = abi()
    if found > 0:
        return None
    reasons = {
        -errno.ENOSYS: "the kernel does not have it",
        -errno.EOPNOTSUPP: "it is switched off at boot",
        -errno.EPERM: "what surrounds this process forbids it",
    }
    return f"landlock: {reasons.get(found, errno.errorcode.get(-found, found))}"


def restrict(readable: Iterable[Path]) -> None:
    """Of the calling thread, for good; OSError if the kernel will not. A place that does not exist is left out."""
    ruleset = syscall(LANDLOCK_CREATE_RULESET, *_attributes(abi()), 0)
    if ruleset < 0:
        raise OSError(-ruleset, "Landlock made no set of rules")
    try:
        for place in readable:
            with suppress(FileNotFoundError, NotADirectoryError):
                _allow(ruleset, place)
        no_new_privs()
        found = syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0)
        if found:
            raise OSError(-found, "Landlock did not take its rules")
    finally:
        os.close(ruleset)


def _attributes(version: int) -> tuple[bytes, int]:
    """All that this version can forbid: every access to files, TCP, and sockets and signals to those outside."""
    bits = max(count for since, count in _FILES_BY_ABI.items() if since <= version)
    words = [(1 << bits) - 1]
    if version >= _NET_SINCE:
        words.append(_TCP)
    if version >= _SCOPES_SINCE:
        words.append(_SCOPES)
    packed = struct.pack(f"{len(words)}Q", *words)
    return packed, len(packed)


def _allow(ruleset: int, place: Path) -> None:
    descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        access = _READ_FILE | _READ_DIR if place.is_dir() else _READ_FILE
        found = syscall(LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0)
        if found:
            raise OSError(-found, "Landlock did not take a rule", str(place))
    finally:
        os.close(descriptor)
