"""Decides which addresses are public: by tables of our own, because the flags of `ipaddress` let too many pass."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address


class Reach(StrEnum):
    """Who answers at an address. `FORBIDDEN`: nobody whom a callback may ever be meant for."""

    PUBLIC = "public"
    INTERNAL = "internal"
    LOOPBACK = "loopback"
    FORBIDDEN = "forbidden"


_LOOPBACK_4: Final = IPv4Network("127.0.0.0/8")
_LOOPBACK_6: Final = IPv6Address("::1")
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_GLOBAL_6: Final = IPv6Network("2000::/3")

# Private networks: an operator may have receivers there.
_INTERNAL: Final[tuple[IPv4Network | IPv6Network, ...]] = (
    IPv4Network("10.0.0.0/8"),
    IPv4Network("100.64.0.0/10"),  # carriers' own
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.168.0.0/16"),
    IPv6Network("fc00::/7"),
)
_FORBIDDEN_4: Final = (
    IPv4Network("0.0.0.0/8"),  # this host, in this network
    IPv4Network("100.100.100.200/32"),  # metadata of Alibaba Cloud
    IPv4Network("168.63.129.16/32"),  # metadata of Azure
    IPv4Network("169.254.0.0/16"),  # link-local, with the metadata of most clouds
    IPv4Network("192.0.0.0/24"),  # protocol assignments, with the metadata of Oracle
    IPv4Network("192.0.2.0/24"),  # documentation
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("198.18.0.0/15"),  # benchmarks of networks
    IPv4Network("198.51.100.0/24"),  # documentation
    IPv4Network("203.0.113.0/24"),  # documentation
    IPv4Network("224.0.0.0/4"),  # multicast
    IPv4Network("240.0.0.0/4"),  # reserved, and broadcast
)
_FORBIDDEN_6: Final = (
    IPv6Network("2001::/23"),  # protocol assignments, with Teredo
    IPv6Network("2001:db8::/32"),  # documentation
    IPv6Network("2002::/16"),  # 6to4: an IPv4 address of anybody's choice inside
    IPv6Network("3fff::/20"),  # documentation
    IPv6Network("fd00:ec2::/32"),  # metadata of AWS
    IPv6Network("fd20:ce::/32"),  # metadata of Google Cloud
)


def parsed(text: str) -> Address | None:
    """The address that a text is, without the zone of an IPv6 one; None if it is none."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def reach(address: Address) -> Reach:
    """An IPv4 address that travels inside an IPv6 one is judged as what it is."""
    if isinstance(address, IPv6Address):
        inside = IPv4Address(int(address) & 0xFFFF_FFFF)
        if address in _MAPPED:
            return reach(inside)
        if address in _NAT64:
            return Reach.PUBLIC if reach(inside) is Reach.PUBLIC else Reach.FORBIDDEN
        return _reach_6(address)
    if any(address in network for network in _FORBIDDEN_4):
        return Reach.FORBIDDEN
    if address in _LOOPBACK_4:
        return Reach.LOOPBACK
    return Reach.INTERNAL if _is_internal(address) else Reach.PUBLIC


def _reach_6(address: IPv6Address) -> Reach:
    if address == _LOOPBACK_6:
        return Reach.LOOPBACK
    if any(address in network for network in _FORBIDDEN_6):
        return Reach.FORBIDDEN
    if _is_internal(address):
        return Reach.INTERNAL
    # Whatever is not handed out to anybody yet: link-local, site-local, multicast, translations, old mappings.
    return Reach.PUBLIC if address in _GLOBAL_6 else Reach.FORBIDDEN


def _is_internal(address: Address) -> bool:
    return any(address.version == network.version and address in network for network in _INTERNAL)
