"""Limits on Valkey and on Redis 6.2 keep the contract."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import count
from typing import ClassVar

import pytest

from forebay.errors import StoreCorrupt
from forebay.model.limit import Limit, Window
from forebay.model.limit_record import Grant, Layer, Record
from forebay.rules import limit_actions as actions
from forebay.stores.limit_base import LimitStore
from forebay.stores.redis.limits import RedisLimits
from forebay.stores.redis.script import keys_of
from forebay.testing.limits import LimitStoreSuite
from forebay.testing.limits.case import define, known, stored
from forebay.testing.limits.hand_clock import HandClock
from forebay.testing.limits.process import LIMIT, Process
from tests.servers.clients import redis_client
from tests.servers.fresh import fresh_name
from tests.servers.redis62 import HAS_WHEEL
from tests.servers.server import Server
from tests.stores.first_build import first_build_processes, first_build_record

PACK_AS_FIRST_BUILD = """
local record = cjson.decode(ARGV[1])
for _, log in pairs(record.logs) do
  local packed = {}
  for at = 1, #log.items, 2 do
    packed[#packed + 1] = struct.pack('>I6I5', log.items[at], log.items[at + 1])
  end
  log.items = table.concat(packed)
end
redis.call('SET', KEYS[1], cmsgpack.pack(record))
"""


class RedisCase(LimitStoreSuite):
    kind: ClassVar[str]
    server: Server
    environment: str

    @pytest.fixture(autouse=True)
    def corner(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """Keys of its own, and none of them left."""
        self.server = request.getfixturevalue(f"{self.kind}_server")
        self.environment = fresh_name()
        self.count = count()
        self.others: list[RedisLimits] = []
        yield
        for store in self.others:
            store.close()
        with redis_client(self.server.url) as client:
            for key in client.scan_iter(match=f"*{self.environment}*", count=1000):
                client.unlink(key)

    def make_store(self, clock: HandClock) -> RedisLimits:
        return RedisLimits(self.server.url, environment=f"{self.environment}-{next(self.count)}", clock=clock)

    def another(self, store: LimitStore, clock: HandClock) -> LimitStore:
        assert isinstance(store, RedisLimits)
        opened = RedisLimits(self.server.url, environment=store._environment, clock=clock)
        self.others.append(opened)
        return opened

    def test_a_limits_keys_have_one_hash_tag_and_are_always_those_that_its_scripts_declare(
        self, store: RedisLimits, a: Process
    ) -> None:
        header = f"{{forebay:{store._environment}:{LIMIT}}}:limit"
        parts = ("sessions", "calls", "ends", "line", "unconfirmed", "tails", "windows")
        declared = {header, *(f"{header}:{part}" for part in parts)}
        assert {*keys_of(header)} == declared
        with redis_client(self.server.url) as client:
            for step in (lambda: define(store, 2, [(9, 1.0)]), lambda: a.wants(5), a.line.clear, a.asks):
                step()
                found = {key.decode() for key in client.scan_iter(match=f"*{self.environment}*")}
                assert found == declared, "those of empty parts, too: a cluster that moves them needs all or none"

    def test_a_change_of_terms_or_a_pause_is_not_overtaken_by_exchanges(self, store: RedisLimits, a: Process) -> None:
        define(store, 2, [(3, 1.0)])
        a.wants(2)
        steps = 0

        def busy(record: Record | None, raw: int) -> Record | None:
            nonlocal steps
            steps += 1
            a.exchanges()
            layer: Layer = {"name": "code", "values": values, "ends_at": -1, "set_at": raw, "set_by": "", "note": ""}
            return actions.configured(record, LIMIT, layer, raw)

        values = actions.values_of(Limit(LIMIT, in_flight=5, windows=(Window(7, per_s=1.0), Window(9, per_s=2.0))))
        store.change(LIMIT, busy)
        assert steps == 1
        changed = stored(store)
        assert changed["eras"][0]["terms"]["in_flight"] == 5
        assert {name: log["sum"] for name, log in changed["window_logs"].items()} == {"calls/1000": 2, "calls/2000": 2}
        assert len(changed["sessions"]["a"]["calls"]) == 2, "what exchanges did meanwhile stays"

        def pause(record: Record | None, raw: int) -> Record | None:
            a.exchanges()
            return actions.paused(known(record), raw, for_ms=None, note="now")

        store.change(LIMIT, pause)
        assert stored(store)["paused_until"] == 0
        assert stored(store)["version"] > changed["version"] + 1

    def test_two_changes_of_terms_do_not_overwrite_each_other(self, store: RedisLimits) -> None:
        define(store, 2)
        steps = 0

        def slow(record: Record | None, raw: int) -> Record | None:
            nonlocal steps
            steps += 1
            if steps == 1:
                define(store, 4, layer="file")
            layer: Layer = {
                "name": "operator",
                "values": {"call_timeout_s": 7.0},
                "ends_at": -1,
                "set_at": raw,
                "set_by": "",
                "note": "",
            }
            return actions.configured(record, LIMIT, layer, raw)

        store.change(LIMIT, slow)
        assert steps == 2
        assert {layer["name"] for layer in stored(store)["layers"]} == {"code", "file", "operator"}

    def test_a_limit_may_have_another_hash_tag(self, clock: HandClock) -> None:
        tag = f"docai_semaphore:{self.environment}"
        store = RedisLimits(self.server.url, environment=self.environment, tags={"docai": tag}, clock=clock)
        assert store.names() == []
        define(store, 2, name="docai")
        define(store, 2, name="other")
        assert store.names() == ["docai", "other"]
        with redis_client(self.server.url) as client:
            assert client.exists(f"{{{tag}}}:limit")
        store.close()

    def test_environments_do_not_see_each_other(self, store: RedisLimits, clock: HandClock) -> None:
        define(store, 2)
        other = RedisLimits(self.server.url, environment=f"{self.environment}-2", clock=clock)
        assert other.names() == []
        assert other.read(LIMIT)[0] is None
        other.close()

    def test_numbers_come_back_as_they_were(self, store: RedisLimits) -> None:
        define(store, 2, [(3, 1 / 3)], call_timeout_s=0.1)

        def step(record: Record | None, now: int) -> Record | None:
            assert record is not None
            record.update(
                {
                    "virtual_time": 1 << 45,
                    "arrival_count": -(1 << 45),
                    "mean_call_ms": (1 << 32) + 1,
                    "clock_offset_ms": -5,
                    "version": 99,
                }
            )
            return record

        changed = store.change(LIMIT, step)
        found, _ = store.read(LIMIT)
        assert found == changed
        assert found is not None
        assert all(
            type(each) is int
            for each in (found["virtual_time"], found["arrival_count"], found["mean_call_ms"], found["clock_offset_ms"])
        )
        assert found["layers"][0]["values"]["windows"] == [[3, 1 / 3, "calls"]]

    def test_the_clock_is_the_servers_and_can_be_shifted(self) -> None:
        store = RedisLimits(self.server.url, environment=self.environment)
        with redis_client(self.server.url) as client:
            seconds, micros = client.time()
        now = store.read(LIMIT)[1]
        assert 0 <= now - (seconds * 1000 + micros // 1000) < 1000
        store.shift = 3_600_000
        assert 0 <= store.read(LIMIT)[1] - now - 3_600_000 < 1000
        store.close()

    def test_a_script_that_the_server_forgot_is_sent_again(self, store: RedisLimits, a: Process) -> None:
        define(store, 2)
        a.wants()
        with redis_client(self.server.url) as client:
            client.script_flush()
        assert len(a.wants()) == 1

    def test_a_record_of_the_first_build_is_taken_over(self, store: RedisLimits, clock: HandClock) -> None:
        holder, waiter = first_build_processes(clock)
        record = json.loads(first_build_record())
        record["layers"] = json.dumps(record["layers"])
        with redis_client(self.server.url) as client:
            client.eval(PACK_AS_FIRST_BUILD, 1, store._key(LIMIT), json.dumps(record))
        found = stored(store)
        assert found["tails"]["k"]["run_count"] == 1
        assert {sid: seat["due_at"] == seat["ends_at"] for sid, seat in found["sessions"].items()} == {
            "dead": False,
            "holder": True,
            "waiter": True,
        }
        holder.store = waiter.store = store
        assert holder.gives_back([*holder.calls]) == []
        assert waiter.exchanges()["generation"] == 1
        assert len(waiter.calls) == 1
        assert found["layers"] == stored(store)["layers"]
        assert store.check(LIMIT) == []

    def test_a_key_of_somebody_elses_is_said_to_be_that(self, store: RedisLimits, a: Process) -> None:
        with redis_client(self.server.url) as client:
            client.set(store._key(LIMIT), "no record")
            with pytest.raises(StoreCorrupt):
                a.asks()
            client.delete(store._key(LIMIT))
            client.hset(store._key(LIMIT), "field", "value")
            with pytest.raises(StoreCorrupt):
                a.asks()
            client.delete(store._key(LIMIT))

    def test_many_sessions_are_heard_on_one_connection(self, store: RedisLimits, clock: HandClock) -> None:
        define(store, 1)
        heard: list[str] = []
        done = threading.Event()

        def wake(limit: str, grants: list[Grant], now: int) -> None:
            heard.append(limit)
            done.set()

        before = threading.active_count()
        stops = [store.listen(f"s{at}", wake) for at in range(20)]
        assert threading.active_count() == before + 1
        holder, waiter = Process(store, clock, "holder"), Process(store, clock, "s7")
        held = holder.wants()
        waiter.wants()
        holder.gives_back(held)
        assert done.wait(60)
        for stop in stops:
            stop()
        assert heard == [LIMIT]


class TestOnValkey(RedisCase):
    kind = "valkey"


@pytest.mark.skipif(not HAS_WHEEL, reason="Redis 6.2 has a wheel for Linux and Python 3.11 only")
@pytest.mark.slow
class TestOnRedis62(RedisCase):
    kind = "redis62"
