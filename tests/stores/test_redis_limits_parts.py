"""A limit whose parts are gone, one at a time: that is noticed, and nobody gets more than the limit allows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from forebay.errors import StoreError
from forebay.stores.redis.limits import RedisLimits
from forebay.stores.redis.script import Script, keys_of
from forebay.testing.limits.case import (
    HELD_WITH_WINDOWS,
    SECOND,
    chances,
    define,
    problems_of_parts,
    put_stored,
    stored,
)
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_name
from tests.servers.server import Server
from tests.servers.valkey import valkey

IN_FLIGHT, N, PER_S = 3, 6, 1.0
PARTS = ("header", "sessions", "calls", "ends", "line", "unconfirmed", "tails", "windows")
VALUES: dict[str, object] = {"in_flight": IN_FLIGHT, "windows": [[N, PER_S, "calls"]]}


@dataclass
class Provider:
    """Counts what reaches it, and knows nothing of limits."""

    clock: HandClock
    open: set[tuple[str, int]] = field(default_factory=set)
    begun: list[int] = field(default_factory=list)

    def takes(self, process: Process) -> None:
        for call_id in process.calls:
            if (process.sid, call_id) not in self.open:
                self.open.add((process.sid, call_id))
                self.begun.append(self.clock.steady)
        assert len(self.open) <= IN_FLIGHT, f"{len(self.open)} calls in progress"
        recent = [at for at in self.begun if at > self.clock.steady - PER_S * SECOND]
        assert len(recent) <= N, f"{len(recent)} calls in {PER_S} s"

    def answers(self, process: Process) -> None:
        """To all calls of a process, which says so with its next request."""
        self.open -= {(process.sid, call_id) for call_id in process.calls}
        process.ends([*process.calls])


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(valkey_server: Server, clock: HandClock) -> Iterator[RedisLimits]:
    opened = RedisLimits(valkey_server.url, environment=fresh_name(), clock=clock)
    yield opened
    with redis_client(valkey_server.url) as client:
        client.unlink(*keys_of(opened._key(LIMIT)))
    opened.close()


def ask(process: Process) -> None:
    """As a limiter does: a limit that its store does not know is defined again, by what the process remembers."""
    for _ in range(9):
        answer = process.exchanges()
        if answer["status"] == "unknown":
            put_stored(process.store, "code", VALUES, version=process.version)
        elif not answer["has_more"]:
            return
    raise AssertionError("asked for ever")


def busy(store: RedisLimits, clock: HandClock, provider: Provider) -> list[Process]:
    """Return one that holds calls, one that waits, and one that has not heard what it was given and waits for more."""
    define(store, IN_FLIGHT, [(N, PER_S)])
    holds, waits, silent = (Process(store, clock, sid) for sid in ("holds", "waits", "silent"))
    holds.wants(IN_FLIGHT - 1)
    silent.joins(3)
    store.exchange(LIMIT, silent.ask())
    waits.joins(2)
    waits.exchanges()
    provider.takes(holds)
    assert problems_of_parts(store) == []
    return [holds, waits, silent]


def lose(store: RedisLimits, url: str, part: str) -> None:
    with redis_client(url) as client:
        assert client.delete(keys_of(store._key(LIMIT))[PARTS.index(part)]) == 1


def drive(store: RedisLimits, clock: HandClock, url: str, part: str) -> None:
    """Delete the part under callers; nobody gets too much, the loss is noticed, and then all goes on."""
    provider = Provider(clock)
    processes = busy(store, clock, provider)
    holds = processes[0]
    lose(store, url, part)
    processes.append(Process(store, clock, "newcomer"))
    processes[-1].joins(IN_FLIGHT)
    for process in (processes[3], processes[1], processes[2], holds):  # the newcomer remembers nothing
        process.beats()
        ask(process)
        provider.takes(process)
    assert stored(store)["generation"] > 1, "the loss was not noticed"
    assert problems_of_parts(store) == []
    since = clock.steady
    while clock.steady < since + HELD_WITH_WINDOWS + 6 * SECOND:
        clock.move(SECOND)
        for process in processes:
            if process is not holds:
                provider.answers(process)
                if sum(wish["caller_count"] for wish in process.line.values()) < 2:
                    process.joins(2)
            elif clock.steady - since >= HELD_WITH_WINDOWS - SECOND:
                provider.answers(holds)  # no call takes longer, so says the limit
            ask(process)
            provider.takes(process)
    assert len(provider.begun) > 2 * IN_FLIGHT, "nobody got anything when it was safe again"
    assert problems_of_parts(store) == []


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_gone_lets_nobody_have_too_much(
    store: RedisLimits, clock: HandClock, valkey_server: Server, part: str
) -> None:
    drive(store, clock, valkey_server.url, part)


def _break(script: Script, right: str, wrong: str) -> None:
    assert right in script.text
    script.use(script.text.replace(right, wrong))


@pytest.mark.parametrize("part", PARTS)
def test_a_store_that_does_not_look_is_found_out(
    store: RedisLimits, clock: HandClock, valkey_server: Server, part: str
) -> None:
    _break(store._exchange, "if not parts.are_whole(record) then", "if false then")
    _break(store._swap, "local leaves = mark == ''", "local leaves = false")
    with pytest.raises((AssertionError, StoreError)):
        drive(store, clock, valkey_server.url, part)


def test_a_header_that_is_gone_without_a_look_at_what_is_left_lets_newcomers_have_too_much(
    store: RedisLimits, clock: HandClock, valkey_server: Server
) -> None:
    _break(store._swap, "local leaves = mark == ''", "local leaves = false")
    with pytest.raises(AssertionError, match="calls in progress"):
        drive(store, clock, valkey_server.url, "header")


@pytest.mark.parametrize("part", PARTS[1:])
def test_a_change_by_hand_does_not_hide_a_loss(
    store: RedisLimits, clock: HandClock, valkey_server: Server, part: str
) -> None:
    provider = Provider(clock)
    processes = busy(store, clock, provider)
    lose(store, valkey_server.url, part)
    put_stored(store, "operator", {"in_flight": 9})
    assert stored(store)["generation"] == 2
    for process in processes:
        ask(process)
        provider.takes(process)
    assert problems_of_parts(store) == []


def test_a_copy_that_is_put_back_where_the_header_is_gone_counts_what_it_holds(
    store: RedisLimits, clock: HandClock, valkey_server: Server
) -> None:
    processes = busy(store, clock, Provider(clock))
    copy = stored(store)
    lose(store, valkey_server.url, "header")
    store.change(LIMIT, lambda _, __: copy)
    assert stored(store)["generation"] == 2
    assert problems_of_parts(store) == []
    ask(processes[0])
    assert problems_of_parts(store) == []


def _spoil(name: str) -> Callable[[RedisLimits, str], None]:
    def spoil(store: RedisLimits, url: str) -> None:
        key = keys_of(store._key(LIMIT))[PARTS.index(name)]
        with redis_client(url) as client:
            if client.type(key) == b"zset":
                member, score = client.zrange(key, 0, 0, withscores=True)[0]
                client.zadd(key, {member: score + 1})
            else:
                field_name = next(each for each in client.hkeys(key) if each != b"\0")
                client.hdel(key, field_name)

    return spoil


@pytest.mark.parametrize("part", [part for part in PARTS if part != "header"])
def test_the_check_finds_a_part_that_does_not_add_up(
    store: RedisLimits, clock: HandClock, valkey_server: Server, part: str
) -> None:
    busy(store, clock, Provider(clock))
    _spoil(part)(store, valkey_server.url)
    assert problems_of_parts(store) != []


@pytest.mark.slow
def test_a_server_that_drops_keys_when_its_memory_is_full_lets_nobody_have_too_much(clock: HandClock) -> None:
    """Each key may go at any time, the header as well."""
    chance = chances(16)
    with valkey(own=True) as server, redis_client(server.url) as client:
        store = RedisLimits(server.url, environment=fresh_name(), clock=clock)
        provider = Provider(clock)
        processes = busy(store, clock, provider)
        client.config_set("maxmemory-policy", "allkeys-random")
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 200_000)
        losses = set()
        for step in range(1500):
            client.set(f"other-{step}", random.randbytes(5000))
            clock.move(chance.choice([10, 300, 2000]))
            process = chance.choice(processes)
            if chance.random() < 0.5:
                provider.answers(process)
            if not process.line:
                process.joins(chance.choice([1, 3]))
            ask(process)
            provider.takes(process)
            losses.add(stored(store)["generation"])
        assert len(losses) > 3
        assert client.info("stats")["evicted_keys"] > 100
        store.close()
