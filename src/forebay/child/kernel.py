"""Asks the Linux kernel for what Python has no words for."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

LINUX = sys.platform.startswith("linux")
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """What the call returns, its error as a negative number, as the kernel itself has it."""
    call = libc().syscall
    call.restype = ctypes.c_long
    found: int = call(ctypes.c_long(number), *(_word(each) for each in arguments))
    return found if found >= 0 else -(ctypes.get_errno() or errno.EINVAL)


def _word(argument: int | bytes | None) -> object:
    return ctypes.c_long(argument) if isinstance(argument, int) else ctypes.c_char_p(argument)


def prctl(option: int, argument: int) -> None:
    words = [ctypes.c_ulong(each) for each in (argument, 0, 0, 0)]
    if libc().prctl(ctypes.c_int(option), *words) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} was refused")


def no_new_privs() -> None:
    """Nothing that this process starts can gain what it has not; unprivileged filters need it, too."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def die_with(parent: int, signal: int) -> None:
    """The kernel sends it when the thread that started this process ends; at once if that has happened."""
    prctl(_PR_SET_PDEATHSIG, signal)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal)


def drop_capabilities() -> None:
    """Also root is a common user then, to the files of others and to limits."""
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    if libc().capset(header, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "capset was refused")
