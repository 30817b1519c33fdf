"""Reads the URL that a callback goes to, and says what an operator lets such URLs be."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import httpx2

from forebay import ids
from forebay.callbacks.addresses import Reach, parsed, reach
from forebay.errors import BadInput
from forebay.ids import shown

MAX_LENGTH: Final = 2000
_PORTS = {"https": 443, "http": 80}
_PORTS_END = 65_536
_MAX_NAME = 253
_MAX_LABEL = 63
_FREE_PORTS = 1024  # below it are other services, such as mail, that a callback must not be made to speak to


@dataclass(frozen=True, slots=True)
class Policy:
    """`hosts` are those inside the operator's own network that callbacks may go to; this machine takes a flag as well.

    With the flag, names that say so lead to this machine, and hosts that are named here; no other name does.
    """

    hosts: frozenset[str] = frozenset()
    loopback: bool = False

    @classmethod
    def read(cls, hosts: str | None, *, loopback: bool) -> Policy:
        """`hosts` as the settings have them: names or addresses, with commas between."""
        named = (each.strip().lower().strip("[]") for each in (hosts or "").split(","))
        return cls(frozenset(filter(None, named)), loopback)

    def lets(self, host: str, where: Reach) -> bool:
        """Whether a callback to this host may connect to an address there."""
        match where:
            case Reach.PUBLIC:
                return True
            case Reach.INTERNAL:
                return host in self.hosts
            case Reach.LOOPBACK:
                return self.loopback and (host in self.hosts or _is_own(host))
            case Reach.FORBIDDEN:
                return False


@dataclass(frozen=True)
class Target:
    """A URL, taken apart once: what is checked is what is called."""

    url: httpx2.URL

    @classmethod
    def of(cls, url: str) -> Target:
        """Of a URL that was read before."""
        return cls(httpx2.URL(url))

    @cached_property
    def host(self) -> str:
        """As it is looked up: in ASCII, without brackets."""
        return self.url.raw_host.decode("ascii").lower()

    @cached_property
    def port(self) -> int:
        return _PORTS[self.url.scheme] if self.url.port is None else self.url.port

    @property
    def group(self) -> str:
        """What the lanes of all callbacks to this host begin with."""
        return f"h-{_mark(f'{self.host}:{self.port}')}"

    def lane(self, tenant: str) -> str:
        """What names the lane of a tenant's callbacks to this host: tenants take turns there."""
        return f"{self.group}.{_mark(tenant)}"

    def endpoint_id(self, tenant: str) -> str:
        return ids.derived_id("callback", tenant, str(self.url))


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(url: object, policy: Policy) -> Target:
    """Refuses what could never be called; where the host's name leads is looked at for each attempt."""
    if not isinstance(url, str) or not url.isprintable() or len(url) > MAX_LENGTH:
        raise BadInput(f"The callback {shown(url)} is not a URL.", remedy=f"Give one of up to {MAX_LENGTH} characters.")
    try:
        target = Target.of(url)
        host = target.host
    except (httpx2.InvalidURL, UnicodeError, ValueError):
        raise _refused(url, "is not a URL", "Give one such as https://example.com/callbacks.") from None
    if target.url.scheme not in _PORTS or not host:
        raise _refused(url, "is not a web address", "Begin it with https://.")
    if not 0 < target.port < _PORTS_END:
        raise _refused(url, "has an impossible port", f"Use 443, or a port from {_FREE_PORTS} to {_PORTS_END - 1}.")
    if target.url.userinfo or target.url.fragment:
        # Not quoted: what must not be in it must not be in a log either.
        raise BadInput(
            "The callback has a password or a fragment.", remedy="Leave them out of its URL: callbacks are signed."
        )
    _check_host(target, policy, url)
    return target


def _is_name(host: str) -> bool:
    """Whether it can be looked up at all: a system's own look-up fails in ways of its own where it cannot."""
    name = host.removesuffix(".")
    labels = name.split(".")
    # What ends in a number is an address to a system's own look-up, however it is spelled.
    is_address = re.fullmatch(r"\d+|0x[0-9a-f]*", labels[-1]) is not None
    return len(name) <= _MAX_NAME and all(0 < len(label) <= _MAX_LABEL for label in labels) and not is_address


def _is_own(host: str) -> bool:
    """Whether the name itself says that it is this machine: others must not turn out to be."""
    address = parsed(host)
    name = host.rstrip(".")
    return name == "localhost" or name.endswith(".localhost") if address is None else reach(address) is Reach.LOOPBACK


def _check_host(target: Target, policy: Policy, url: str) -> None:
    address = parsed(target.host)
    if address is None and not _is_name(target.host):
        raise _refused(url, "has no proper host name", "Give one such as https://example.com/callbacks.")
    where = reach(address) if address is not None else Reach.LOOPBACK if _is_own(target.host) else None
    if where is not None and not policy.lets(target.host, where):
        remedy = {
            Reach.LOOPBACK: "Set callback_loopback=allow to let callbacks go to this machine.",
            Reach.INTERNAL: "Name the host in callback_hosts to let callbacks go to it.",
        }
        raise _refused(url, "is not a public address", remedy.get(where, "Give the address of a public host."))
    own = target.host in policy.hosts or (where is Reach.LOOPBACK and policy.loopback)
    if target.port < _FREE_PORTS and target.port not in _PORTS.values() and not own:
        raise _refused(url, "names the port of another service", f"Use 443, or a port from {_FREE_PORTS} on.")
    if target.url.scheme == "http" and not own:
        raise _refused(url, "is not encrypted", "Begin it with https://, or name the host in callback_hosts.")


def _refused(url: str, what: str, remedy: str) -> BadInput:
    return BadInput(f"The callback {shown(url)} {what}.", remedy=remedy)
