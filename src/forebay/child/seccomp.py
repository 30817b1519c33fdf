"""Filters the system calls of this process and of all that it starts, by a program that the kernel runs."""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable, Mapping

from forebay.child import syscalls
from forebay.child.kernel import no_new_privs, syscall

_SET_MODE_FILTER = 1
_GET_ACTION_AVAIL = 2
_ALL_THREADS = 1
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000

# Of BPF: load a word, jump if equal, if at least, if any bit is set, and return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16
_LOW = 0xFFFFFFFF

Step = tuple[int, int, int, int]
Block = list[Step]
Rules = Mapping[str, Block]


def _load(argument: int, *, high: bool = False) -> Step:
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument + 4 * high)


_GO: Step = (_RETURN, 0, 0, _ALLOW)
_STOP: Step = (_RETURN, 0, 0, _ERRNO | errno.EPERM)

DENY: Block = [_STOP]
UNKNOWN: Block = [(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
"""For calls whose arguments lie in memory, where no filter can see them: callers know an older one."""


def only_with(argument: int, *values: int) -> Block:
    """Allow it if the argument's lower half is one of these."""
    last = len(values)
    tests = [(_EQUAL, last - n, 0, value & _LOW) for n, value in enumerate(values)]
    return [_load(argument), *tests, _STOP, _GO]


def not_with(argument: int, *values: int) -> Block:
    last = len(values)
    tests = [(_EQUAL, last - n, 0, value & _LOW) for n, value in enumerate(values)]
    return [_load(argument), *tests, _GO, _STOP]


def only_with_bit(argument: int, bits: int) -> Block:
    return [_load(argument), (_ANY_BIT, 1, 0, bits), _STOP, _GO]


def not_with_bit(argument: int, bits: int) -> Block:
    return [_load(argument), (_ANY_BIT, 0, 1, bits), _STOP, _GO]


def only_at(argument: int, address: int) -> Block:
    """Allow it if the argument is this very pointer."""
    low, high = address & _LOW, address >> 32
    return [_load(argument), (_EQUAL, 0, 2, low), _load(argument, high=True), (_EQUAL, 1, 0, high), _STOP, _GO]


def only_own_limit(resource: int) -> Block:
    """For prlimit64: look at any limit, set this one of oneself alone."""
    return [
        _load(2),
        (_EQUAL, 0, 2, 0),
        _load(2, high=True),
        (_EQUAL, 5, 0, 0),
        _load(0),
        (_EQUAL, 0, 2, 0),
        _load(1),
        (_EQUAL, 1, 0, resource),
        _STOP,
        _GO,
    ]


def program(rules: Rules, machine: str) -> bytes:
    """Everything that no rule names is allowed, if it is old enough to be known."""
    steps: Block = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 1, 0, syscalls.ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, syscalls.NEWEST + 1),
        *UNKNOWN,
    ]
    for name, block in rules.items():
        number = syscalls.number(name, machine)
        if number is not None:
            steps += [(_EQUAL, 0, len(block), number), *block]
    steps.append(_GO)
    return b"".join(struct.pack("HBBI", code, yes, no, value) for code, yes, no, value in steps)


def deny(names: Iterable[str]) -> dict[str, Block]:
    return dict.fromkeys(names, DENY)


def missing() -> str | None:
    """Why there is no such filter here; None if there is."""
    machine = syscalls.machine()
    if machine is None:
        return "seccomp: the filter has no numbers of system calls for this machine"
    action = ctypes.c_uint32(_ERRNO)
    found = syscall(_seccomp(machine), _GET_ACTION_AVAIL, 0, ctypes.addressof(action))
    return None if found == 0 else f"seccomp: the kernel does not offer it ({errno.errorcode.get(-found, found)})"


def install(rules: Rules) -> None:
    """On all threads, for good; OSError if the kernel will not."""
    machine = syscalls.machine()
    if machine is None:
        raise OSError(errno.ENOSYS, "no numbers of system calls for this machine")
    no_new_privs()
    code = program(rules, machine)
    steps = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(steps))
    found = syscall(_seccomp(machine), _SET_MODE_FILTER, _ALL_THREADS, described)
    if found:  # above zero it is the thread that could not follow
        raise OSError(-found if found < 0 else errno.EBUSY, "seccomp did not take the filter")


def _seccomp(machine: str) -> int:
    number = syscalls.number("seccomp", machine)
    assert number is not None  # noqa: S101 - for the type checker: both machines have it
    return number
