"""Forebay's limiter with one promise broken each: a scenario that does not convict them shows nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

from chaos.limits.adapter import Settings
from chaos.limits.many import Comers, Crowd
from chaos.limits.ours import ENVIRONMENT, Atold, Ours, Told
from chaos.limits.wrapped import Wrapped
from forebay.errors import Busy
from forebay.limits import Limit, Limiter, Slot
from forebay.limits.call import Call
from forebay.limits.line import Line
from forebay.model.limit_record import Answer, Ask, Record, Terms
from forebay.rules import limit_state, window_log
from forebay.stores.limit_address import open_limits
from forebay.stores.limit_base import LimitStore
from forebay.stores.redis.limits import RedisLimits
from forebay.stores.sql import limit_parts


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
        window_log.width = lambda bound, terms: bound["per_ms"]  # noqa: ARG005 - as the real one
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


class Unheard(Ours):
    """Who has heard of a cool-down uses grants from before it as if nothing had happened."""

    def __init__(self, address: str, settings: Settings) -> None:
        Line.late_s = _late_s_of_the_grant  # type: ignore[method-assign]
        super().__init__(address, settings)


def _late_s_of_the_grant(self: Line, call: Call) -> float:  # noqa: ARG001 - as the real one
    return call.late / 1000


class Timeless(Ours):
    """Nobody asks how old a grant is when it is used."""

    def told(self, slot: Slot) -> Told:
        return _Unchecked(slot, without_hint=False)

    def atold(self, slot: Slot) -> Atold:
        return _Unchecked(slot, without_hint=False)


class Prompt(Ours):
    """The store takes it that calls start as soon as they are granted, also where they may start late."""

    def __init__(self, address: str, settings: Settings) -> None:
        limit_state.held_for = _held_for_short
        right = "return line.late_now(record) + terms.transit_ms + terms.call_timeout_ms"
        wrong = "return terms.start_within_ms + terms.transit_ms + terms.call_timeout_ms"
        super().__init__(address, settings, store=_broken(address, {right: wrong}))


def _held_for_short(record: Record, terms: Terms) -> int:  # noqa: ARG001 - as the real one
    return terms["start_within_ms"] + terms["transit_ms"] + terms["call_timeout_ms"]


class Thorough(Crowd):
    """A step clears away all sessions that have ended, however many these are."""

    def __init__(self, address: str, settings: Settings) -> None:
        limit_state.MOST_ENDINGS = limit_parts.ENDINGS_READ = 1000
        super().__init__(address, settings, _broken(address, {"local MOST_ENDINGS = 8": "local MOST_ENDINGS = 1000"}))


class LongLived(Crowd):
    """What many dead sessions held is kept for much longer than was said."""

    def __init__(self, address: str, settings: Settings) -> None:
        super().__init__(address, settings | {"lease_s": 60.0})


class Lingering(Comers):
    """Sessions that have left are remembered for much longer than was said."""

    def limit(self) -> Limit:
        return replace(super().limit(), lease_s=60.0)


class FailOpen(Ours):
    """Whoever is not answered soon goes ahead, since a limiter must not hold anybody up."""

    _PATIENCE_S = 0.4
    wait_s = 0.0

    @contextmanager
    def slot(self) -> Iterator[Told]:
        slot = None
        while slot is None:
            began_at = time.monotonic()
            try:
                slot = self._slot().take()
            except Busy:
                if time.monotonic() - began_at > self._PATIENCE_S:
                    break
                time.sleep(0.02)
        try:
            yield self.told(slot) if slot else _Open()  # type: ignore[misc]
        finally:
            if slot:
                slot.release()

    @asynccontextmanager
    async def aslot(self) -> AsyncIterator[Atold]:
        slot = None
        while slot is None:
            began_at = time.monotonic()
            try:
                slot = await self._slot().atake()
            except Busy:
                if time.monotonic() - began_at > self._PATIENCE_S:
                    break
                await asyncio.sleep(0.02)
        try:
            yield self.atold(slot) if slot else _Open()  # type: ignore[misc]
        finally:
            if slot:
                slot.release()


class _Open:
    """Nobody has been asked."""


class Forgetful(Ours):
    """Processes do not remember what the store has told them."""

    def __init__(self, address: str, settings: Settings) -> None:
        super().__init__(address, settings)
        self._limiter.close()
        self._limiter = Limiter(_Forgetful(self._opened(address)), environment=ENVIRONMENT)
        self._limiter.define(self.limit())

    def _opened(self, address: str) -> LimitStore:
        return open_limits(address, ENVIRONMENT)


class Blind(Forgetful):
    """Nor does the store look whether anything of a limit is gone."""

    def _opened(self, address: str) -> LimitStore:
        looks = {
            "if not parts.are_whole(record) then": "if false then",
            "local leaves = mark == ''": "local leaves = false",
        }
        return _broken(address, looks)


class _Forgetful(Wrapped):
    def exchange(self, limit: str, ask: Ask) -> Answer:
        return _forgotten(super().exchange(limit, _unsure(ask)))

    def renew(self, limit: str, ask: Ask) -> Answer:
        return _forgotten(super().renew(limit, _unsure(ask)))

    def give_back(self, limit: str, ask: Ask) -> Answer:
        return _forgotten(super().give_back(limit, _unsure(ask)))

    def send_back(self, limit: str, ask: Ask) -> bool:
        return super().send_back(limit, _unsure(ask))


def _unsure(ask: Ask) -> Ask:
    return ask | {"seen_version": 0, "is_sure": 0}


def _forgotten(answer: Answer) -> Answer:
    return answer | {"version": 0}


def _broken(address: str, lines: dict[str, str]) -> LimitStore:
    """Return the store; if its rules are in Lua, these lines of them say something else."""
    store = open_limits(address, ENVIRONMENT)
    if isinstance(store, RedisLimits):
        for script in (store._exchange, store._swap, store._patch):  # noqa: SLF001 - to break what is in there
            for right, wrong in lines.items():
                script.use(script.text.replace(right, wrong))
        assert all(wrong in store._exchange.text + store._swap.text for wrong in lines.values())  # noqa: SLF001 - same
    return store
