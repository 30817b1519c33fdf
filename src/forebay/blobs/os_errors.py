"""Says in our own errors what the operating system refused."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from forebay.errors import StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreUnreachable

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM}
# What open() answers when a link, a folder, a socket or a plain file stands where something else belongs.
MISPLACED = {errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO}


def store_error(error: OSError, where: str, *, writing: bool) -> StoreError:
    said = error.strerror or type(error).__name__
    number = error.errno
    if number in _FULL:
        return StoreFull(f"No room left in {where} ({said}).", remedy="Free some space, or raise the quota.")
    if number == errno.EROFS or (writing and number in _FORBIDDEN):
        return StoreReadOnly(
            f"Not allowed to write in {where} ({said}).", remedy="Give this user write access to the folder."
        )
    if number in _FORBIDDEN:
        return StoreUnreachable(
            f"Not allowed to read in {where} ({said}).", remedy="Give this user access to the folder."
        )
    if number in MISPLACED:
        return StoreCorrupt(
            f"Something in {where} is not the folder or file that belongs there ({said}).",
            remedy="Remove links, and folders that have a blob's name.",
        )
    return StoreUnreachable(f"A file operation failed in {where} ({said}).", remedy="Check the disk and its mount.")


@contextmanager
def in_folder(where: str, *, writing: bool) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise store_error(error, where, writing=writing) from error


@contextmanager
def in_temp_folder() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f"the temporary folder {tempfile.tempdir or ''} (TMPDIR chooses another)"
        raise store_error(error, where, writing=True) from error
