"""Becomes another program, which may use no more than it was given and reaches no network."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import sys
from collections.abc import Iterable, Sequence

from forebay.child import policy, seccomp
from forebay.child.kernel import LINUX, die_with, libc, no_new_privs

_REFUSED, _CANNOT, _NOT_FOUND = 125, 126, 127
_USAGE = "usage: python -m forebay.child --limit [--memory-mb N] [--cpu-s N] [--parent PID] -- COMMAND…\n"
_FLAGS = {"--memory-mb": 1024, "--cpu-s": 60, "--parent": 0}
_MIB = 1 << 20


def main(arguments: Sequence[str]) -> int:
    """Returns only if it could not: with a shell's exit codes, and 125 if the limits could not be set."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    flags, command = arguments[:split], arguments[split + 1 :]
    try:
        given = _FLAGS | {name: int(value) for name, value in zip(flags[::2], flags[1::2], strict=True)}
    except ValueError:
        given = {}
    if not command or given.keys() != _FLAGS.keys():
        sys.stderr.write(_USAGE)
        return _REFUSED
    path = _find(command[0])
    if path is None:
        sys.stderr.write(f"forebay.child: there is no program {command[0]!r}.\n")
        return _NOT_FOUND
    try:
        if LINUX and given["--parent"]:
            die_with(given["--parent"], signal.SIGKILL)
        _bound(given["--memory-mb"] * _MIB, given["--cpu-s"])
        if LINUX:
            code = _exec_once(path, command)
        else:
            _hear_signals()
            os.execv(path, list(command))  # noqa: S606 - what it is for
    except (OSError, ValueError) as error:
        sys.stderr.write(f"forebay.child: the limits could not be set: {error}\n")
        return _REFUSED
    sys.stderr.write(f"forebay.child: {path}: {os.strerror(code)}\n")
    return _CANNOT


def _find(name: str) -> str | None:
    folders = [""] if "/" in name else os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(folder, name) for folder in folders)  # noqa: PTH118 - pathlib takes longer than all the rest
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def _bound(memory_bytes: int, cpu_s: int) -> None:
    bounds = [(resource.RLIMIT_CORE, 0, 0), (resource.RLIMIT_CPU, cpu_s, cpu_s + 1)]
    if LINUX:  # macOS does not bound it
        bounds.append((resource.RLIMIT_AS, memory_bytes, memory_bytes))
    for what, soft, hard in bounds:
        most = resource.getrlimit(what)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)  # noqa: PLW2901 - what was given before bounds what is given
        resource.setrlimit(what, (soft, hard))


def _exec_once(path: str, command: Sequence[str]) -> int:
    """The error's number, if it comes back."""
    no_new_privs()
    # Where the path lies, nobody knows but the filter: the program cannot start another in its stead.
    place = mmap.mmap(-1, mmap.PAGESIZE)
    place.write(os.fsencode(path) + b"\0")
    address = ctypes.addressof(ctypes.c_char.from_buffer(place))
    if seccomp.missing() is None:
        seccomp.install(policy.program(address))
    variables = (os.fsencode(f"{name}={value}") for name, value in os.environ.items())
    _hear_signals()
    libc().execve(ctypes.c_void_p(address), _words(map(os.fsencode, command)), _words(variables))
    return ctypes.get_errno()


def _hear_signals() -> None:
    """Python ignores these, and what is ignored stays so in the next program."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _words(words: Iterable[bytes]) -> object:
    items = [*words, None]
    return (ctypes.c_char_p * len(items))(*items)
