"""Says what a kind of server must tell the harness about itself."""

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True)
class Place:
    """Where one server lives: its folder and its ports, the same at every restart."""

    folder: Path
    ports: tuple[int, ...]

    @property
    def port(self) -> int:
        return self.ports[0]


@dataclass(frozen=True)
class Command:
    argv: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    user: int | None = None

    def environment(self, place: Place) -> dict[str, str]:
        """Nothing of the caller's settings, and a home of its own: no run differs from another."""
        folder = str(place.folder)
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": path, "HOME": folder, "TMPDIR": folder, "LC_ALL": "C", **self.env}


class Recipe(ABC):
    name: ClassVar[str]
    port_count: ClassVar[int] = 1
    companion_offset: ClassVar[int] = 0
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    end_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """Ends a server whose data nobody needs any more."""

    def prepare(self, place: Place) -> list[Command]:
        """Commands to run to their end before the first start."""
        return []

    @abstractmethod
    def command(self, place: Place) -> Command: ...

    @abstractmethod
    def check_ready(self, place: Place) -> None:
        """Use the server once; any exception means not yet."""

    @abstractmethod
    def url(self, place: Place) -> str: ...

    def litter(self, place: Place) -> list[Path]:
        """Files that the server leaves outside its folder."""
        return []
