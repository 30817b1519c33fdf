"""Decides where a callback connects to: the name is looked up once, and only what was checked is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from forebay.callbacks.addresses import parsed, reach
from forebay.callbacks.target import Policy, Target
from forebay.engine.signals import Retry
from forebay.errors import BadInput
from forebay.ids import shown
from forebay.rules.verdict import ErrorClass

_EARLY_S = 1.0
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as text, the best first."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """As the system does it; the order is the system's, too."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        # What cannot be a host's name is not known either.
        raise socket.gaierror(socket.EAI_NONAME, "it is no name of a host") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def refuse_early(target: Target, policy: Policy, look_up: Resolve = resolve) -> None:
    """BadInput for a host that leads, as of now, where callbacks may not go.

    One that is not known here and now is left to each attempt, which looks again.
    """
    try:
        async with asyncio.timeout(_EARLY_S):
            found = await look_up(target.host, target.port)
    except (OSError, TimeoutError):
        return
    for address in map(parsed, found):
        if address is not None and not policy.lets(target.host, reach(address)):
            raise BadInput(
                f"The host {shown(target.host)} of the callback leads to an address that is {reach(address)}.",
                remedy="Give the URL of a public host, or name the host in callback_hosts.",
            )


async def checked(target: Target, policy: Policy, look_up: Resolve = resolve) -> list[str]:
    """The addresses to connect to, or a Retry; one that is not allowed rules out the others as well."""
    try:
        found = await look_up(target.host, target.port)
    except OSError as error:
        raise _unreachable(f"The host of the callback is not known: {error.strerror or 'no answer'}.") from None
    addresses = [parsed(each) for each in found]
    if not addresses or None in addresses:
        raise _unreachable("The host of the callback has no address.")
    for address in addresses:
        if address is not None and not policy.lets(target.host, reach(address)):
            raise _unreachable(f"The host of the callback leads to an address that is {reach(address)}, not public.")
    return [str(address) for address in addresses]


def _unreachable(text: str) -> Retry:
    return Retry(text, error_class=ErrorClass.NETWORK_ERROR)
