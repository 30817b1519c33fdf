"""Runs a blocking call in a thread of its own: handlers cannot keep it busy, and nobody waits for it at the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def aside(name: str, call: Callable[..., T], *arguments: object) -> T:
    """Unlike asyncio.to_thread, whose few threads are all taken when handlers are stuck in them."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def tell(value: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def work() -> None:
        value, failed = None, None
        try:
            value = call(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            failed = error
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(tell, value, failed)

    threading.Thread(target=work, name=f"forebay-{name}", daemon=True).start()
    result: T = await done
    return result
