"""Which URLs callbacks may be asked for."""

from __future__ import annotations

import pytest

from forebay.callbacks.addresses import Reach
from forebay.callbacks.target import Policy, read
from forebay.errors import BadInput

USUAL = Policy()


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://example.com/hook?x=1", "example.com", 443),
        ("https://EXAMPLE.com:8443", "example.com", 8443),
        ("https://bücher.example/", "xn--bcher-kva.example", 443),
        ("https://[2606:4700::1]/hook", "2606:4700::1", 443),
        ("https://1.1.1.1/", "1.1.1.1", 443),
    ],
)
def test_a_public_url_is_taken_apart(url: str, host: str, port: int) -> None:
    target = read(url, USUAL)
    assert (target.host, target.port) == (host, port)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com/hook",
        "ftp://example.com/",
        "file:///etc/passwd",
        "http://example.com/",
        "https://",
        "https://user:pw@example.com/",
        "https://example.com/#part",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/",
        "https://0177.0.0.1/",
        "https://localhost/",
        "https://localhost./",
        "https://app.localhost/",
        "https://example.com/\n",
        "https://example.com:99999/",
        "https://example.com:22/",
        "https://example.com:1023/",
        f"https://example.com/{'x' * 2000}",
        None,
        7,
    ],
)
def test_what_no_callback_may_go_to_is_refused(url: object) -> None:
    with pytest.raises(BadInput):
        read(url, USUAL)


def test_an_operator_lets_callbacks_go_to_hosts_of_their_own() -> None:
    own = Policy.read(" hooks.lan, 10.1.2.3,[fd12::1],", loopback=False)
    for url in ("http://hooks.lan/x", "https://hooks.lan:444/", "https://10.1.2.3/", "http://[fd12::1]:8080/"):
        assert str(read(url, own).url) == url
    for url in ("https://10.1.2.4/", "http://example.com/", "https://127.0.0.1/"):
        with pytest.raises(BadInput):
            read(url, own)


def test_this_machine_takes_a_flag_of_its_own() -> None:
    assert read("http://127.0.0.1:8000/", Policy.read(None, loopback=True)).port == 8000
    with pytest.raises(BadInput, match="callback_loopback"):
        read("http://127.0.0.1:8000/", Policy.read("127.0.0.1", loopback=False))


def test_with_the_flag_a_name_of_others_does_not_lead_to_this_machine_all_the_same() -> None:
    flagged = Policy.read("hooks.lan", loopback=True)
    assert [flagged.lets(host, Reach.LOOPBACK) for host in ("127.0.0.1", "localhost", "::1", "hooks.lan")] == [True] * 4
    assert not flagged.lets("rebinding.example", Reach.LOOPBACK)


def test_metadata_is_out_of_reach_whatever_the_operator_lets_pass() -> None:
    generous = Policy.read("metadata.internal,169.254.169.254", loopback=True)
    assert not generous.lets("metadata.internal", Reach.FORBIDDEN)
    with pytest.raises(BadInput):
        read("https://169.254.169.254/", generous)


def test_a_lane_is_named_by_host_port_and_tenant_alone() -> None:
    first, second = read("https://example.com/a", USUAL), read("https://Example.com:443/b", USUAL)
    assert first.lane("acme") == second.lane("acme")
    assert "example" not in first.lane("acme")
    assert first.lane("acme") != read("https://example.com:8443/a", USUAL).lane("acme")
    assert first.lane("acme") != first.lane("other")
    assert first.lane("acme").rpartition(".")[0] == first.lane("other").rpartition(".")[0] == first.group
    assert first.endpoint_id("default") != second.endpoint_id("default")
    assert first.endpoint_id("default") != first.endpoint_id("acme")


def test_a_password_in_a_url_is_not_said_again() -> None:
    with pytest.raises(BadInput, match="password") as caught:
        read("https://user:canary@example.com/", USUAL)
    assert "canary" not in f"{caught.value} {caught.value.remedy}"


@pytest.mark.parametrize("port", [0, 65_536, 99_999])
def test_a_port_that_there_is_not_is_named_as_what_is_wrong(port: int) -> None:
    with pytest.raises(BadInput, match="port"):
        read(f"https://example.com:{port}/", USUAL)
