"""No socket leads to where a user's URL must not: names that change, redirects, proxies, endless answers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from forebay.callbacks import guard, sending, target
from forebay.callbacks.addresses import parsed
from forebay.callbacks.sending import Answer, Sender
from forebay.callbacks.target import Policy, Target
from forebay.engine.signals import Retry
from forebay.errors import BadInput
from tests.callbacks.internet import Internet, Names, certificate
from tests.callbacks.receiver import Receiver

Make = Callable[..., Receiver]
PUBLIC = "93.184.215.14"
OWN = Policy(frozenset({"hooks.example"}))
HEADERS = {"webhook-id": "a"}


def _target(url: str = "http://hooks.example/hook", policy: Policy = OWN) -> Target:
    return target.read(url, policy)


def _post(sender: Sender, place: Target | None = None) -> Answer:
    return asyncio.run(sender.post(place or _target(), HEADERS, b"{}"))


class NaiveSender:
    """Validate, then fetch: what is checked is not what is connected to."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def post(self, place: Target, headers: dict[str, str], body: bytes) -> int:
        await guard.checked(place, self._sender.policy, self._sender.look_up)
        (address,) = await self._sender.look_up(place.host, place.port)  # the client looks it up again
        async with httpx2.AsyncClient(transport=self._sender.network(httpx2.create_ssl_context())) as client:
            answer = await client.post(place.url.copy_with(host=address), headers=headers, content=body)
        return answer.status_code


def test_a_name_that_changes_after_the_check_leads_to_what_was_checked(receiver: Make) -> None:
    public, inside = receiver("public"), receiver("inside")
    internet = Internet({PUBLIC: public.port, "127.0.0.1": inside.port})
    names = Names([PUBLIC], ["127.0.0.1"])
    sender = Sender(policy=OWN, look_up=names, network=internet.network)
    assert _post(sender).status == 204
    assert (len(public.seen), public.seen[0]["host"], len(names.asked)) == (1, "hooks.example", 1)
    with pytest.raises(Retry, match="no public address"):
        _post(sender)
    assert (internet.connected, inside.seen) == ([PUBLIC], [])


def test_a_sender_that_validates_and_then_fetches_is_caught(receiver: Make) -> None:
    inside = receiver("inside")
    internet = Internet({"127.0.0.1": inside.port})
    sender = Sender(policy=OWN, look_up=Names([PUBLIC], ["127.0.0.1"]), network=internet.network)
    assert asyncio.run(NaiveSender(sender).post(_target(), HEADERS, b"{}")) == 204
    assert (internet.connected, len(inside.seen)) == (["127.0.0.1"], 1)


@pytest.mark.parametrize(
    "answers",
    [
        [PUBLIC, "127.0.0.1"],
        ["169.254.169.254"],
        [PUBLIC, "169.254.169.254"],
        ["::ffff:169.254.169.254"],
        ["64:ff9b::a9fe:a9fe"],
        ["fe80::1%eth0"],
        ["0.0.0.0"],
        [],
        ["nonsense"],
    ],
)
def test_one_address_that_is_not_public_rules_out_the_name(answers: list[str]) -> None:
    internet = Internet({})
    sender = Sender(policy=OWN, look_up=Names(answers), network=internet.network)
    # The same text for a name that is not known: nobody learns from it which names lead inside.
    with pytest.raises(Retry, match=r"^The host of the callback has no public address\.$"):
        _post(sender)
    assert internet.connected == []


def test_a_host_of_the_operators_own_may_be_in_a_private_network(receiver: Make) -> None:
    inside = receiver("inside")
    internet = Internet({"10.1.2.3": inside.port})
    sender = Sender(policy=OWN, look_up=Names(["10.1.2.3"]), network=internet.network)
    assert _post(sender).status == 204
    elsewhere = _target("https://elsewhere.example/")
    with pytest.raises(Retry, match="no public address"):
        _post(sender, elsewhere)
    assert internet.connected == ["10.1.2.3"]


def test_spellings_of_loopback_that_the_system_knows_are_found_out() -> None:
    for spelled in ("127.1", "0x7f.1", "2130706433"):
        with contextlib.suppress(socket.gaierror):
            found = socket.getaddrinfo(spelled, 80, type=socket.SOCK_STREAM)
            assert {str(each[4][0]) for each in found} == {"127.0.0.1"}
        with pytest.raises(Retry):
            asyncio.run(guard.checked(Target.of(f"https://{spelled}/"), Policy(frozenset({spelled}))))
        with pytest.raises(BadInput, match="no proper host name"):
            _target(f"https://{spelled}/")


def test_the_system_resolves_a_name_once(receiver: Make) -> None:
    here = receiver()
    sender = Sender(policy=Policy(loopback=True))
    assert _post(sender, _target(f"http://localhost:{here.port}/x", sender.policy)).status == 204
    assert here.seen[0]["host"] == f"localhost:{here.port}"
    with pytest.raises(Retry, match="no public address"):
        _post(sender, _target("https://no.such.name.invalid/", sender.policy))


def test_the_next_address_is_tried_where_the_first_cannot_be_connected_to(receiver: Make) -> None:
    public = receiver("public")
    internet = Internet({PUBLIC: public.port})
    sender = Sender(policy=OWN, look_up=Names(["2606:4700::1", PUBLIC]), network=internet.network)
    assert _post(sender).status == 204
    assert internet.connected == ["2606:4700::1", PUBLIC]
    with pytest.raises(Retry, match="ConnectError"):
        _post(Sender(policy=OWN, look_up=Names(["2606:4700::1"]), network=internet.network))


def test_the_certificate_is_checked_by_the_name_and_not_by_the_address(
    receiver: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = certificate(tmp_path / "hooks.pem", "hooks.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    here = receiver(certificate=trusted)
    internet = Internet({PUBLIC: here.port})
    sender = Sender(policy=OWN, look_up=Names([PUBLIC]), network=internet.network)
    assert _post(sender, _target("https://hooks.example/hook")).status == 204
    with pytest.raises(Retry, match="ConnectError"):
        _post(sender, _target("https://other.example/hook"))
    assert len(here.seen) == 1


def test_a_redirect_is_an_answer_and_leads_nowhere(receiver: Make) -> None:
    here, metadata = receiver("here"), receiver("metadata")
    sender = Sender(policy=Policy(loopback=True))
    for status in (301, 302, 307, 308):
        url = here.url(f"{status}:{metadata.url()}")
        assert _post(sender, _target(url, sender.policy)).status == status
    assert metadata.seen == []


def test_proxies_of_the_environment_are_not_asked(receiver: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here, proxy = receiver("here"), receiver("proxy")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    sender = Sender(policy=Policy(loopback=True))
    assert _post(sender, _target(here.url(), sender.policy)).status == 204
    assert proxy.seen == []


def test_an_answer_without_end_is_not_read_to_its_end(receiver: Make) -> None:
    here = receiver()
    sender = Sender(policy=Policy(loopback=True), timeout_s=60)
    began = time.monotonic()
    assert _post(sender, _target(here.url("endless"), sender.policy)).status == 200
    assert time.monotonic() - began < 40


def test_a_receiver_that_hangs_is_left_after_the_time_it_may_take(receiver: Make) -> None:
    here = receiver()
    sender = Sender(policy=Policy(loopback=True), timeout_s=0.3)
    with pytest.raises(Retry, match=r"0\.3 s"):
        _post(sender, _target(here.url("hang"), sender.policy))


def test_a_resolver_that_hangs_counts_in_that_time() -> None:
    async def forever(host: str, port: int) -> list[str]:
        await asyncio.sleep(60)
        return []

    with pytest.raises(Retry, match=r"0\.2 s"):
        _post(Sender(policy=OWN, timeout_s=0.2, look_up=forever))


def test_the_network_of_senders_keeps_no_connection() -> None:
    carrier = sending.network(httpx2.create_ssl_context())
    assert isinstance(carrier, httpx2.AsyncHTTPTransport)
    assert carrier._pool._max_keepalive_connections == 0


def test_what_was_checked_is_what_is_connected_to() -> None:
    found = asyncio.run(guard.checked(_target(), OWN, Names(["2606:4700::1", PUBLIC])))
    assert [parsed(each) for each in found] == [parsed("2606:4700::1"), parsed(PUBLIC)]


@pytest.mark.parametrize("host", [".", "a..b.invalid", f"{'a' * 64}.invalid"])
def test_what_can_be_no_name_is_a_host_that_is_not_known(host: str) -> None:
    with pytest.raises(OSError, match="is not a host name"):
        asyncio.run(guard.resolve(host, 443))
