"""Decides where a callback connects to: the name is looked up once, and only what was checked is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from forebay.callbacks.addresses import parsed, reach
from forebay.callbacks.target import Policy, Target
from forebay.engine.signals import Retry
from forebay.rules.verdict import ErrorClass

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as text, the best first."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """As the system does it; the order is the system's, too."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        # What cannot be a host's name is not known either.
        raise socket.gaierror(socket.EAI_NONAME, "it is not a host name") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def checked(target: Target, policy: Policy, look_up: Resolve = resolve) -> list[str]:
    """The addresses to connect to, or a Retry; one that is not allowed rules out the others as well.

    The Retry is the same for a name that is not known and for one that leads where callbacks may not go: whoever gives
    a URL must not learn from it which names there are in the operator's network.
    """
    try:
        found = await look_up(target.host, target.port)
    except OSError:
        found = []
    addresses = [parsed(each) for each in found]
    allowed = [each for each in addresses if each is not None and policy.lets(target.host, reach(each))]
    if not allowed or len(allowed) < len(addresses):
        raise Retry("The host of the callback has no public address.", error_class=ErrorClass.NETWORK_ERROR)
    return [str(address) for address in allowed]
