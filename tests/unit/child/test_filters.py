"""What the filters decide, for both machines, by a reader of their programs that knows only the kernel's manual."""

from __future__ import annotations

import errno
import os
import resource
import struct

import pytest

from forebay.child import policy, seccomp, syscalls

ALLOWED, KILLED = "allowed", "killed"
MACHINES = list(syscalls.ARCHITECTURES)
PATH_AT = 0x7F12_3456_7000
O_CREAT_WRITE = os.O_WRONLY | os.O_CREAT
THREAD, PROCESS = 0x3D0F00, 0x1200011


def decided(program: bytes, number: int, *arguments: int, machine: int) -> str:
    data = struct.pack("IIQ6Q", number, machine, 0, *(each & (1 << 64) - 1 for each in (*arguments, *[0] * 6)[:6]))
    at = loaded = 0
    while True:
        code, yes, no, value = struct.unpack_from("HBBI", program, 8 * at)
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("I", data, value)
            case 0x15:
                at += yes if loaded == value else no
            case 0x35:
                at += yes if loaded >= value else no
            case 0x45:
                at += yes if loaded & value else no
            case 0x06:
                verdicts = {0x7FFF0000: ALLOWED, 0x80000000: KILLED}
                return verdicts.get(value) or errno.errorcode[value & 0xFFFF]
            case _:
                raise AssertionError(code)


def asked(rules: seccomp.Rules, machine: str, name: str, *arguments: int) -> str | None:
    number = syscalls.number(name, machine)
    program = seccomp.program(rules, machine)
    return None if number is None else decided(program, number, *arguments, machine=syscalls.ARCHITECTURES[machine])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("socket", (2, 1, 0), "EPERM"),
        ("connect", (3,), "EPERM"),
        ("execve", (PATH_AT,), "EPERM"),
        ("ptrace", (0,), "EPERM"),
        ("io_uring_setup", (8,), "EPERM"),
        ("clone", (THREAD,), "EPERM"),
        ("clone3", (1,), "ENOSYS"),
        ("openat2", (-100,), "ENOSYS"),
        ("openat", (-100, 1, os.O_RDONLY | os.O_CLOEXEC), ALLOWED),
        ("openat", (-100, 1, O_CREAT_WRITE), "EPERM"),
        ("openat", (-100, 1, os.O_RDWR), "EPERM"),
        ("kill", (os.getpid(), 9), ALLOWED),
        ("kill", (-os.getpid(), 9), ALLOWED),
        ("kill", (0, 9), ALLOWED),
        ("kill", (-1, 9), "EPERM"),
        ("kill", (1, 9), "EPERM"),
        ("tgkill", (os.getpid(), 1, 6), ALLOWED),
        ("tgkill", (1, 1, 6), "EPERM"),
        ("fcntl", (3, 8, 1), "EPERM"),
        ("fcntl", (3, 3, 0), ALLOWED),
        ("ioctl", (3, 0x8901, 0), "EPERM"),
        ("ioctl", (3, 0x5401, 0), ALLOWED),
        ("prlimit64", (0, resource.RLIMIT_AS, 0, PATH_AT), ALLOWED),
        ("prlimit64", (0, resource.RLIMIT_CPU, PATH_AT, 0), ALLOWED),
        ("prlimit64", (0, resource.RLIMIT_CPU, 1 << 40, 0), ALLOWED),
        ("prlimit64", (0, resource.RLIMIT_AS, 1 << 40, 0), "EPERM"),
        ("prlimit64", (1, resource.RLIMIT_CPU, PATH_AT, 0), "EPERM"),
    ],
)
def test_a_parser_may_ask_for_little(machine: str, name: str, arguments: tuple[int, ...], answer: str) -> None:
    assert asked(policy.parser(), machine, name, *arguments) == answer


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("socket", (2, 1, 0), "EPERM"),
        ("execve", (PATH_AT,), ALLOWED),
        ("execve", (PATH_AT + 1,), "EPERM"),
        ("execve", (PATH_AT & 0xFFFFFFFF,), "EPERM"),
        ("execve", (PATH_AT + (1 << 32),), "EPERM"),
        ("execveat", (-100, PATH_AT), "EPERM"),
        ("clone", (THREAD,), ALLOWED),
        ("clone", (PROCESS,), "EPERM"),
        ("clone3", (1,), "ENOSYS"),
        ("openat", (-100, 1, O_CREAT_WRITE), ALLOWED),
    ],
)
def test_a_program_starts_once_and_alone(machine: str, name: str, arguments: tuple[int, ...], answer: str) -> None:
    assert asked(policy.program(PATH_AT), machine, name, *arguments) == answer


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_other_machines_and_of_later_kernels_do_not_pass(machine: str) -> None:
    program = seccomp.program(policy.parser(), machine)
    own = syscalls.ARCHITECTURES[machine]
    others = set(syscalls.ARCHITECTURES.values()) | {0x40000003, 0x40000028}
    assert {decided(program, 0, machine=other) for other in others - {own}} == {KILLED}
    for later in (syscalls.NEWEST + 1, 0x40000000 + 41, 0xFFFFFFFF):
        assert decided(program, later, machine=own) == "ENOSYS"


@pytest.mark.parametrize("machine", MACHINES)
def test_no_two_calls_have_one_number(machine: str) -> None:
    numbers = [number for name in syscalls._NUMBERS if (number := syscalls.number(name, machine)) is not None]
    assert len(numbers) == len(set(numbers))
    assert max(numbers) <= syscalls.NEWEST


def test_a_process_that_old_machines_start_otherwise_is_refused_there_too() -> None:
    for name in ("fork", "vfork"):
        assert asked(policy.parser(), "x86_64", name) == "EPERM"
        assert asked(policy.parser(), "aarch64", name) is None
