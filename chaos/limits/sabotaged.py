"""Forebay's limiter with one promise broken each: a scenario that does not convict them shows nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from chaos.limits.adapter import Settings
from chaos.limits.ours import ENVIRONMENT, Atold, Ours, Told
from forebay.limits import Limit, Limiter, Slot
from forebay.model.limit_record import Answer, Ask, Record
from forebay.rules import window_log
from forebay.stores.limit_address import open_limits
from forebay.stores.limit_base import LimitStore, Step, Wake


class Apart(Ours):
    """Each process has a limit of its own."""

    def __init__(self, _: str, settings: Settings) -> None:
        super().__init__("memory://", settings)


class Deaf(Ours):
    """A refusal is heard by nobody."""

    def told(self, slot: Slot) -> Told:
        return _Deaf(slot, without_hint=False)

    def atold(self, slot: Slot) -> Atold:
        return _Deaf(slot, without_hint=False)


class _Deaf(Atold):
    def start(self) -> object:
        self._slot.start()
        return None

    def throttled(self, retry_after_s: float) -> None: ...


class Hasty(Ours):
    """A slot is given back when its call is sent, not when it ends."""

    def told(self, slot: Slot) -> Told:
        return _Hasty(slot, without_hint=False)

    def atold(self, slot: Slot) -> Atold:
        return _Hasty(slot, without_hint=False)


class _Hasty(Atold):
    def start(self) -> object:
        self._slot.release()
        return None


class Narrow(Ours):
    """Windows as wide as was said and not wider, and nobody asks how old a grant is when it is used."""

    def __init__(self, address: str, settings: Settings) -> None:
        window_log.width = lambda bound, terms: bound["per"]  # noqa: ARG005 - as the real one
        super().__init__(address, settings)

    def told(self, slot: Slot) -> Told:
        return _Unchecked(slot, without_hint=False)

    def atold(self, slot: Slot) -> Atold:
        return _Unchecked(slot, without_hint=False)


class _Unchecked(Atold):
    def start(self) -> object:
        return None


class Hoarding(Ours):
    """What a dead process held is kept for much longer than was said."""

    def limit(self) -> Limit:
        return replace(super().limit(), lease_s=60.0)


class Forgetful(Ours):
    """Processes do not remember what the store has told them."""

    def __init__(self, address: str, settings: Settings) -> None:
        super().__init__(address, settings)
        self._limiter.close()
        self._limiter = Limiter(_Forgetful(open_limits(address, ENVIRONMENT)), environment=ENVIRONMENT)
        self._limiter.define(self.limit())


class _Forgetful:
    instant = False

    def __init__(self, store: LimitStore) -> None:
        self._store = store

    def exchange(self, limit: str, ask: Ask) -> Answer:
        return _forgotten(self._store.exchange(limit, _unsure(ask)))

    def renew(self, limit: str, ask: Ask) -> Answer:
        return _forgotten(self._store.renew(limit, _unsure(ask)))

    def give_back(self, limit: str, ask: Ask) -> Answer:
        return _forgotten(self._store.give_back(limit, _unsure(ask)))

    def send_back(self, limit: str, ask: Ask) -> bool:
        return self._store.send_back(limit, _unsure(ask))

    def read(self, limit: str) -> tuple[Record | None, int]:
        return self._store.read(limit)

    def read_many(self, limits: Sequence[str]) -> list[tuple[Record | None, int]]:
        return self._store.read_many(limits)

    def change(self, limit: str, step: Step) -> Record | None:
        return self._store.change(limit, step)

    def names(self) -> list[str]:
        return self._store.names()

    def listen(self, sid: str, wake: Wake) -> Callable[[], None]:
        return self._store.listen(sid, wake)

    def close(self) -> None:
        self._store.close()


def _unsure(ask: Ask) -> Ask:
    return ask | {"version": 0, "sure": 0}


def _forgotten(answer: Answer) -> Answer:
    return answer | {"v": 0}
