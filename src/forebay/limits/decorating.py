"""Wraps functions so that every call of them waits for a slot."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from forebay.errors import BadInput
from forebay.ids import shown

if TYPE_CHECKING:
    from forebay.limits.slot import Slot

F = TypeVar("F", bound=Callable[..., Any])


def decorator(slot: Callable[[], Slot]) -> Callable[[F], F]:
    import inspect  # noqa: PLC0415 - takes longer to load than all of ours

    def wrap(function: F) -> F:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            name = getattr(function, "__name__", function)
            raise BadInput(
                f"{shown(name)} is a generator: its slot would be given back before it begins.",
                remedy="Take the slot inside of it: with limiter.slot(…).",
            )
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):

            @functools.wraps(function)
            async def acall(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own
                async with slot():
                    return await function(*args, **kwargs)

            return acall  # type: ignore[return-value]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own
            with slot():
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return wrap
