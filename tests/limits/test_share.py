"""The policy share: each process continues with its part, soon after the store is gone, also if it never answered."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay.errors import Busy, StoreUnreachable
from forebay.limits import Limit, Limiter, Window, desk
from forebay.limits.presets import preset
from forebay.limits.slot import Slot
from forebay.observe import subscribe
from tests.limits.ground import Switchable, until
from tests.servers.server import Server
from tests.servers.valkey import valkey

LONG = 60.0  # a call's time, which the share must not wait for


def shared(in_flight: int = 6, processes: int | None = 3, **fields: object) -> Limit:
    return Limit(
        "api",
        in_flight=in_flight,
        when_store_down="share",
        share_processes=processes,
        call_timeout_s=LONG,
        **fields,  # type: ignore[arg-type]
    )


@pytest.fixture
def server() -> Iterator[Server]:
    with valkey(own=True) as found:
        yield found


@pytest.fixture
def events() -> Iterator[list[tuple[str, Mapping[str, object]]]]:
    found: list[tuple[str, Mapping[str, object]]] = []
    end = subscribe(lambda name, fields: found.append((name, fields)))
    yield found
    end()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_PATIENCE_S", 0.05)


def take(limiter: Limiter, timeout_s: float, name: str = "api") -> Slot:
    """In a thread of its own, as each call of a program is."""
    with ThreadPoolExecutor(1) as caller:
        return caller.submit(limiter.slot(name, timeout_s=timeout_s).__enter__).result()


def take_all(limiter: Limiter, held: contextlib.ExitStack, most: int = 20) -> int:
    """Take slots until there is none; the first may have to wait for the share to begin."""
    count = 0
    with contextlib.suppress(Busy):
        while count < most:
            held.callback(take(limiter, 0.2 if count else 20).release)
            count += 1
    return count


@pytest.mark.slow
def test_a_process_that_starts_without_its_store_gets_its_share_and_heals(
    server: Server, events: list[tuple[str, Mapping[str, object]]]
) -> None:
    server.kill()
    with Limiter(server.url) as limiter:
        limiter.define(shared())
        with contextlib.ExitStack() as held:
            assert take_all(limiter, held) == 2
        names = [name for name, _ in events]
        assert "limit_degraded" in names
        told = next(fields for name, fields in events if name == "limit_shared")
        assert (told["processes"], told["in_flight"]) == (3, 2)
        server.start()
        until(lambda: "limit_healed" in [name for name, _ in events], 20)
        with contextlib.ExitStack() as held:
            assert take_all(limiter, held) == 6
        assert limiter.usage("api").limit.in_flight == 6


@pytest.mark.slow
def test_three_processes_that_lose_their_store_hold_no_more_than_the_limit_together(server: Server) -> None:
    with contextlib.ExitStack() as opened:
        limiters = [opened.enter_context(Limiter(server.url)) for _ in range(3)]
        for limiter in limiters:
            limiter.define(shared())
            with limiter.slot("api"):
                pass
        server.kill()
        began_at = time.monotonic()
        counts = [take_all(limiter, opened) for limiter in limiters]
        assert counts == [2, 2, 2]
        assert time.monotonic() - began_at < LONG / 2


def test_the_same_check_catches_processes_that_do_not_share() -> None:
    """A semaphore in each process."""
    with contextlib.ExitStack() as opened:
        limiters = [opened.enter_context(Limiter("memory://")) for _ in range(3)]
        for limiter in limiters:
            limiter.define(shared())
        assert [take_all(limiter, opened) for limiter in limiters] == [6, 6, 6]


@pytest.mark.usefixtures("impatient")
def test_calls_that_are_held_count_against_the_share() -> None:
    store = Switchable()
    with Limiter(store) as holder, Limiter(store) as other, contextlib.ExitStack() as opened:
        holder.define(shared())
        slots = [take(holder, 20) for _ in range(4)]
        take(other, 20).release()
        store.down = True
        assert take_all(other, opened) == 2
        with pytest.raises(Busy):
            take(holder, 0.5)  # 4 are held, and its share is 2
        with ThreadPoolExecutor(1) as caller:
            waits = caller.submit(holder.slot("api", timeout_s=30).__enter__)
            for slot in slots[:3]:
                slot.release()
            got = waits.result()
        with pytest.raises(Busy):
            take(holder, 0.2)  # 1 of before and 1 of the share are 2
        slots[3].release()
        take(holder, 10).release()
        got.release()


@pytest.mark.usefixtures("impatient")
def test_without_share_processes_a_store_that_never_answered_is_waited_for(
    events: list[tuple[str, Mapping[str, object]]],
) -> None:
    store = Switchable()
    store.down = True
    with Limiter(store) as limiter:
        with pytest.raises(StoreUnreachable):
            limiter.define(shared(processes=None))
        with pytest.raises(Busy, match="share_processes"), limiter.slot("api", timeout_s=0.4):
            pass
        assert "limit_shared" not in [name for name, _ in events]
        store.down = False
        with limiter.slot("api", timeout_s=20):
            assert limiter.usage("api").in_flight == 1


def test_a_store_that_never_answered_is_an_error_under_the_other_policies() -> None:
    store = Switchable()
    store.down = True
    with Limiter(store) as limiter:
        for policy in ("wait", "fail"):
            with pytest.raises(StoreUnreachable):
                limiter.define(Limit(policy, in_flight=1, when_store_down=policy))
            with pytest.raises(StoreUnreachable), limiter.slot(policy, timeout_s=20):
                pass


@pytest.mark.usefixtures("impatient")
def test_numbers_that_were_defined_without_the_store_are_written_when_it_answers() -> None:
    store = Switchable()
    with Limiter(store) as before:
        before.define(shared(in_flight=3))
    store.down = True
    with Limiter(store) as limiter:
        limiter.define(shared(in_flight=9))
        take(limiter, 20).release()
        assert limiter.usage("api").limit.in_flight == 3
        store.down = False
        until(lambda: limiter.usage("api").limit.in_flight == 9, 20)


@pytest.mark.usefixtures("impatient")
def test_a_share_of_nothing_waits_and_the_part_of_a_window_is_kept() -> None:
    store = Switchable()
    with Limiter(store) as limiter:
        limiter.define(shared(in_flight=2, processes=3))
        limiter.define(
            Limit(
                "rate", windows=[Window(7, per_s=60)], when_store_down="share", share_processes=3, call_timeout_s=LONG
            )
        )
        take(limiter, 20, "rate").release()
        take(limiter, 20).release()
        store.down = True
        with pytest.raises(Busy) as refused:
            take(limiter, 0.3)
        assert refused.value.blocked_by == ("store",)
        granted = 0
        with contextlib.suppress(Busy):
            while granted < 10:
                take(limiter, 0.2 if granted else 10, "rate").release()
                granted += 1
        assert granted == 2, "7 // 3"


def test_the_preset_for_document_ai_shares() -> None:
    limit = preset("docai").limit()
    assert (limit.when_store_down, limit.share_processes, limit.in_flight) == ("share", 5, 5)


def test_a_short_hiccup_begins_no_share(events: list[tuple[str, Mapping[str, object]]]) -> None:
    store = Switchable()
    with Limiter(store) as limiter:
        limiter.define(shared())
        with limiter.slot("api"):
            pass
        store.down = True
        with pytest.raises(Busy), limiter.slot("api", timeout_s=0.2):
            pass
        store.down = False
        with limiter.slot("api", timeout_s=10):
            assert "limit_shared" not in [name for name, _ in events]
