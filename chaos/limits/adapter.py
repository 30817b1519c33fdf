"""What a limiter must offer to be judged, and how one is named: `module:factory`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, cast

Settings = dict[str, Any]


class Adapter(Protocol):
    """Waits for a slot, and gives it back.

    What a slot yields may have `start()`, called right before the bytes of a call are written, and, after the answer,
    `throttled(retry_after_s)` for a 429 or `failed(status)` for another that is not 200. Under `aslot` they may be
    coroutines. An adapter may have `close()`, called when its process ends in peace.
    """

    def slot(self) -> AbstractContextManager[object]: ...

    def aslot(self) -> AbstractAsyncContextManager[object]: ...


def find(name: str) -> Callable[[str, Settings], Adapter]:
    """Return the factory; its module is loaded with all that it needs."""
    module, _, factory = name.partition(":")
    return cast("Callable[[str, Settings], Adapter]", getattr(importlib.import_module(module), factory))


def prepare(name: str, address: str) -> None:
    """Load all that the adapter needs, for processes that are forked afterwards."""
    factory = find(name)
    if hasattr(factory, "prepare"):
        factory.prepare(address)


def load(name: str, address: str, settings: Settings) -> Adapter:
    """Call the factory with the address of whatever the limiter shares, and the settings of the limit."""
    return find(name)(address, settings)


def tell(slot: object, verb: str, *arguments: float) -> object:
    """Call what the slot may not have; gives what it answered."""
    called = getattr(slot, verb, None)
    return None if called is None else called(*arguments)


async def atell(slot: object, verb: str, *arguments: float) -> None:
    answer = tell(slot, verb, *arguments)
    if inspect.isawaitable(answer):
        await answer
