from __future__ import annotations

import asyncio
import gzip
import socket
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping

import pytest

from forebay import Limit, Permanent, Retry, Window
from forebay.engine.signals import Signal
from forebay.errors import Busy
from forebay.processors.messages import Reply, Request, Stream, json_by_status
from forebay.processors.origins import origin
from tests.processors.ground import till
from tests.processors.provider import Caller, Provider, Reset, Seen, against, get, http

HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


def signal_of(provider: Provider, **terms: object) -> tuple[Signal, Caller]:
    """What a call of this provider raises."""

    async def scenario(caller: Caller, url: str) -> tuple[Signal, Caller]:
        with pytest.raises(Signal) as caught:
            await caller.call(get(url), judge=json_by_status, **terms)
        await asyncio.sleep(0.05)  # what is given back is told a moment later
        caller.in_flight = caller.limiter.usage("api").in_flight
        return caught.value, caller

    return against(provider, scenario)


async def later(seconds: float, answer: bytes) -> bytes:
    await asyncio.sleep(seconds)
    return answer


def test_an_answer_comes_back_with_its_status_headers_and_body() -> None:
    provider = Provider([http(201, {"a": [1]}, x_request_id="r1")])

    async def scenario(caller: Caller, url: str) -> Reply:
        return await caller.call(Request.of_json("POST", f"{url}/x?y=1", {"b": "ä"}, **{"x-more": "2"}))

    reply = against(provider, scenario)
    assert (reply.status, reply.headers["x-request-id"], reply.json) == (201, "r1", {"a": [1]})
    (seen,) = provider.seen
    assert (seen.method, seen.target, seen.json) == ("POST", "/x?y=1", {"b": "ä"})
    assert (seen.headers["content-type"], seen.headers["x-more"]) == ("application/json", "2")
    assert "cookie" not in seen.headers


def test_a_stream_is_sent_with_its_length_and_again_from_its_beginning() -> None:
    provider = Provider([http(200, {}), http(200, {})])
    body = Stream(6, lambda: iter([b"abc", b"def"]))

    async def scenario(caller: Caller, url: str) -> None:
        for _ in range(2):
            await caller.call(Request(method="PUT", url=url, body=body))

    against(provider, scenario)
    assert [seen.body for seen in provider.seen] == [b"abcdef"] * 2
    assert {seen.headers["content-length"] for seen in provider.seen} == {"6"}


def test_each_call_takes_a_slot_and_gives_it_back() -> None:
    peak = 0
    running = 0

    async def answer(_: Seen) -> bytes:
        nonlocal peak, running
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.05)
        running -= 1
        return http(200, {})

    async def scenario(caller: Caller, url: str) -> Caller:
        await asyncio.gather(*(caller.call(get(url)) for _ in range(6)))
        return caller

    caller = against(Provider([answer]), scenario, limit=Limit("api", in_flight=2, windows=[Window(100, per_s=60)]))
    assert peak == 2
    assert caller.sent == 6


def test_without_a_limit_no_slot_is_taken() -> None:
    async def scenario(caller: Caller, url: str) -> int:
        await caller.call(get(url), limit=None)
        return caller.used("calls")

    assert against(Provider([http(200, {})]), scenario) == 0


@pytest.mark.parametrize(
    ("headers", "body", "delay_s"),
    [
        ({"retry-after": "7"}, {}, 7),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, {}, None),
        ({"retry-after": "0"}, {}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, {}, 1.5),
        (
            {},
            {"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "15s"}]}},
            15,
        ),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2.5s"}, {}, 62.5),
        ({}, {}, None),
        ({"retry-after": "soon"}, HTML, None),
    ],
)
def test_a_429_says_how_long_to_wait_in_every_form(
    headers: Mapping[str, str], body: object, delay_s: float | None
) -> None:
    signal, caller = signal_of(Provider([http(429, body, **headers)]))
    assert isinstance(signal, Retry)
    assert (signal.error_class, signal.delay_s) == ("rate_limited", delay_s)
    assert caller.limiter.usage("api").blocked_by[0] == "cooldown"


@pytest.mark.parametrize(
    ("answer", "error_class"),
    [
        (http(502, HTML), "service_unavailable"),
        (http(503, HTML), "service_unavailable"),
        (http(503, HTML, retry_after="3"), "rate_limited"),
        (http(500, {"error": {}}), "internal_error"),
        (http(504, HTML), "timeout"),
        (http(200, HTML), "bad_response"),
        (http(200, b""), "bad_response"),
        (http(200, b'{"a": [1, 2'), "bad_response"),
        (http(404, HTML), "bad_response"),
        (http(400, {"error": {}}), "refused"),
        (http(413, HTML), "replan"),
        (http(401, {}), "auth"),
        (http(403, {}), "auth"),
        (http(302, b"", location="http://127.0.0.1:9/"), "bad_response"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\nconnection: close\r\n\r\n{}", "bad_response"),
        (b"HTTP/1.1 503 No\r\ncontent-length: 50\r\nconnection: close\r\n\r\nsorry", "service_unavailable"),
        (b"\x00\x01 no HTTP at all, connection: close\r\n\r\n", "bad_response"),
        (http(200, b"no gzip", content_encoding="gzip"), "bad_response"),
        (None, "network_error"),
    ],
)
def test_whatever_comes_back_has_its_class(answer: bytes | None, error_class: str) -> None:
    closing = answer if answer is None else answer.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)
    signal, caller = signal_of(Provider([closing if answer and answer.startswith(b"HTTP") else answer]))
    assert isinstance(signal, (Retry, Permanent))
    assert signal.error_class == error_class
    assert caller.sent == 1


def test_a_connection_that_is_reset_after_the_headers_leaves_what_they_say() -> None:
    begun = b"HTTP/1.1 201 Created\r\ncontent-length: 50\r\nlocation: /jobs/7\r\n\r\n{"

    async def scenario(caller: Caller, url: str) -> tuple[int, str]:
        reply = await caller.call(get(url), judge=lambda _: None)
        return reply.status, reply.headers["location"]

    assert against(Provider([Reset(begun)]), scenario) == (201, "/jobs/7")


def test_a_connection_that_is_reset_after_the_headers_is_a_failure_that_opens_the_breaker() -> None:
    begun = b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{"

    async def scenario(caller: Caller, url: str) -> str:
        with pytest.raises(Retry) as caught:
            await caller.call(get(url), judge=json_by_status)
        await till(lambda: caller.limiter.usage("api").blocked_by[:1] == ("breaker",))
        return caught.value.error_class

    limit = Limit("api", in_flight=5, breaker_after=1)
    assert against(Provider([Reset(begun)]), scenario, limit=limit) == "network_error"


@pytest.mark.parametrize(
    ("between", "blocked_by"),
    [
        ([400], ()),
        ([401], ()),
        ([403], ()),
        ([404], ()),
        ([413], ()),
        ([422], ()),
        ([], ("breaker",)),  # the control: two failures in a row
    ],
)
def test_a_call_that_was_answered_with_a_refusal_ended_well_for_the_limit(
    between: list[int], blocked_by: tuple[str, ...]
) -> None:
    statuses = [503, *between, 503]

    async def scenario(caller: Caller, url: str) -> tuple[str, ...]:
        for _ in statuses:
            with pytest.raises(Signal):
                await caller.call(get(url), judge=json_by_status)
        await caller.limiter.aflush()
        return caller.limiter.usage("api").blocked_by[:1]

    provider = Provider([http(status, {"error": "no"}) for status in statuses])
    assert against(provider, scenario, limit=Limit("api", in_flight=5, breaker_after=2)) == blocked_by


def test_a_provider_that_is_not_there_is_a_network_error() -> None:
    async def scenario(caller: Caller, url: str) -> int:
        with pytest.raises(Retry) as caught:
            await caller.call(get("http://127.0.0.1:9"))
        assert caught.value.error_class == "network_error"
        return caller.sent

    assert against(Provider([b""]), scenario) == 0


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: later(0.6, http(200, {})),
        lambda _: later(0, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"),
    ],
)
def test_a_provider_that_hangs_is_a_timeout_and_its_call_counts_until_it_must_have_ended(
    answer: Callable[[Seen], Awaitable[bytes]],
) -> None:
    signal, caller = signal_of(Provider([answer]), timeout_s=0.2)
    assert isinstance(signal, Retry)
    assert signal.error_class == "timeout"
    assert caller.in_flight == 1
    assert signal.call is not None
    assert signal.call.kind == "cut_off"


def test_a_provider_that_gave_up_is_a_timeout_whose_slot_is_free_at_once() -> None:
    signal, caller = signal_of(Provider([http(504, {})]))
    assert isinstance(signal, Retry)
    assert signal.error_class == "timeout"
    assert caller.in_flight == 0
    assert signal.call is not None
    assert (signal.call.kind, signal.call.status) == ("failed", 504)


def test_an_answer_is_unpacked_but_not_beyond_its_bound() -> None:
    packed = gzip.compress(b'{"a": "' + b"x" * 100 + b'"}')
    bomb = gzip.compress(b"0" * 100_000_000, 1)

    async def scenario(caller: Caller, url: str) -> tuple[Reply, str]:
        reply = await caller.call(get(url))
        with pytest.raises(Retry) as caught:
            await caller.call(get(url), max_reply=1_000_000)
        return reply, caught.value.error_class

    answers = [http(200, body, content_encoding="gzip") for body in (packed, bomb)]
    tracemalloc.start()
    try:
        reply, error_class = against(Provider(answers), scenario)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reply.json == {"a": "x" * 100}
    assert error_class == "bad_response"
    assert peak < 50_000_000


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def scenario(caller: Caller, url: str) -> int:
        return (await caller.call(get(url))).status

    assert against(Provider([http(200, {})]), scenario) == 200


def test_a_proxy_that_is_asked_for_is_used() -> None:
    provider = Provider([http(200, {})])

    async def scenario(caller: Caller, url: str) -> None:
        from forebay.processors.transport import Transport  # noqa: PLC0415 - a second one

        through = Transport(proxy=url)
        try:
            await through.call(caller.context(), get("http://provider.invalid"), limit=None)
        finally:
            await through.aclose()

    against(provider, scenario)
    assert provider.seen[0].target == "http://provider.invalid/x"


def test_cookies_are_not_kept() -> None:
    provider = Provider([http(200, {}, set_cookie="a=b"), http(200, {})])

    async def scenario(caller: Caller, url: str) -> None:
        await caller.call(get(url))
        await caller.call(get(url))

    against(provider, scenario)
    assert "cookie" not in provider.seen[1].headers


class Tokens:
    """Credentials whose tokens are numbered; each renewal is the next one, of `last` at most."""

    def __init__(self, url: str, last: int = 99) -> None:
        self.origin = origin(url)
        self.number = 1
        self._last = last

    async def headers(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self.number}"}

    async def renewed(self, refused: Mapping[str, str]) -> bool:
        await asyncio.sleep(0)
        if await self.headers() == refused and self.number < self._last:
            self.number += 1
        return await self.headers() != refused


def expired(*good: str) -> Callable[[Seen], bytes]:
    def answer(seen: Seen) -> bytes:
        return http(200 if seen.headers["authorization"] in good else 401, {})

    return answer


def test_credentials_that_are_refused_are_renewed_and_the_call_is_made_again_with_a_slot_of_its_own() -> None:
    async def scenario(caller: Caller, url: str) -> tuple[int, int]:
        await caller.call(get(url), credentials=Tokens(url))
        return caller.used("calls"), caller.sent

    assert against(Provider([expired("Bearer 2")]), scenario) == (2, 2)


@pytest.mark.parametrize(("last", "calls"), [(1, 1), (99, 2)])
def test_credentials_are_renewed_once_and_then_they_are_at_fault(last: int, calls: int) -> None:
    provider = Provider([http(401, {})])

    async def scenario(caller: Caller, url: str) -> str:
        with pytest.raises(Retry) as caught:
            await caller.call(get(url), credentials=Tokens(url, last))
        return caught.value.error_class

    assert against(provider, scenario) == "auth"
    assert len(provider.seen) == calls


def test_many_calls_that_are_refused_at_once_renew_once() -> None:
    async def scenario(caller: Caller, url: str) -> int:
        tokens = Tokens(url)
        await asyncio.gather(*(caller.call(get(url), credentials=tokens) for _ in range(5)))
        return tokens.number

    assert against(Provider([expired("Bearer 2")]), scenario) == 2


def test_a_403_is_no_matter_of_renewal() -> None:
    provider = Provider([http(403, {})])

    async def scenario(caller: Caller, url: str) -> None:
        with pytest.raises(Retry, match="403"):
            await caller.call(get(url), credentials=Tokens(url))

    against(provider, scenario)
    assert len(provider.seen) == 1


def test_credentials_are_sent_to_their_own_origin_only() -> None:
    provider = Provider([http(200, {})])

    async def scenario(caller: Caller, url: str) -> str:
        with pytest.raises(Permanent) as caught:
            await caller.call(get(url), credentials=Tokens("https://provider.example"))
        return caught.value.text

    assert "https://provider.example:443" in against(provider, scenario)
    assert provider.seen == []


def test_of_the_units_those_are_taken_that_the_limit_counts() -> None:
    async def scenario(caller: Caller, url: str) -> list[int]:
        units = {"calls": 1, "pages": 15, "tokens": 7}
        await caller.call(get(url), units=units)
        await caller.call(get(url), units=units, settle=lambda _: {"pages": 4, "tokens": 1})
        await till(lambda: caller.used("pages") < 30)
        return [caller.used("pages"), caller.used("calls")]

    limit = Limit("api", windows=[Window(100, per_s=60), Window(50, per_s=60, unit="pages")])
    assert against(Provider([http(200, {})]), scenario, limit=limit) == [19, 2]


def test_a_call_that_never_fits_into_its_limit_is_one_to_be_made_smaller() -> None:
    async def scenario(caller: Caller, url: str) -> str:
        with pytest.raises(Permanent, match="30 pages never fits") as caught:
            await caller.call(get(url), units={"calls": 1, "pages": 30})
        return caught.value.error_class

    limit = Limit("api", windows=[Window(20, per_s=60, unit="pages")])
    assert against(Provider([http(200, {})]), scenario, limit=limit) == "replan"


def test_no_slot_in_time_is_no_fault_of_the_provider() -> None:
    async def scenario(caller: Caller, url: str) -> None:
        caller.limiter.pause("api")
        context = caller.context()
        take = context.slot
        context.slot = lambda *given, **terms: take(*given, **(terms | {"timeout_s": 0.1}))  # type: ignore[method-assign]
        with pytest.raises(Busy):
            await caller.transport.call(context, get(url), limit="api")

    provider = Provider([http(200, {})])
    against(provider, scenario)
    assert provider.seen == []


def test_a_call_that_never_reached_the_provider_counts_nothing_and_opens_the_breaker() -> None:
    nobody = socket.socket()
    nobody.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
    address = f"http://127.0.0.1:{nobody.getsockname()[1]}"

    async def scenario(caller: Caller, url: str) -> None:
        for _ in range(3):
            with pytest.raises(Retry) as refused:
                await caller.call(get(address))
            assert refused.value.error_class == "network_error"
        await till(lambda: caller.limiter.usage("api").blocked_by[:1] == ("breaker",))
        assert caller.used("calls") == 0

    with nobody:
        against(Provider([http(200, {})]), scenario)
