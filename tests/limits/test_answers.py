"""What answers and exceptions of calls do to their limit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from forebay.errors import BadInput, Conflict
from forebay.limits import Limit, Limiter, Window
from tests.limits.ground import until


@pytest.fixture
def limiter() -> Iterator[Limiter]:
    with Limiter("memory://") as made:
        made.define(Limit("api", in_flight=5, windows=[Window(10, per_s=60)], breaker_after=3, cooldown_s=(9.0,)))
        yield made


def fail(limiter: Limiter, error: BaseException, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(type(error)), limiter.slot("api"):
            raise error


def used(limiter: Limiter) -> int:
    return limiter.usage("api").windows[0].used


class ApiError(Exception):
    """As an SDK raises it."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"Error code: {status}")
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def test_an_answer_is_judged_and_told(limiter: Limiter) -> None:
    with limiter.slot("api") as slot:
        outcome = slot.answered(429, {"Retry-After": "30"})
        assert (outcome.kind, outcome.retry_after_s, outcome.status) == ("throttled", 30, 429)
    until(lambda: limiter.usage("api").cooldown == "cooldown")
    assert 20 < limiter.usage("api").cooldown_for_s <= 36


def test_a_good_answer_ends_a_row_of_failures(limiter: Limiter) -> None:
    for status in (500, 502, 404, 500, 503, 200, 500, 500):
        with limiter.slot("api") as slot:
            slot.answered(status)
    assert limiter.usage("api").cooldown == ""
    with limiter.slot("api") as slot:
        slot.answered(500)
    until(lambda: limiter.usage("api").cooldown == "breaker")


def test_a_used_up_quota_parks_the_limit(limiter: Limiter) -> None:
    with limiter.slot("api") as slot:
        body = json.dumps({"error": {"code": "insufficient_quota"}})
        assert slot.answered(429, {}, body).kind == "quota"
    until(lambda: limiter.usage("api").cooldown == "quota")
    assert limiter.usage("api").cooldown_for_s > 3000


@pytest.mark.parametrize("status", ["429", None, True, 4.5])
def test_a_status_that_is_no_number_is_refused_and_changes_nothing(limiter: Limiter, status: object) -> None:
    with limiter.slot("api") as slot, pytest.raises(BadInput, match="status"):
        slot.answered(status)  # type: ignore[arg-type]
    assert limiter.usage("api").cooldown == ""


def test_an_answer_is_told_inside_the_block(limiter: Limiter) -> None:
    with limiter.slot("api") as slot:
        pass
    with pytest.raises(Conflict):
        slot.answered(200)
    with pytest.raises(Conflict):
        slot.raised(ApiError(500))


def test_an_exception_that_was_caught_is_judged_and_told(limiter: Limiter) -> None:
    with limiter.slot("api") as slot:
        assert slot.raised(ApiError(429, retry_after="30")).kind == "throttled"
    until(lambda: limiter.usage("api").cooldown == "cooldown")


def test_a_refusal_that_leaves_the_block_holds_everybody_back(limiter: Limiter) -> None:
    fail(limiter, ApiError(429, retry_after="30"))
    until(lambda: limiter.usage("api").cooldown == "cooldown")
    assert limiter.usage("api").cooldown_for_s > 20


@pytest.mark.parametrize("error", [ApiError(500), ConnectionResetError(), ConnectionRefusedError()], ids=repr)
def test_failures_that_leave_the_block_open_the_breaker(limiter: Limiter, error: Exception) -> None:
    fail(limiter, error, times=2)
    assert limiter.usage("api").cooldown == ""
    fail(limiter, error)
    until(lambda: limiter.usage("api").cooldown == "breaker")


@pytest.mark.parametrize("error", [ValueError("a bug"), ApiError(404), KeyError("x")], ids=repr)
def test_what_says_nothing_against_the_provider_opens_nothing(limiter: Limiter, error: Exception) -> None:
    fail(limiter, error, times=5)
    until(lambda: limiter.usage("api").in_flight == 0)
    assert limiter.usage("api").cooldown == ""


def test_a_call_that_never_reached_the_provider_is_not_counted(limiter: Limiter) -> None:
    fail(limiter, ConnectionRefusedError(), times=2)
    until(lambda: used(limiter) == 0)
    fail(limiter, ConnectionResetError())
    assert used(limiter) == 1


def test_a_call_that_was_cut_off_is_still_in_flight(limiter: Limiter) -> None:
    fail(limiter, TimeoutError())
    assert limiter.usage("api").in_flight == 1

    async def canceled() -> None:
        async with limiter.slot("api"):
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(canceled())
    assert limiter.usage("api").in_flight == 2


def test_read_timeouts_open_the_breaker_while_their_calls_still_count(limiter: Limiter) -> None:
    fail(limiter, TimeoutError(), times=3)
    until(lambda: limiter.usage("api").cooldown == "breaker")
    assert limiter.usage("api").in_flight == 3


def test_what_was_told_inside_the_block_counts_and_not_the_exception_after_it(limiter: Limiter) -> None:
    with suppress(TimeoutError), limiter.slot("api") as slot:
        slot.answered(200)
        raise TimeoutError
    until(lambda: limiter.usage("api").in_flight == 0)


def test_of_two_judgements_the_later_one_counts(limiter: Limiter) -> None:
    with limiter.slot("api") as slot:
        slot.raised(TimeoutError())
        slot.answered(200)
    until(lambda: limiter.usage("api").in_flight == 0)


def test_an_exception_that_cannot_be_printed_is_told(limiter: Limiter) -> None:
    class Mute(Exception):
        status_code = 429

        def __str__(self) -> str:
            raise RuntimeError

    fail(limiter, Mute())
    until(lambda: limiter.usage("api").cooldown == "cooldown")


def test_an_async_call_that_takes_too_long_is_ended_and_counts_as_cut_off(limiter: Limiter) -> None:
    limiter.define(Limit("slow", in_flight=2, call_timeout_s=0.2, breaker_after=1))

    async def call() -> None:
        async with limiter.slot("slow", enforce_timeout=True) as slot:
            assert 0 < slot.remaining_s <= 0.2
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        asyncio.run(call())
    until(lambda: limiter.usage("slow").cooldown == "breaker")


def test_a_call_in_time_and_a_cancellation_are_not_changed_by_the_timeout(limiter: Limiter) -> None:
    async def call(wait_s: float) -> str:
        async with limiter.slot("api", enforce_timeout=True):
            await asyncio.sleep(wait_s)
        return "done"

    async def both() -> None:
        assert await call(0.01) == "done"
        waiting = asyncio.create_task(call(30))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(both())


def test_a_blocking_caller_gets_the_time_that_is_left_for_its_client(limiter: Limiter) -> None:
    limiter.define(Limit("slow", in_flight=2, call_timeout_s=40))
    with limiter.slot("slow") as slot:
        assert 30 < slot.remaining_s <= 40
    with pytest.raises(Conflict):
        _ = slot.remaining_s
    with pytest.raises(BadInput, match="remaining_s"), limiter.slot("slow", enforce_timeout=True):
        pass
    until(lambda: limiter.usage("slow").in_flight == 0)


@pytest.mark.parametrize("hint", [0, "0", "Wed, 01 Jan 2020 00:00:00 GMT", timedelta(0)])
def test_a_refusal_that_says_not_at_all_holds_everybody_back_by_the_limits_own_steps(
    limiter: Limiter, hint: object
) -> None:
    limiter.define(Limit("zero", in_flight=2, cooldown_s=(30,)))
    with limiter.slot("zero") as slot:
        slot.throttled(retry_after_s=hint)  # type: ignore[arg-type]
    assert limiter.usage("zero").cooldown_for_s > 20
