"""Shuts a parser child off: what it may use, what it may ask the kernel for, which files it may read."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import forebay
from forebay.child import landlock, policy, seccomp
from forebay.child.kernel import LINUX, drop_capabilities, no_new_privs
from forebay.errors import SandboxFailed
from forebay.processors.level import Level

_MAX_FILES = 64
_SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
# Where a renderer looks for letters that a document uses and does not bring along.
_FONTS = ("/usr/share/fonts", "/usr/share/X11/fonts", "/usr/local/share/fonts")


def enter(memory_bytes: int, file_bytes: int) -> Level:
    """For good. What the system does not offer is named; what it offers and then refuses is an error."""
    without = list(_bound(memory_bytes, file_bytes))
    if not LINUX:
        return Level("rlimit", 0, (*without, "seccomp and landlock: only Linux has them"))
    reasons = [landlock.missing(), seccomp.missing()]
    try:
        no_new_privs()
        drop_capabilities()
        if reasons[0] is None:
            landlock.restrict(readable())
        if reasons[1] is None:
            seccomp.install(policy.parser())
    except OSError as error:
        remedy = (
            "Let the surroundings of this process (container, service manager) allow it: docs/explanation/sandbox.md."
        )
        raise SandboxFailed(f"The sandbox of a parser could not be set up: {error}.", remedy=remedy) from error
    names = [name for name, reason in zip(("landlock", "seccomp"), reasons, strict=True) if reason is None]
    abi = landlock.abi() if reasons[0] is None else 0
    return Level("+".join(reversed(names)) or "rlimit", abi, (*without, *filter(None, reasons)))


def _bound(memory_bytes: int, file_bytes: int) -> Iterator[str]:
    bounds = {
        "core": (resource.RLIMIT_CORE, 0),
        "files": (resource.RLIMIT_NOFILE, _MAX_FILES),
        "file size": (resource.RLIMIT_FSIZE, file_bytes),
        "processes": (resource.RLIMIT_NPROC, 0),
        "memory": (resource.RLIMIT_AS, memory_bytes),
    }
    for name, (what, most) in bounds.items():
        hard = resource.getrlimit(what)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(what, (bound, bound))
        except (OSError, ValueError) as error:
            yield f"{name}: this system does not bound it ({error})"


def readable() -> Iterator[Path]:
    """What imports need and nothing of the user's: installed packages, the interpreter's own, libraries, fonts."""
    yield from map(Path, (*_SYSTEM_LIBRARIES, *_FONTS))
    yield Path(sys.base_prefix, "lib")
    yield Path(os.__file__).parent
    yield Path(forebay.__file__).parent
    for entry in map(Path, filter(None, sys.path)):
        with suppress(OSError):
            # The folder where a command was given is on the path, too: it is the user's, and no installation.
            if any(each.suffix == ".dist-info" for each in entry.iterdir()):
                yield entry
