"""The breaker and the cool-down see the errors of every HTTP client, as it raises them."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable, Iterator

import aiohttp
import boto3
import botocore.config
import httpx
import httpx2
import pytest
import requests
import urllib3

from forebay.limits import Limit, Limiter
from forebay.rules.call_outcome import CallOutcome
from tests.clients.provider import Provider, provider
from tests.limits.ground import until

_TIMEOUT_S = 0.3
Call = Callable[[str], object]


def by_urllib(url: str) -> object:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
        return answer.read()


def by_requests(url: str) -> object:
    answer = requests.get(url, timeout=_TIMEOUT_S)
    answer.raise_for_status()
    return answer


def by_requests_that_retries(url: str) -> object:
    retries = urllib3.Retry(2, status_forcelist=[429, 500, 503], backoff_factor=0, respect_retry_after_header=False)
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
        answer = session.get(url, timeout=_TIMEOUT_S)
        answer.raise_for_status()
        return answer


def by_httpx(url: str) -> object:
    return httpx.get(url, timeout=_TIMEOUT_S, trust_env=False).raise_for_status()


def by_httpx2(url: str) -> object:
    return httpx2.get(url, timeout=_TIMEOUT_S, trust_env=False).raise_for_status()


def by_httpx_async(url: str) -> object:
    async def call() -> object:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:
            return (await client.get(url)).raise_for_status()

    return asyncio.run(call())


def by_aiohttp(url: str) -> object:
    async def call() -> object:
        timeout = aiohttp.ClientTimeout(sock_connect=_TIMEOUT_S, sock_read=_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session, session.get(url) as answer:
            return await answer.read()

    return asyncio.run(call())


def by_boto3(url: str) -> object:
    client = boto3.client(
        "sqs",
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=botocore.config.Config(
            retries={"total_max_attempts": 1}, connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S
        ),
    )
    try:
        return client.list_queues()
    finally:
        client.close()


CLIENTS: tuple[Call, ...] = (
    by_urllib,
    by_requests,
    by_requests_that_retries,
    by_httpx,
    by_httpx2,
    by_httpx_async,
    by_aiohttp,
    by_boto3,
)


@pytest.fixture(scope="module")
def here() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture
def limiter() -> Iterator[Limiter]:
    with Limiter("memory://") as made:
        made.define(Limit("api", in_flight=5, breaker_after=3, on_disconnect="stops"))
        yield made


def raised(limiter: Limiter, call: Call, url: str) -> CallOutcome:
    """What the limit was told by the exception that the call ended with."""
    with limiter.slot("api") as slot:
        try:
            call(url)
        except Exception as error:  # noqa: BLE001 - of any client
            return slot.raised(error)
    raise AssertionError("it did not fail")


@pytest.mark.parametrize("call", CLIENTS)
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("refuse", ("unsent", "network_error")),
        ("hang", ("cut_off", "timeout")),
        ("reset", ("failed", "network_error")),
        ("close", ("failed", "network_error")),
        ("status/500", ("failed", "internal_error")),
        ("status/503", ("failed", "service_unavailable")),
        ("status/429", ("throttled", "rate_limited")),
        ("status/404", ("ok", "refused")),
        ("status/401", ("ok", "auth")),
    ],
)
def test_each_client_s_error_is_understood(
    here: Provider, limiter: Limiter, call: Call, path: str, expected: tuple[str, str]
) -> None:
    outcome = raised(limiter, call, here.url(path))
    assert (outcome.kind, outcome.error_class) == expected
    assert outcome.blames_provider == (outcome.kind not in {"throttled", "ok"})
    if path == "status/429" and call is not by_requests_that_retries:  # urllib3 keeps no answer when it gives up
        assert outcome.retry_after_s == 30


@pytest.mark.parametrize("call", CLIENTS)
@pytest.mark.parametrize("path", ["refuse", "hang", "reset", "status/500"])
def test_three_failures_open_the_breaker(here: Provider, limiter: Limiter, call: Call, path: str) -> None:
    for _ in range(3):
        with pytest.raises(Exception), limiter.slot("api"):  # noqa: B017, PT011 - of any client
            call(here.url(path))
    until(lambda: limiter.usage("api").cooldown == "breaker")


@pytest.mark.parametrize("call", CLIENTS)
def test_a_429_cools_everybody_down(here: Provider, limiter: Limiter, call: Call) -> None:
    with pytest.raises(Exception), limiter.slot("api"):  # noqa: B017, PT011 - of any client
        call(here.url("status/429"))
    until(lambda: limiter.usage("api").cooldown == "cooldown")


def test_calls_that_succeed_open_nothing(here: Provider, limiter: Limiter) -> None:
    for _ in range(5):
        with limiter.slot("api"):
            by_requests(here.url("status/200"))
    assert limiter.usage("api").cooldown == ""
