"""What all APIs share: the settings in force, the clock, the quotas, the faults, the record."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from forebay.simulate import latency
from forebay.simulate.clock import Clock
from forebay.simulate.faults import Faults
from forebay.simulate.quotas import Quotas
from forebay.simulate.record import Ledger
from forebay.simulate.settings import Settings, changed


class State:
    """`parsers` is one thread: PDFium bears no more."""

    def __init__(self, settings: Settings) -> None:
        self._first = settings
        self._random = Random(settings.random)  # noqa: S311 - chance, not secrets
        self.settings = settings
        self.clock = Clock()
        self.quotas = Quotas(settings.quotas, self.clock)
        self.faults = Faults(settings.faults, self._random, now=self.clock.now())
        self.ledger = Ledger()
        self.parsers = ThreadPoolExecutor(1, thread_name_prefix="simulate-parser")

    def change(self, fields: Mapping[str, Any]) -> None:
        self._use(changed(self.settings, fields, where="the settings"))

    def reset(self) -> None:
        """As it was at the start: its settings, an empty record, empty windows, a new month."""
        self._use(self._first.model_copy(update={"faults": ()}))
        self._use(self._first)
        self._random.setstate(Random(self._first.random).getstate())  # noqa: S311 - the same chances again
        self.quotas.reset()
        self.ledger.clear()

    def latency(self, route: str) -> float:
        return latency.draw(route, self.settings.latency, self._random) * self.settings.scale

    def garbage(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def _use(self, settings: Settings) -> None:
        self.settings = settings
        self.quotas.configure(settings.quotas)
        self.faults.configure(settings.faults, now=self.clock.now())
