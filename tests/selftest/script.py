"""Plays a server that does whatever a test wants."""

import socket
import sys
from typing import ClassVar

from tests.servers.ports import LOOPBACK
from tests.servers.recipe import Command, Place, Recipe


class Script(Recipe):
    name: ClassVar[str] = "script"

    def __init__(self, code: str) -> None:
        self.code = code

    def command(self, place: Place) -> Command:
        return Command([sys.executable, "-c", self.code, str(place.port)])

    def check_ready(self, place: Place) -> None:
        socket.create_connection((LOOPBACK, place.port), timeout=1).close()

    def url(self, place: Place) -> str:
        return f"tcp://{LOOPBACK}:{place.port}"
