"""A store of one scenario, fresh, and what can befall it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

from chaos.limits.slow import SlowRelay
from chaos.limits.steps import Steps
from tests.servers.server import Server

MOST_CLEARED = 8
"""How many sessions one step may clear away."""


class Stage:
    """What a store cannot suffer it does not have."""

    address: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._clock = folder / "clock"

    @property
    def clock(self) -> str:
        """A file that shifts the clock of all processes once it is there."""
        return str(self._clock)

    def shift_clock(self, by_s: float) -> None:
        beside = self._clock.with_suffix(".new")
        beside.write_text(str(int(by_s * 1000)))
        beside.rename(self._clock)

    def configure(self, **values: object) -> None:
        """As an operator would, from another process than those of the load."""
        from forebay.limits import Limiter  # noqa: PLC0415 - the load itself shares no code with the judged

        with Limiter(self.address, environment="chaos") as limiter:
            limiter.configure("chaos", **values)  # type: ignore[arg-type]

    def go_away(self) -> None:
        """Answer nobody, and keep what is known."""
        raise NotImplementedError

    def come_back(self) -> None:
        raise NotImplementedError

    def forget(self) -> None:
        """Be there, and know nothing any more."""
        raise NotImplementedError

    def slow_down(self, answers_s: tuple[float, float]) -> None:
        """Answer within so many seconds, at `slow_address`."""
        raise NotImplementedError

    def speed_up(self) -> None:
        raise NotImplementedError

    @property
    def slow_address(self) -> str:
        return self.address

    def contents(self) -> dict[str, int]:
        """Return how many of what there are in the limit, as the store itself counts them."""
        raise NotImplementedError

    def watch_steps(self) -> Steps:
        raise NotImplementedError

    def close(self) -> None:
        """End what goes on."""


class MemoryStage(Stage):
    address = "memory://"


class ServerStage(Stage):
    def __init__(self, folder: Path, server: Server) -> None:
        super().__init__(folder)
        self._server = server
        self.address = server.url
        self._relay: SlowRelay | None = None

    @property
    def place(self) -> tuple[str, int]:
        parts = urlsplit(self.address)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    @property
    def relay(self) -> SlowRelay:
        if self._relay is None:
            self._relay = SlowRelay(self.place)
        return self._relay

    @property
    def slow_address(self) -> str:
        return self.address.replace(f":{self.place[1]}/", f":{self.relay.port}/")

    def slow_down(self, answers_s: tuple[float, float]) -> None:
        self.relay.slow_down(answers_s)

    def speed_up(self) -> None:
        self.relay.speed_up()

    def go_away(self) -> None:
        self._server.kill()

    def come_back(self) -> None:
        self._server.start()

    def hang(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, what: signal.Signals) -> None:
        os.kill(self._server.pid, what)

    def keep(self) -> None:
        raise NotImplementedError

    def roll_back(self) -> None:
        """As soon as there is anything to take back."""
        raise NotImplementedError

    def close(self) -> None:
        if self._relay is not None:
            self._relay.close()
        if self._server.is_running:
            self.go_on()
