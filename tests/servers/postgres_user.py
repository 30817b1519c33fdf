"""Finds how PostgreSQL can run under a user that it accepts, without changing the machine."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NOBODY = 65534
# An IPC namespace of its own takes its System V memory with it when it is killed.
NAMESPACE = ("unshare", "--user", "--ipc", "--map-user=1000", "--map-group=1000", "--")
BUILD_FILES = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "doc", "*.a")


@dataclass(frozen=True)
class Disguise:
    programs: Path
    prefix: tuple[str, ...] = ()
    user: int | None = None


def disguise(programs: Path, folder: Path) -> Disguise:
    if _works(*NAMESPACE, "true"):
        return Disguise(programs, NAMESPACE)
    if os.geteuid() != 0:
        return Disguise(programs)
    return as_nobody(programs, folder)


def as_nobody(programs: Path, folder: Path) -> Disguise:
    """For root without user namespaces: another user, who gets the folder."""
    os.chown(folder, NOBODY, NOBODY)
    if not _works(str(programs / "initdb"), "--version", user=NOBODY):
        programs = _readable_copy(programs, folder / "programs")
    return Disguise(programs, user=NOBODY)


def _readable_copy(programs: Path, target: Path) -> Path:
    """The programs find their libraries by the layout: <package>/<install>/bin, <package>.libs."""
    install, package = programs.parent, programs.parent.parent
    copy = target / package.name / install.name
    if not copy.exists():
        shutil.copytree(install, copy, symlinks=True, ignore=BUILD_FILES)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, target / libraries.name)
        for path in (target, *target.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return copy / programs.name


@cache
def _works(*command: str, user: int | None = None) -> bool:
    groups: list[int] | None = None if user is None else []
    try:
        done = subprocess.run(
            command,
            user=user,
            group=user,
            extra_groups=groups,
            capture_output=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
