"""Decides what a parser may ask the kernel for, and what a program under limits may."""

from __future__ import annotations

import fcntl
import os
import resource

from forebay.child import seccomp

_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_F_SETSIG, _F_SETOWN_EX = 10, 15
_FIOSETOWN, _SIOCSPGRP, _TIOCSTI, _TIOCLINUX = 0x8901, 0x8902, 0x5412, 0x541C
_CLONE_THREAD = 0x10000

_NETWORK = "accept accept4 bind connect listen socket socketpair io_uring_enter io_uring_register io_uring_setup"
_PROCESSES = (
    "execveat kcmp perf_event_open pidfd_getfd pidfd_open pidfd_send_signal process_madvise process_mrelease "
    "process_vm_readv process_vm_writev ptrace rt_sigqueueinfo rt_tgsigqueueinfo userfaultfd"
)
_SYSTEM = (
    "acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init finit_module fsconfig "
    "fsmount fsopen fspick init_module ioperm iopl kexec_file_load kexec_load keyctl modify_ldt mount mount_setattr "
    "move_mount name_to_handle_at open_by_handle_at open_tree personality pivot_root quotactl quotactl_fd reboot "
    "request_key setdomainname sethostname setns settimeofday swapoff swapon syslog umount2 unshare vhangup"
)
_SELF = (
    "capset mbind migrate_pages move_pages prctl sched_setaffinity sched_setattr sched_setparam sched_setscheduler "
    "seccomp setfsgid setfsuid setgid setgroups setpgid setpriority setregid setresgid setresuid setreuid setrlimit "
    "setsid setuid"
)
_SHARED_MEMORY = "memfd_create memfd_secret mq_open mq_unlink msgget semget shmget"
_FILES = (
    "chmod chown creat fchmod fchmodat fchmodat2 fchown fchownat fremovexattr fsetxattr futimesat lchown link linkat "
    "lremovexattr lsetxattr mkdir mkdirat mknod mknodat removexattr rename renameat renameat2 rmdir setxattr symlink "
    "symlinkat truncate unlink unlinkat utime utimensat utimes"
)
_OUTSIDE = f"{_NETWORK} {_PROCESSES} {_SYSTEM}".split()


def parser() -> dict[str, seccomp.Block]:
    pid = os.getpid()
    return {
        **seccomp.deny(_OUTSIDE),
        **seccomp.deny(_SELF.split()),
        **seccomp.deny(_SHARED_MEMORY.split()),
        **seccomp.deny(_FILES.split()),
        **seccomp.deny(("clone", "fork", "vfork", "execve")),
        "clone3": seccomp.UNKNOWN,
        "openat2": seccomp.UNKNOWN,
        "open": seccomp.not_with_bit(1, _TO_WRITE),
        "openat": seccomp.not_with_bit(2, _TO_WRITE),
        "kill": seccomp.only_with(0, pid, -pid, 0),
        "tgkill": seccomp.only_with(0, pid),
        "tkill": seccomp.only_with(0, pid),
        # Who owns a descriptor gets its signals: by that, too, others could be killed.
        "fcntl": seccomp.not_with(1, fcntl.F_SETOWN, _F_SETSIG, _F_SETOWN_EX),
        "ioctl": seccomp.not_with(1, _FIOSETOWN, _SIOCSPGRP, _TIOCSTI, _TIOCLINUX),
        "prlimit64": seccomp.only_own_limit(resource.RLIMIT_CPU),
    }


def program(path_at: int) -> dict[str, seccomp.Block]:
    """No network, no other process; threads, files, and one exec: that of the path which lies at this address."""
    return {
        **seccomp.deny(_OUTSIDE),
        **seccomp.deny(("fork", "vfork", "setpgid", "setsid")),
        "clone": seccomp.only_with_bit(0, _CLONE_THREAD),
        "clone3": seccomp.UNKNOWN,
        "execve": seccomp.only_at(0, path_at),
        "prlimit64": seccomp.only_own_limit(resource.RLIMIT_CPU),
        "setrlimit": seccomp.DENY,
    }
