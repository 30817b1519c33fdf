from __future__ import annotations

import pytest

from forebay import Permanent, Retry
from forebay.errors import BadInput
from forebay.processors.origins import check_own, followed, origin

HOME = "https://api.example:443"
HOSTS = ("store.example", ".amazonaws.example")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://API.example/v1?x=1", HOME),
        ("https://api.example:443", HOME),
        ("http://127.0.0.1:8421/v1", "http://127.0.0.1:8421"),
        ("http://[::1]:80", "http://[::1]:80"),
    ],
)
def test_an_origin_has_one_form(url: str, expected: str) -> None:
    assert origin(url) == expected


@pytest.mark.parametrize(
    "url",
    ["", "api.example", "ftp://api.example", "https://", "https://a:b@api.example", "https://api.example:x", "https://ä.example"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput):
        origin(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example/",
        "https://api.example.evil/",
        "https://api.example:444/",
        "https://api.example@evil/",
        "//api.example",
        "",
    ],
)
def test_credentials_go_to_no_other_origin(url: str) -> None:
    check_own("https://api.example/poll/1", HOME)
    with pytest.raises(Permanent):
        check_own(url, HOME)


@pytest.mark.parametrize(
    "url", ["https://store.example/a?sig=1", "https://b.s3.amazonaws.example/x", "https://api.example/job"]
)
def test_a_link_to_an_allowed_host_is_followed(url: str) -> None:
    assert followed(url, hosts=HOSTS, home=HOME) == url


@pytest.mark.parametrize(
    "url",
    [
        "http://store.example/a",
        "https://store.example:8443/a",
        "https://amazonaws.example/x",
        "https://evil-amazonaws.example/x",
        "https://store.example.evil/x",
        "https://store.example@evil/x",
        "https://user:pw@store.example/x",
        "https://127.0.0.1/x",
        "file:///etc/passwd",
        "/relative",
        "",
        None,
        ["https://store.example/a"],
    ],
)
def test_a_link_to_anywhere_else_is_a_bad_response(url: object) -> None:
    with pytest.raises(Retry) as caught:
        followed(url, hosts=HOSTS, home=HOME)
    assert caught.value.error_class == "bad_response"


def test_the_signature_of_a_refused_link_is_not_shown() -> None:
    with pytest.raises(Retry) as caught:
        followed("https://evil.example/x?sig=canary", hosts=HOSTS, home=HOME)
    assert "canary" not in caught.value.text
