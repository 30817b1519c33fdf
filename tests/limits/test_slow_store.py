"""A store that answers late makes callers wait for its answers, and for nothing more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from forebay.errors import Busy, StoreUnreachable
from forebay.limits import Limit, Limiter, Window
from forebay.model.limit_record import Answer, Ask
from forebay.testing.limits.bounding import most_in
from tests.limits.ground import Switchable
from tests.servers.fresh import fresh_name
from tests.servers.relay import Relay
from tests.servers.server import Server

SLOW_S = 0.4
"""Longer than a call with a window may wait for its start."""


class Slow(Switchable):
    """Takes requests late, or sends answers late; `exchanges` and `restarts` count what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.takes_s = self.answers_s = 0.0
        self.answers_left = 1000
        self.exchanges = self.restarts = 0
        self._beating = threading.Lock()
        self._beats_fail = False

    def _answered(self, ask: Ask, verb: Callable[[str, Ask], Answer], limit: str) -> Answer:
        if ask["request_number"]:
            self.exchanges += 1
            self.restarts += len(ask["restamp_call_ids"])
            time.sleep(self.takes_s)
        answer = super()._answered(ask, verb, limit)
        if ask["request_number"] and self.answers_left:
            self.answers_left -= 1
            time.sleep(self.answers_s)
        return answer

    def fail_beats(self) -> None:
        """Let heartbeats fail from now on; one that is under way ends first."""
        with self._beating:
            self._beats_fail = True

    def renew(self, limit: str, ask: Ask) -> Answer:
        with self._beating:
            if self._beats_fail:
                raise StoreUnreachable("It takes no heartbeats.")
            return super().renew(limit, ask)


@pytest.fixture
def store() -> Slow:
    return Slow()


@pytest.fixture
def limiter(store: Slow) -> Iterator[Limiter]:
    with Limiter(store) as limiter:
        yield limiter


def slots(limiter: Limiter, count: int) -> None:
    for _ in range(count):
        with limiter.slot("api", timeout_s=20):
            pass


@pytest.mark.parametrize("way", ["takes_s", "answers_s"])
def test_a_slow_answer_is_used_where_no_window_counts_calls(limiter: Limiter, store: Slow, way: str) -> None:
    limiter.define(Limit("api", in_flight=2))
    setattr(store, way, SLOW_S)
    slots(limiter, 2)
    assert (store.restarts, store.exchanges) == (0, 2)


def test_a_slow_way_to_the_store_ages_no_grant(limiter: Limiter, store: Slow) -> None:
    limiter.define(Limit("api", in_flight=2, windows=[Window(50, per_s=60)]))
    slots(limiter, 1)
    store.takes_s = SLOW_S
    slots(limiter, 2)
    assert (store.restarts, store.exchanges) == (0, 3)


def test_a_grant_that_was_long_on_its_way_back_counts_from_its_start(limiter: Limiter, store: Slow) -> None:
    limiter.define(Limit("api", in_flight=2, windows=[Window(50, per_s=60)], lease_s=120))
    slots(limiter, 1)
    # Whatever else asks the store meanwhile would bring the grant ahead of the slow answer.
    limiter.flush()
    store.fail_beats()
    store.answers_s, store.answers_left = SLOW_S, 1
    slots(limiter, 1)
    assert store.restarts >= 1


W, N = 10.0, 20


@pytest.mark.slow
def test_under_a_window_a_slow_store_costs_a_little_of_the_rate_and_no_more(valkey_server: Server) -> None:
    """Answers take longer than the terms let a grant wait for its start; a twentieth of the window is enough."""
    url = urlsplit(valkey_server.url)
    with Relay(url.hostname or "", url.port or 0, delay_s=0.17) as relay:
        began_at = time.monotonic()
        begun: list[tuple[int, int]] = []
        with Limiter(f"redis://127.0.0.1:{relay.port}/0", environment=fresh_name()) as limiter:
            limiter.define(Limit("api", windows=[Window(N, per_s=W)]))

            def work() -> None:
                while time.monotonic() < began_at + 2 * W + 9:
                    with suppress(Busy), limiter.slot("api", timeout_s=1) as slot:
                        slot.start()
                        begun.append((round(time.monotonic() * 1000), 1))

            with ThreadPoolExecutor(8) as callers:
                for call in [callers.submit(work) for _ in range(8)]:
                    call.result()
            (window,) = limiter.usage("api").windows
    assert len(begun) >= 2.9 * N
    assert most_in(sorted(begun), int(W * 1000)) <= N
    assert W + 0.35 < window.counted_s <= W + W / 20 + 0.06
