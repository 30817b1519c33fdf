"""Which addresses are public: those that the flags of `ipaddress` take for public, too."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from forebay.callbacks.addresses import Reach, parsed, reach

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.215.14",
    "99.255.255.255",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2a00:1450:4001::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]
INTERNAL = [
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "fc00::1",
    "fd12:3456::1",
    "::ffff:10.1.2.3",
]
LOOPBACK = ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"]
FORBIDDEN = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.8",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::7f00:1",
    "::127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
    "2001:10::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "4000::1",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (text, expected)
        for expected, texts in {
            Reach.PUBLIC: PUBLIC,
            Reach.INTERNAL: INTERNAL,
            Reach.LOOPBACK: LOOPBACK,
            Reach.FORBIDDEN: FORBIDDEN,
        }.items()
        for text in texts
    ],
)
def test_who_answers_at_an_address_is_known(text: str, expected: Reach) -> None:
    address = parsed(text)
    assert address is not None
    assert reach(address) is expected


def test_the_flags_of_ipaddress_would_let_some_of_them_pass() -> None:
    passed = [text for text in (*INTERNAL, *LOOPBACK, *FORBIDDEN) if ip_address(text).is_global]
    assert {"192.88.99.1", "168.63.129.16", "64:ff9b:1::1"} & set(passed)


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f000001", "1.2.3.4.5", "::g"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert parsed(text) is None
