"""A call whose caller stops waiting counts until its provider is done: by a time-out, a cancellation, an interrupt."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from forebay import observe
from forebay.errors import Busy
from forebay.limits import Limit, Limiter, Slot, Window
from tests.limits.ground import Switchable, until
from tests.limits.provider import Provider


@pytest.fixture(params=["instant", "through threads"])
def limiter(request: pytest.FixtureRequest) -> Iterator[Limiter]:
    with Limiter("memory://" if request.param == "instant" else Switchable()) as made:
        made.define(Limit("api", in_flight=5, windows=[Window(100, per_s=60, unit="pages")], call_timeout_s=30))
        yield made


class ReadTimeout(Exception):
    """As httpx and requests call it."""


class ConnectTimeout(Exception):
    pass


class PoolTimeout(Exception):
    pass


def leave(limiter: Limiter, error: BaseException) -> None:
    with pytest.raises(type(error)), limiter.slot("api", units={"pages": 3}):
        raise error


@pytest.mark.parametrize(
    "error", [TimeoutError(), ReadTimeout(), asyncio.CancelledError(), KeyboardInterrupt(), GeneratorExit()]
)
def test_what_is_cut_off_counts_and_is_shown_apart(limiter: Limiter, error: BaseException) -> None:
    leave(limiter, error)
    usage = limiter.usage("api")
    assert (usage.in_flight, usage.cut_off, usage.windows[0].used) == (1, 1, 3)
    assert usage.plain()["cut_off"] == 1


@pytest.mark.parametrize("error", [socket.gaierror(), ConnectTimeout(), PoolTimeout(), ConnectionRefusedError()])
def test_what_was_not_sent_counts_nothing(limiter: Limiter, error: BaseException) -> None:
    leave(limiter, error)
    usage = limiter.usage("api")
    assert (usage.in_flight, usage.cut_off, usage.windows[0].used) == (0, 0, 0)


@pytest.mark.parametrize("error", [ConnectionResetError(), BrokenPipeError(), ValueError(), RuntimeError()])
def test_what_has_ended_is_free(limiter: Limiter, error: BaseException) -> None:
    leave(limiter, error)
    usage = limiter.usage("api")
    assert (usage.in_flight, usage.cut_off, usage.windows[0].used) == (0, 0, 3)


def test_what_is_said_inside_the_block_stands(limiter: Limiter) -> None:
    for say in (Slot.release, Slot.failed, lambda slot: slot.settle({"pages": 1})):
        with suppress(TimeoutError), limiter.slot("api", units={"pages": 1}) as slot:
            say(slot)
            raise TimeoutError
        limiter.flush()
        assert limiter.usage("api").in_flight == 0


def test_a_provider_that_stops_with_its_client_is_free_at_once(limiter: Limiter) -> None:
    limiter.configure("api", on_disconnect="stops")
    leave(limiter, TimeoutError())
    assert limiter.usage("api").in_flight == 0


def test_a_task_that_is_cancelled_while_it_waits_in_line_counts_nothing(limiter: Limiter) -> None:
    limiter.configure("api", in_flight=1)

    async def work() -> None:
        held = await limiter.slot("api", units={"pages": 1}).atake()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02), limiter.slot("api", units={"pages": 1}):
                pass
        held.release()

    asyncio.run(work())
    until(lambda: limiter.usage("api").in_flight == 0)


def test_time_outs_open_the_breaker_and_cancellations_do_not(limiter: Limiter) -> None:
    limiter.define(Limit("weak", in_flight=50, breaker_after=3))
    for _ in range(5):
        with pytest.raises(asyncio.CancelledError), limiter.slot("weak"):
            raise asyncio.CancelledError
    limiter.flush()
    assert limiter.usage("weak").cooldown == ""
    for _ in range(3):
        with pytest.raises(TimeoutError), limiter.slot("weak"):
            raise TimeoutError
    limiter.flush()
    assert limiter.usage("weak").cooldown == "breaker"


def test_it_is_told_when_calls_that_were_cut_off_hold_half_of_a_limit(limiter: Limiter) -> None:
    told: list[dict[str, object]] = []
    limiter.define(Limit("held", in_flight=4, breaker_after=0))
    stop = observe.subscribe(
        lambda name, fields: told.append(dict(fields)) if name == "cut_off_calls_hold_limit" else None
    )
    try:
        for cut in range(1, 4):
            with pytest.raises(TimeoutError), limiter.slot("held"):
                raise TimeoutError
            limiter.flush()
            until(lambda cut=cut: len(told) == (cut >= 2))  # type: ignore[misc]
    finally:
        stop()
    assert (told[0]["limit"], told[0]["cut_off"], told[0]["bound"]) == ("held", 2, 4)


def peak_at_provider(on_disconnect: str, *, threads: int = 8, calls: int = 3) -> int:
    """Callers that wait 0.2 s for answers that take 2 s."""
    with Provider(2.0) as provider, Limiter("memory://") as limiter:
        limiter.define(
            Limit("api", in_flight=5, call_timeout_s=2.5, breaker_after=0, on_disconnect=on_disconnect)  # type: ignore[arg-type]
        )

        def work() -> None:
            for _ in range(calls):
                try:
                    with limiter.slot("api", timeout_s=0.5):
                        provider.call(0.2)
                except (TimeoutError, Busy):
                    continue

        callers = [threading.Thread(target=work) for _ in range(threads)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(30)
        assert provider.calls >= 5
        return provider.peak


@pytest.mark.slow
def test_the_provider_never_works_on_more_than_in_flight_after_time_outs() -> None:
    assert peak_at_provider("continues") == 5


def test_a_limit_that_trusts_its_provider_to_stop_is_exceeded_by_one_that_does_not() -> None:
    """The negative control."""
    assert peak_at_provider("stops") > 5
