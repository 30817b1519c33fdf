"""A slot in a signal handler: it works, or is refused at once, wherever the handler strikes."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

from forebay.errors import Busy, Conflict
from forebay.limits import Limit, Limiter
from tests.limits.ground import until

SECONDS = 0.8


@pytest.mark.slow
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_handler_that_takes_a_slot_never_hangs(store: str, tmp_path: Path) -> None:
    taken = refused = 0
    limiter = Limiter("memory://" if store == "memory" else f"sqlite:///{tmp_path}/limits.db")
    limiter.define(Limit("main", in_flight=5))
    limiter.define(Limit("handler", in_flight=5))

    def strike(*_: object) -> None:
        nonlocal taken, refused
        try:
            with limiter.slot("main" if taken % 2 else "handler", timeout_s=0.2):
                taken += 1
        except (Conflict, Busy):
            refused += 1

    before = signal.signal(signal.SIGALRM, strike)
    with limiter:
        ends_at = time.monotonic() + SECONDS
        try:
            while time.monotonic() < ends_at:
                signal.setitimer(signal.ITIMER_REAL, 0.0003)
                with limiter.slot("main", timeout_s=5):
                    pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert taken
        until(lambda: limiter.usage("main").in_flight == limiter.usage("handler").in_flight == 0)


def test_a_handler_that_strikes_inside_the_limiter_is_refused_at_once() -> None:
    with Limiter("memory://") as limiter:
        limiter.define(Limit("api", in_flight=1))
        slot = limiter.slot("api")
        line = limiter._desks["api"].line
        with line.lock, pytest.raises(Conflict, match="signal handler"):
            slot.__enter__()
        with limiter._lock, pytest.raises(Conflict, match="signal handler"):
            limiter.slot("another")
        done = threading.Event()

        def elsewhere() -> None:
            with limiter.slot("api", timeout_s=5):
                done.set()

        threading.Thread(target=elsewhere, daemon=True).start()
        assert done.wait(5), "other threads are not concerned"
